#include <tandem/data/random_horizontal_flip.h>

namespace tandem::data {

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  check(p >= 0 && p <= 1, "[RandomHorizontalFlip] probability ", p);
}

std::string RandomHorizontalFlip::name() const { return message("RandomHorizontalFlip(p=", p_, ")"); }

bool RandomHorizontalFlip::join(AugmentOptions& pass, int draw) const {
  if (pass.flip || pass.cutout) return false;  // before or after scaling makes no difference
  pass.flip = {p_, draw};
  return true;
}

}  // namespace tandem::data
