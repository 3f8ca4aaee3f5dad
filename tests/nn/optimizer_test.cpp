#include "tests/nn/support.h"
#include "tests/support/guard_pool.h"
#include "tests/support/test_device.h"

#include <tandem/nn/adam.h>
#include <tandem/nn/clip_grad.h>
#include <tandem/nn/module.h>
#include <tandem/nn/sgd.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor parameter(const Dims& shape, TensorOptions o = {}) { return random_tensor(shape, o).set_requires_grad(); }

// How many passes over memory a step takes.
int runs(std::span<const Tensor> params, int64_t first_offset = 0) {
  std::vector<ParamRow> rows;
  int64_t offset = first_offset;
  for (size_t i = params.size(); i--;) {
    rows.push_back({.leaf = params[i].leaf(), .state_offset = offset});
    offset += rows.back().extent();
  }
  int n = 0;
  for_each_run<float>(rows, [&](size_t, size_t, int64_t) { ++n; });
  return n;
}

void backward_on(std::span<const Tensor> params) {
  for (auto& p : params) p.backward(ones(p.shape(), {.dtype = p.dtype(), .device = p.device()}));
}

struct Body : nn::Module {
  Tensor a = random_tensor({3, 2}, {}), b = random_tensor({2}, {});
  Tensor c = random_tensor({2, 3, 3, 3}, {.layout = Layout::channels_last});
  Body() {
    add("a", a);
    add("b", b);
    add("c", c);
  }
};

}  // namespace

TEST_CASE("an optimizer lays its parameters out flat: one pass a step") {
  std::vector<Tensor> params{parameter({3, 2}), parameter({2}),
                             parameter({2, 3, 3, 3}, {.layout = Layout::channels_last})};
  Tensor view = params[0].detach();
  auto before = params[0].to_vector();
  params[1].backward(full({2}, 5));
  Tensor grad = params[1].grad();
  nn::SGD optimizer(params);
  CHECK(params[0].to_vector() == before);
  CHECK(view.raw() == params[0].raw());
  CHECK(params[1].grad().to_vector() == std::vector<float>{5, 5});
  CHECK(grad.raw() == params[1].grad().raw());
  CHECK(!params[0].grad().defined());
  CHECK(runs(params) == 1);  // only b has a gradient
  backward_on(params);
  CHECK(runs(params) == 1);
}

TEST_CASE("two optimizers share a model") {
  std::vector<Tensor> params{parameter({3}), parameter({4}), parameter({5})};
  nn::SGD all(params, {.lr = 1});
  void* memory = params[0].raw();
  nn::SGD some({params[0], params[2]}, {.lr = 10, .momentum = 0.9});
  CHECK(params[0].raw() == memory);
  auto before = params[0].to_vector();
  backward_on(params);
  some.step();
  all.step();
  CHECK(params[0].to_vector()[0] == doctest::Approx(before[0] - 11));
  CHECK(runs(params) == 1);
}

TEST_CASE("an optimizer takes leaves that require grad, each once") {
  Tensor p = parameter({2}), frozen = zeros({3}), none;
  auto message_of = [&](std::vector<Tensor> params) { return error_of([&] { nn::SGD o(params); }); };
  CHECK(message_of({p, p}) == "[SGD] parameter 1 of shape [2] is given twice");
  CHECK(says(message_of({p, frozen}), "[SGD] parameter 1 of shape [3] does not require grad"));
  CHECK(says(message_of({p, none}), "parameter 1 is undefined"));
  CHECK(says(message_of({}), "without parameters"));
  nn::SGD optimizer({p});
  CHECK(says(error_of([&] { optimizer.add_param_group({p}, {}); }), "given twice"));
  CHECK(optimizer.param_groups().size() == 1);
}

TEST_CASE("a parameter in foreign memory, or of no elements, is updated like any other" * cpu_only()) {
  float mine[2] = {1, 2};
  Tensor a = from_blob(mine, {2}, {}, {.requires_grad = true}), b = parameter({3}), nothing = parameter({0});
  nn::SGD optimizer({a, b, nothing}, {.lr = 1, .momentum = 0.5});
  backward_on(std::vector{a, b, nothing});
  optimizer.step();
  CHECK(mine[0] == 0);
  CHECK(mine[1] == 1);
}

TEST_CASE("a frozen parameter stays, a thawed one goes on") {
  std::vector<Tensor> params{parameter({2}), parameter({3})};
  nn::SGD optimizer(params, {.lr = 1, .momentum = 0.5});
  auto step = [&] {
    optimizer.zero_grad();
    for (auto& p : params)
      if (p.requires_grad()) p.backward(ones(p.shape()));
    optimizer.step();
  };
  step();
  auto v = params[0].to_vector();
  params[0].set_requires_grad(false);
  step();
  CHECK(params[0].to_vector() == v);
  params[0].set_requires_grad();
  step();
  CHECK(params[0].to_vector()[0] == doctest::Approx(v[0] - 1.5));  // its momentum was kept
  optimizer.zero_grad();
  CHECK(!params[0].grad().defined());
  backward_on(params);
  CHECK(runs(params) == 1);
}

TEST_CASE("the state follows a module to another device and dtype") {
  set_cpu_devices(2);
  Body moved, straight;
  moved.load_state_dict(straight.state_dict());
  nn::SGD a(moved.parameters(), {.lr = 0.1, .momentum = 0.9}), b(straight.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = [](nn::SGD& o, Body& m) {
    o.zero_grad();
    for (auto& p : m.parameters()) p.backward(full(p.shape(), 0.5, {.dtype = p.dtype(), .device = p.device()}));
    o.step();
  };
  step(a, moved);
  step(b, straight);
  moved.to(cpu(1));
  step(a, moved);
  step(b, straight);
  CHECK(moved.c.device() == cpu(1));
  CHECK(a.state_dict()[0].second.device() == cpu(1));
  CHECK(moved.c.to_vector() == straight.c.to_vector());
  CHECK(runs(moved.parameters()) == 1);
  moved.to(cpu(0));
  moved.to(Dtype::f64);
  step(a, moved);
  step(b, straight);
  CHECK(max_difference(moved.c, straight.c) < 1e-6);
}

TEST_CASE("the state is named by parameter and group, in the parameters' own order") {
  Body m;
  nn::SGD optimizer(m.parameters(), {.lr = 0.1, .momentum = 0.9});
  Tensor g = random_tensor(m.c.shape(), {});
  m.c.backward(g);
  optimizer.step();
  std::vector<std::string> keys;
  for (auto& [key, t] : optimizer.state_dict()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"momentum_buffer.2", "group0.lr", "group0.weight_decay", "group0.maximize",
                                         "group0.momentum", "group0.dampening", "group0.nesterov"});
  auto state = optimizer.state_dict();
  CHECK(state[0].second.shape() == m.c.shape());
  CHECK(state[0].second.to_vector() == g.to_vector());
  CHECK(state[1].second.item<double>() == 0.1);
  CHECK(state[3].second.dtype() == Dtype::i64);
}

TEST_CASE("a run that loads its state goes on bit for bit") {
  Body straight, resumed;
  nn::SGD a(straight.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  a.param_groups()[0].initial_lr = 0.1;
  auto step = [](nn::SGD& o, Body& m, int k) {
    o.zero_grad();
    for (auto& p : m.parameters())
      if (k > 0 || p.dim() > 1) p.backward(full(p.shape(), 0.3 + k));
    o.step();
  };
  step(a, straight, 0);
  a.param_groups()[0].lr = 0.05;
  nn::NamedTensors saved;
  for (auto& [key, t] : a.state_dict()) saved.emplace_back(key, t.clone());
  resumed.load_state_dict(straight.state_dict());
  nn::SGD b(resumed.parameters(), {.lr = 1, .momentum = 0.5});
  step(b, resumed, 3);  // whatever it held before is gone
  resumed.load_state_dict(straight.state_dict());
  b.load_state_dict(saved);
  CHECK(b.param_groups()[0].lr == 0.05);
  CHECK(b.param_groups()[0].initial_lr == 0.1);
  for (int k = 1; k < 4; ++k) {
    step(a, straight, k);
    step(b, resumed, k);
  }
  for (auto& [name, p] : resumed.named_parameters()) {
    INFO(name);
    CHECK(same_bits(p, name == "a" ? straight.a : name == "b" ? straight.b : straight.c));
  }
}

TEST_CASE("a state that does not fit is listed, and changes nothing") {
  Body m;
  nn::SGD optimizer(m.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto state = optimizer.state_dict();
  state.erase(state.begin());  // group0.lr
  state.emplace_back("group1.lr", zeros({}));
  state.emplace_back("momentum_buffer.1", zeros({7}));
  state[0].second = ones({}, {.dtype = Dtype::f64});  // weight decay
  CHECK(error_of([&] { optimizer.load_state_dict(state); }) ==
        "[load_state_dict] this state does not fit SGD with 1 groups and 3 parameters:\n  unexpected: group1.lr\n"
        "  misshapen: momentum_buffer.1 [7], not [2]\n  missing: group0.lr");
  CHECK(optimizer.param_groups()[0].weight_decay == 0);
}

TEST_CASE("step changes the parameters' versions, and neither it nor zero_grad takes memory") {
  std::vector<Tensor> params{parameter({40, 30}), parameter({30})};
  nn::SGD optimizer(params, {.lr = 0.1, .momentum = 0.9});
  const uint32_t version = params[0].storage()->version;
  backward_on(params);
  optimizer.step();
  CHECK(params[0].storage()->version == version + 1);
  const size_t allocated = memory_allocated(), peak = max_memory_allocated();
  for (int i = 0; i < 3; ++i) {
    optimizer.step();
    optimizer.zero_grad();
    optimizer.step();  // of nothing
  }
  CHECK(params[0].storage()->version == version + 2);
  CHECK(memory_allocated() == allocated);
  CHECK(max_memory_allocated() == peak);
}

TEST_CASE("passes over runs stay inside their memory, and the gaps between parameters do no harm") {
  auto train = [] {
    std::vector<Tensor> params;
    for (int64_t n : {3, 17, 64, 5}) params.push_back(full({n}, 0.5, {.requires_grad = true}));
    nn::SGD sgd(params, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    nn::Adam adam(params, {.amsgrad = true});
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      for (size_t k = 0; k < params.size(); ++k)
        if (i != 1 || k != 2) params[k].backward(full(params[k].shape(), 0.25));
      nn::clip_grad_norm_(params, 0.1);
      sgd.step();
      adam.step();
    }
    std::vector<std::vector<float>> values;
    for (auto& p : params) values.push_back(p.to_vector());
    return values;
  };
  const auto plain = train();
  GuardPool guarded;  // its memory begins as NaN
  {
    PoolGuard in_force(guarded);
    CHECK(train() == plain);
    CHECK(guarded.violations() == 0);
  }
  CHECK(guarded.violations() == 0);
}
