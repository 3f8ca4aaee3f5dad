#include <tandem/core/autograd.h>
#include <tandem/core/checkpoint.h>
#include <tandem/core/generator.h>
#include <tandem/core/record.h>

#include <algorithm>

namespace tandem {

Tensor checkpoint(std::function<Tensor(std::span<const Tensor>)> fn, const std::vector<Tensor>& inputs) {
  if (!context().grad) return fn(inputs);
  // Leaves that require grad as the inputs do, so that each run knows which want gradients.
  auto fresh_inputs = [](const std::vector<Tensor>& of) {
    std::vector<Tensor> r;
    for (auto& x : of) {
      Tensor t = x ? x.detach() : Tensor();
      if (x && x.requires_grad()) t.set_requires_grad();
      r.push_back(std::move(t));
    }
    return r;
  };
  const std::vector<Tensor> kept = fresh_inputs(inputs);
  std::vector<Ref<Node>> in;
  for (auto& x : inputs) in.push_back(x ? x.node() : Ref<Node>());
  const RandomStep random_before = context().random;
  const Generator generator_before = default_generator();
  Tensor y;
  {
    Tensor t = fn(kept);  // with the tape, to learn which leaves it reaches; what it saved dies here
    if (!t.requires_grad()) return t;
    for (Leaf* l : finish_order(t)) {
      bool is_input = std::any_of(kept.begin(), kept.end(), [&](auto& k) { return k && k.leaf() == l; });
      if (!is_input) in.emplace_back(l);
    }
    y = t.detach();
  }
  auto again = [fn = std::move(fn), kept, fresh_inputs, random_before, generator_before](Tensor& gy, Targets t) {
    EnableGradGuard enable;
    struct Random {  // the second run draws what the first drew, and leaves no trace of it
      RandomStep step = context().random;
      Generator generator = default_generator();
      ~Random() {
        context().random = step;
        default_generator() = generator;
      }
    } restore;
    context().random = random_before;
    default_generator() = generator_before;
    std::vector<Tensor> x = fresh_inputs(kept);
    Tensor y = fn(x);
    backward(std::span(&y, 1), std::span(&gy, 1), {.nested = true});
    for (size_t i = 0; i < x.size(); ++i)
      if (t[i] && x[i])
        if (Tensor g = x[i].grad()) t[i].give(g);
  };
  return detail::attach(new detail::ClosureNode<decltype(again)>(std::move(again)), "checkpoint", y, in);
}

}  // namespace tandem
