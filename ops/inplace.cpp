#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/broadcast.h>
#include <tandem/ops/cast.h>
#include <tandem/ops/inplace.h>
#include <tandem/ops/view.h>

#include <cmath>

namespace tandem {

bool require_changeable(const char* op, const Tensor& x, std::initializer_list<TensorRef> others) {
  for (int d = 0; d < x.dim(); ++d)
    check<ShapeError>(x.strides()[d] != 0 || x.shape()[d] <= 1, "[", op, "] a tensor of shape ", x.shape(),
                      " that was expanded along dimension ", d, " holds the same element more than once: clone() it");
  if (!context().grad) return false;
  check(!x.requires_grad() || !x.is_leaf(), "[", op,
        "] a leaf that requires grad can't be changed in place while ops are recorded: NoGradGuard stops recording");
  if (!is_floating(x.dtype()) || (!x.requires_grad() && !wants_grad(others))) return false;
  check(x.storage().count() == 1, "[", op, "] other tensors share the memory of this one of shape ", x.shape(),
        " (a view, a detached alias, or what an op saved for backward), and would not follow the change: use the op "
        "that makes a new tensor");
  return true;
}

namespace {

constexpr OpId kAdd{"add_"};
constexpr OpId kMul{"mul_"};
constexpr OpId kCopy{"copy_"};
constexpr OpId kFill{"fill_"};
constexpr OpId kZero{"zero_"};

void require_fits(const char* op, const Tensor& x, const Tensor& other) {
  check<ShapeError>(broadcast_shapes(op, x.shape(), other.shape()) == x.shape(), "[", op, "] ", other.shape(),
                    " does not broadcast into ", x.shape());
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.impl()->offset == b.impl()->offset && a.shape() == b.shape() && a.strides() == b.strides();
}

// An op that is recorded: its like out of place does it, on the tensor as it was, and the result takes its place.
template <class Op>
void recorded(Tensor x, Op op) {
  Tensor before = copy_of(x, x.options());
  before.impl()->node = x.node();
  Tensor y = to(op(before), x.dtype());
  copy_into({x, 0}, y);
  x.impl()->node = y.node();
  x.node()->meta.strides = dense_strides(x.shape(), x.layout());  // what x's users expect of its gradient
}

// x = kernel(x, other) where nothing is recorded: over x itself where it is dense and of the op's dtype.
template <class Kernel>
void unrecorded(const char* op, Tensor x, const Tensor& other, Kernel kernel) {
  const Dtype dtype = result_dtype(x, other);
  check<DtypeError>(is_floating(x.dtype()) || (dtype == x.dtype()), "[", op, "] a result of ", dtype,
                    " does not go into a tensor of ", x.dtype());
  const bool overlaps = x.storage() == other.storage() && !same_elements(x, other);
  const Layout layout = x.layout();
  Tensor a = stretched(x, dtype, x.shape(), layout);
  Tensor b = stretched(overlaps ? copy_of(other, other.options()) : other, dtype, x.shape(), layout);
  const bool over = a.is_same(x);
  Tensor y = over ? x : empty_like(a);
  kernel(y, a, b);
  if (!over) copy_into({x, 0}, y);
}

// The same with a number in place of another tensor.
template <class Kernel>
void unrecorded(const char* op, Tensor x, double value, Kernel kernel) {
  check<DtypeError>(is_floating(x.dtype()) || value == std::trunc(value), "[", op, "] ", value,
                    " does not go into a tensor of ", x.dtype());
  if (x.is_dense_in_any_layout()) return kernel(x, x);
  Tensor y = as_dense(x);
  kernel(y, y);
  copy_into({x, 0}, y);
}

}  // namespace

Tensor& Tensor::add_(const Tensor& other_in, double alpha) {
  auto [x, other] = enter(kAdd, *this, other_in);
  require_same_device("add_", {&x, &other});
  require_fits("add_", x, other);
  check<DtypeError>(is_floating(x.dtype()) || alpha == std::trunc(alpha), "[add_] alpha ", alpha, " for ", x.dtype());
  if (require_changeable("add_", x, {other}))
    recorded(x, [&](const Tensor& before) { return add(before, x.is_same(other) ? before : other, alpha); });
  else
    unrecorded("add_", x, other,
               [&](Tensor& y, const Tensor& a, const Tensor& b) { add_forward(y.device(), y, a, b, alpha); });
  x.storage()->bump();
  return *this;
}

Tensor& Tensor::add_(double value) {
  auto [x] = enter(kAdd, *this);
  if (require_changeable("add_", x))
    recorded(x, [&](const Tensor& before) { return add(before, value); });
  else
    unrecorded("add_", x, value, [&](Tensor& y, const Tensor& a) { shift_forward(y.device(), y, a, value); });
  x.storage()->bump();
  return *this;
}

Tensor& Tensor::mul_(const Tensor& other_in) {
  auto [x, other] = enter(kMul, *this, other_in);
  require_same_device("mul_", {&x, &other});
  require_fits("mul_", x, other);
  if (require_changeable("mul_", x, {other}))
    recorded(x, [&](const Tensor& before) { return mul(before, x.is_same(other) ? before : other); });
  else
    unrecorded("mul_", x, other, [&](Tensor& y, const Tensor& a, const Tensor& b) {
      mul_forward(y.device(), Out{y, 0}, a, b);
    });
  x.storage()->bump();
  return *this;
}

Tensor& Tensor::mul_(double value) {
  auto [x] = enter(kMul, *this);
  if (require_changeable("mul_", x))
    recorded(x, [&](const Tensor& before) { return mul(before, value); });
  else
    unrecorded("mul_", x, value, [&](Tensor& y, const Tensor& a) { scale_forward(y.device(), Out{y, 0}, a, value); });
  x.storage()->bump();
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source_in) {
  auto [x, source] = enter(kCopy, *this, source_in);
  require_fits("copy_", x, source);
  if (x.is_same(source)) return *this;
  const bool changes_graph = require_changeable("copy_", x, {source});
  Tensor from = source.detach().expand(x.shape());
  if (x.storage() == source.storage() && !same_elements(x, from)) from = copy_of(from, from.options());
  copy_into({x, 0}, from);
  x.storage()->bump();
  if (!changes_graph) return *this;
  x.impl()->node = {};
  record("copy_", x, {source}, [](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(sum_to(gy, t[0].shape()));  // which converts, and goes to the source's device
  });
  return *this;
}

Tensor& Tensor::fill_(double value) {
  auto [x] = enter(kFill, *this);
  const bool changes_graph = require_changeable("fill_", x);
  Tensor y = x;
  fill_into(y, value);
  x.storage()->bump();
  if (changes_graph) x.impl()->node = {};
  return *this;
}

Tensor& Tensor::zero_() {
  auto [x] = enter(kZero, *this);
  const bool changes_graph = require_changeable("zero_", x);
  Tensor y = x;
  fill_into(y, 0);
  x.storage()->bump();
  if (changes_graph) x.impl()->node = {};
  return *this;
}

}  // namespace tandem
