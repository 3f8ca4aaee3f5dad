/// How an op puts itself on the tape: compute the result, then `return record(name, y, {inputs}, closure)`. The closure
/// holds what it needs as Saved, never its own result's handle (a cycle), only a detached alias of it.
#pragma once
#include <tandem/core/node.h>

namespace tandem {

/// A tensor as it was when saved: reading it after it was changed in place is an error that names the op.
class TANDEM_API Saved {
 public:
  Saved() = default;
  Saved(const char* op, const Tensor& t) : t_(t ? t.detach() : Tensor()), op_(op) {
    if (t_) version_ = t_.storage()->version.load(std::memory_order_relaxed);
  }
  const Tensor& operator()() const {
    if (t_ && t_.storage()->version.load(std::memory_order_relaxed) != version_) [[unlikely]]
      throw_changed();
    return t_;
  }

 private:
  [[noreturn]] void throw_changed() const;
  Tensor t_;
  uint32_t version_ = 0;
  const char* op_ = "";
};

struct TensorRef {
  const Tensor* t;
  TensorRef(const Tensor& x) : t(&x) {}  // NOLINT: implicit, so that {x, w, b} makes a list
};

/// Whether an op of these inputs would be recorded. Undefined inputs count as constants.
inline bool wants_grad(std::span<const TensorRef> in) {
  if (!context().grad) return false;
  for (auto& r : in)
    if (*r.t && r.t->node()) return true;
  return false;
}
inline bool wants_grad(std::initializer_list<TensorRef> in) {
  return wants_grad(std::span<const TensorRef>(in.begin(), in.size()));
}

namespace detail {
TANDEM_API Tensor attach(Node* n, const char* name, Tensor y, std::span<const TensorRef> in);
TANDEM_API Tensor attach(Node* n, const char* name, Tensor y, std::span<const Ref<Node>> in);

template <class F>
struct ClosureNode final : Node {
  union {
    F closure;
  };
  explicit ClosureNode(F&& f) : closure(std::move(f)) {}
  ~ClosureNode() override { ClosureNode::drop(); }
  void run(Tensor& gy, Targets t) override { closure(gy, t); }
  void drop() override {
    if (freed) return;
    freed = true;
    std::destroy_at(&closure);
  }
};
}  // namespace detail

/// y as the result of an op of `in`; f(Tensor& gy, Targets t) has one target per input, in order. Without grad mode, or
/// where no input requires grad, y comes back as it is and f is dropped.
template <class F>
Tensor record(const char* name, Tensor y, std::span<const TensorRef> in, F f) {
  if (!wants_grad(in)) return y;
  return detail::attach(new detail::ClosureNode<F>(std::move(f)), name, std::move(y), in);
}
template <class F>
Tensor record(const char* name, Tensor y, std::initializer_list<TensorRef> in, F f) {
  return record(name, std::move(y), std::span<const TensorRef>(in.begin(), in.size()), std::move(f));
}

}  // namespace tandem
