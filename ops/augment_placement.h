/// Not installed: what augment draws for an image, and where the image's pixels then come from, on every device.
#pragma once
#include <tandem/ops/augment.h>

namespace tandem::detail {

/// What was drawn for one image.
struct Placement {
  int64_t dy = 0, dx = 0;  // of the output's origin in the unpadded image
  bool flip = false;
  int64_t hole_y = 0, hole_x = 0, hole = 0;
};

/// Draws for images of h x w that become out_h x out_w. Plain numbers, for kernels.
class Placer {
 public:
  Placer(const AugmentOptions& o, int64_t h, int64_t w, int64_t out_h, int64_t out_w)
      : h_(h), w_(w), out_h_(out_h), out_w_(out_w) {
    if (o.crop) crop_ = {true, o.crop->draw, o.crop->padding};
    if (o.flip) flip_ = {true, o.flip->draw, o.flip->p};
    if (o.cutout) cutout_ = {true, o.cutout->draw, o.cutout->length};
  }

  TANDEM_HOST_DEVICE Placement operator()(uint64_t seed, int64_t epoch, int64_t sample) const {
    Placement p;
    if (crop_.on) {
      const auto draws = augment_draws(seed, epoch, sample, crop_.draw);
      p.dy = below(draws[0], h_ + 2 * crop_.with - out_h_ + 1) - crop_.with;
      p.dx = below(draws[1], w_ + 2 * crop_.with - out_w_ + 1) - crop_.with;
    }
    if (flip_.on) p.flip = augment_draws(seed, epoch, sample, flip_.draw)[0] * 0x1p-32 < flip_.with;
    if (cutout_.on) {
      const auto draws = augment_draws(seed, epoch, sample, cutout_.draw);
      p.hole = cutout_.with;
      p.hole_y = below(draws[0], out_h_) - cutout_.with / 2;
      p.hole_x = below(draws[1], out_w_) - cutout_.with / 2;
    }
    return p;
  }

 private:
  template <class T>
  struct Step {
    bool on = false;
    int draw = 0;
    T with{};
  };

  // [0, n), from 32 random bits.
  TANDEM_HOST_DEVICE static int64_t below(uint32_t bits, int64_t n) {
    return int64_t(uint64_t(bits) * uint64_t(n) >> 32);
  }

  int64_t h_, w_, out_h_, out_w_;
  Step<int64_t> crop_;  // with its padding
  Step<double> flip_;
  Step<int64_t> cutout_;  // with its length
};

/// Index i of the padded image in the image itself, or -1 where the padding's value stands.
TANDEM_HOST_DEVICE inline int64_t unpad(int64_t i, int64_t n, PaddingMode mode) {
  if (i >= 0 && i < n) return i;
  if (mode == PaddingMode::constant) return -1;
  if (mode == PaddingMode::edge) return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

}  // namespace tandem::detail
