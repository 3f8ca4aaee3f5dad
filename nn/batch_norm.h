/// Batch normalisation of images (torch.nn.BatchNorm2d).
#pragma once
#include <tandem/nn/module.h>
#include <tandem/ops/moment_exchange.h>

#include <optional>

namespace tandem::nn {

struct TANDEM_API BatchNorm2d : Module {
  struct Options {
    double eps = 1e-5;
    /// Weight of the new value in the running statistics; none: they are the mean over all batches so far (whose number
    /// is then read on the host at each step).
    std::optional<double> momentum = 0.1;
    bool affine = true;               // weight and bias
    bool track_running_stats = true;  // without, the batch's own statistics are used in evaluation too
    Dtype dtype = Dtype::f32;
    Device device = current_device();
  };
  explicit BatchNorm2d(int64_t num_features) : BatchNorm2d(num_features, Options()) {}
  BatchNorm2d(int64_t num_features, Options options);

  /// [n, num_features, h, w]. Throws ShapeError for anything else, and in training for one value per channel.
  Tensor forward(const Tensor& x) override;
  /// Running statistics as at the start: mean 0, variance 1.
  void reset_running_stats();
  /// That, and weight 1, bias 0.
  void reset_parameters();
  std::string extra_repr() const override;

  const int64_t num_features;
  const Options options;
  Tensor weight, bias;               // [num_features], or undefined
  Tensor running_mean, running_var;  // [num_features], or undefined
  Tensor num_batches_tracked;        // i64 [], or undefined
  /// Set by convert_sync_batchnorm (parallel/sync_batch_norm.h): in training, statistics are those of all ranks.
  std::shared_ptr<MomentExchange> exchange;
};

}  // namespace tandem::nn
