/// ToTensor: bytes to numbers from 0 to 1.
#pragma once
#include <tandem/data/transform.h>

namespace tandem::data {

/// Bytes to f32, divided by 255; floating images stay as they are (torchvision.transforms.ToTensor).
class TANDEM_API ToTensor : public TransformStep {
 public:
  std::string name() const override { return "ToTensor()"; }
  bool join(AugmentOptions& pass, int draw) const override;
};

}  // namespace tandem::data
