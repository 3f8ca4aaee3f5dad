#include <tandem/nn/batch_norm.h>
#include <tandem/nn/init.h>
#include <tandem/nn/repr.h>
#include <tandem/ops/batch_norm.h>
#include <tandem/ops/inplace.h>

namespace tandem::nn {

BatchNorm2d::BatchNorm2d(int64_t features, Options o) : num_features(features), options(o) {
  const TensorOptions t{.dtype = o.dtype, .device = o.device};
  if (o.affine) {
    weight = empty({features}, t);
    bias = empty({features}, t);
  }
  if (o.track_running_stats) {
    running_mean = empty({features}, t);
    running_var = empty({features}, t);
    num_batches_tracked = empty({}, {.dtype = Dtype::i64, .device = o.device});
  }
  add("weight", weight);
  add("bias", bias);
  add_buffer("running_mean", running_mean);
  add_buffer("running_var", running_var);
  add_buffer("num_batches_tracked", num_batches_tracked);
  reset_parameters();
}

void BatchNorm2d::reset_running_stats() {
  if (!options.track_running_stats) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

void BatchNorm2d::reset_parameters() {
  reset_running_stats();
  if (!options.affine) return;
  init::ones_(weight);
  init::zeros_(bias);
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  check<ShapeError>(x.dim() == 4 && x.size(1) == num_features, "[BatchNorm2d] input has shape ", x.shape(),
                    ", wanted is [n,", num_features, ",h,w]");
  const bool tracks = options.track_running_stats;
  double momentum = options.momentum.value_or(0);
  if (is_training() && tracks) {
    num_batches_tracked.add_(1);
    if (!options.momentum) momentum = 1 / num_batches_tracked.item<double>();
  }
  return batch_norm(x, weight, bias, running_mean, running_var,
                    {.training = is_training() || !tracks,
                     .momentum = momentum,
                     .eps = options.eps,
                     .exchange = is_training() ? exchange : nullptr});
}

std::string BatchNorm2d::extra_repr() const {
  return message(num_features, ", eps=", options.eps,
                 ", momentum=", options.momentum ? message(*options.momentum) : std::string("None"),
                 ", affine=", repr(options.affine), ", track_running_stats=", repr(options.track_running_stats));
}

}  // namespace tandem::nn
