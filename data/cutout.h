/// Cutout: a square of zeros somewhere in the image.
#pragma once
#include <tandem/data/transform.h>

namespace tandem::data {

/// Sets a square to zero whose centre is anywhere in the image, so that it may stick out (DeVries and Taylor, 2017).
/// As a chain's last step, after Normalize, zero is the mean.
class TANDEM_API Cutout : public TransformStep {
 public:
  /// Throws Error unless length is positive.
  explicit Cutout(int64_t length);
  std::string name() const override;
  bool random() const override { return true; }
  bool join(AugmentOptions& pass, int draw) const override;

 private:
  int64_t length_;
};

}  // namespace tandem::data
