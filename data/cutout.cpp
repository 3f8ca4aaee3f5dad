#include <tandem/data/cutout.h>

namespace tandem::data {

Cutout::Cutout(int64_t length) : length_(length) { check(length > 0, "[Cutout] of length ", length); }

std::string Cutout::name() const { return message("Cutout(", length_, ")"); }

bool Cutout::join(AugmentOptions& pass, int draw) const {
  if (pass.cutout) return false;
  pass.cutout = {length_, draw};
  return true;
}

}  // namespace tandem::data
