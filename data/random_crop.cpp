#include <tandem/data/random_crop.h>

namespace tandem::data {

RandomCrop::RandomCrop(int64_t height, int64_t width, Options o) : height_(height), width_(width), o_(o) {
  check(height > 0 && width > 0 && o.padding >= 0, "[RandomCrop] of ", height, "x", width, " with padding ", o.padding);
}

std::string RandomCrop::name() const {
  std::string size = height_ == width_ ? message(height_) : message(height_, ", ", width_);
  return o_.padding ? message("RandomCrop(", size, ", padding=", o_.padding, ")") : message("RandomCrop(", size, ")");
}

bool RandomCrop::join(AugmentOptions& pass, int draw) const {
  // Padding is of the values as they are here, so nothing else may have come before it in the pass.
  if (pass.crop || pass.flip || pass.to_float || !pass.mean.empty() || pass.cutout) return false;
  pass.crop = {height_, width_, o_.padding, o_.padding_mode, o_.fill, draw};
  return true;
}

}  // namespace tandem::data
