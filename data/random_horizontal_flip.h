/// RandomHorizontalFlip: left becomes right.
#pragma once
#include <tandem/data/transform.h>

namespace tandem::data {

/// Mirrors an image with probability p (torchvision.transforms.RandomHorizontalFlip).
class TANDEM_API RandomHorizontalFlip : public TransformStep {
 public:
  /// Throws Error unless 0 <= p <= 1.
  explicit RandomHorizontalFlip(double p = 0.5);
  std::string name() const override;
  bool random() const override { return true; }
  bool join(AugmentOptions& pass, int draw) const override;

 private:
  double p_;
};

}  // namespace tandem::data
