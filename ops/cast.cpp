#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/cast.h>

namespace tandem {
namespace {

constexpr OpId kTo{"to"};
constexpr OpId kClone{"clone"};

// The gradient of a copy is a copy back; give() converts and moves where dtype or device differ.
Tensor recorded_copy(const char* name, const Tensor& x, const TensorOptions& o) {
  Tensor y = copy_of(x, o);
  if (!is_floating(o.dtype)) return y;
  return record(name, std::move(y), {x}, [](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(std::move(gy));
  });
}

}  // namespace

Tensor to(const Tensor& x_in, Dtype dtype) {
  auto [x] = enter(kTo, x_in);
  if (x.dtype() == dtype) return x;
  return recorded_copy("to", x, {.dtype = dtype, .device = x.device(), .layout = x.layout()});
}

Tensor to(const Tensor& x_in, Device device) {
  auto [x] = enter(kTo, x_in);
  if (x.device() == device) return x;
  require_device(device);
  return recorded_copy("to", x, {.dtype = x.dtype(), .device = device, .layout = x.layout()});
}

Tensor clone(const Tensor& x_in) {
  auto [x] = enter(kClone, x_in);
  return recorded_copy("clone", x, x.options());
}

Tensor Tensor::to(Dtype dtype) const { return tandem::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return tandem::to(*this, device); }
Tensor Tensor::clone() const { return tandem::clone(*this); }

}  // namespace tandem
