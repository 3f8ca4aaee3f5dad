/// Normalize: subtract a mean, divide by a deviation, channel by channel.
#pragma once
#include <tandem/data/transform.h>

namespace tandem::data {

/// (x - mean) / std per channel, in f32 (torchvision.transforms.Normalize, the same bits). Takes floating images.
class TANDEM_API Normalize : public TransformStep {
 public:
  /// One value per channel, or one for all. Throws Error where the counts differ or a std is 0.
  Normalize(std::vector<double> mean, std::vector<double> std);
  std::string name() const override;
  bool join(AugmentOptions& pass, int draw) const override;

 private:
  std::vector<double> mean_, std_;
};

}  // namespace tandem::data
