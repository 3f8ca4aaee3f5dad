#include <tandem/data/to_tensor.h>

namespace tandem::data {

bool ToTensor::join(AugmentOptions& pass, int) const {
  if (pass.to_float || !pass.mean.empty() || pass.cutout) return false;
  return pass.to_float = true;
}

}  // namespace tandem::data
