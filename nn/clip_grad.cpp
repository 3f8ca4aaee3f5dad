#include <tandem/core/copy.h>
#include <tandem/nn/clip_grad.h>
#include <tandem/ops/grad_norm.h>

#include <cmath>

namespace tandem::nn {
namespace {

std::vector<Tensor> gradients_of(const char* op, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> grads;
  for (auto& p : parameters)
    if (p)
      if (Tensor g = p.grad()) grads.push_back(g);
  for (auto& g : grads)
    check<DeviceError>(g.device() == grads[0].device(), "[", op, "] one gradient is on ", grads[0].device(),
                       ", another on ", g.device());
  return grads;
}

void count_change(const std::vector<Tensor>& grads) {
  for (auto& g : grads) g.storage()->bump();
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  check(norm_type > 0, "[clip_grad_norm_] norm_type is ", norm_type, ", and has to be positive or infinity");
  std::vector<Tensor> grads = gradients_of("clip_grad_norm_", parameters);
  if (grads.empty()) return zeros({});
  const Device device = grads[0].device();
  Tensor norm = empty({}, {.dtype = Dtype::f64, .device = device});
  const std::span<const Tensor> list(grads);
  grad_norm(device, norm, list, norm_type);
  check(!error_if_nonfinite || std::isfinite(norm.item<double>()), "[clip_grad_norm_] the gradients' norm of order ",
        norm_type, " is not finite");
  grad_scale(device, list, norm, max_norm);
  count_change(grads);
  return grads[0].dtype() == Dtype::f64 ? norm : copy_of(norm, {.dtype = grads[0].dtype(), .device = device});
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  check(clip_value >= 0, "[clip_grad_value_] clip_value is ", clip_value, ", and may not be negative");
  std::vector<Tensor> grads = gradients_of("clip_grad_value_", parameters);
  if (grads.empty()) return;
  grad_clamp(grads[0].device(), std::span<const Tensor>(grads), clip_value);
  count_change(grads);
}

}  // namespace tandem::nn
