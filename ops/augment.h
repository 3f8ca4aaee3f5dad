/// augment: one pass from stored images to a training batch: gather, crop with padding, flip, scale, normalise, cut
/// out.
///
/// What is random is drawn by philox from (seed, epoch, sample, number of the step) alone, so that a batch does not
/// depend on threads, workers, replicas or order.
#pragma once
#include <tandem/core/generator.h>
#include <tandem/core/kernel.h>

#include <optional>
#include <vector>

namespace tandem {

/// What lies around an image (torchvision's padding_mode): a value, the mirrored image without its edge, or the edge.
enum class PaddingMode : uint8_t { constant, reflect, edge };

/// What a pass does, in this order. `draw` numbers the random steps of a chain, so that each draws numbers of its own.
struct AugmentOptions {
  struct Crop {
    int64_t height = 0, width = 0;
    int64_t padding = 0;  // on all four sides, before cropping
    PaddingMode mode = PaddingMode::constant;
    double fill = 0;  // of constant padding; bytes are padded before they are scaled
    int draw = 0;
  };
  struct Flip {
    double p = 0.5;
    int draw = 0;
  };
  struct Cutout {
    int64_t length = 0;  // side of a square of zeros whose centre is anywhere in the image
    int draw = 0;
  };
  std::optional<Crop> crop = {};
  std::optional<Flip> flip = {};
  bool to_float = false;  // bytes / 255
  // (x - mean) / std in f32: one value per channel, or one for all; empty for none.
  std::vector<double> mean = {};
  std::vector<double> std = {};
  std::optional<Cutout> cutout = {};
};

/// Who is augmented. An undefined `samples` stands for 0..n-1. A `cursor` (ops/next_rows.h) has seed and epoch on the
/// images' device, where they are read instead of these.
struct AugmentKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  Tensor samples = {};  // i64 [n]
  Tensor cursor = {};
};

/// Four draws of one sample at one random step.
TANDEM_HOST_DEVICE inline std::array<uint32_t, 4> augment_draws(uint64_t seed, int64_t epoch, int64_t sample,
                                                                int draw) {
  constexpr uint32_t kAugment = 0x80000000u;  // keeps clear of the counters that dropout uses
  return philox(seed, {uint32_t(sample), uint32_t(uint64_t(sample) >> 32), uint32_t(epoch), kAugment | uint32_t(draw)});
}

/// images [N,c,h,w] in any dense layout, u8 or floating; rows i64 [n]: which of them, undefined for all in order.
/// Returns [n,c,h',w'] channels-last, f32 from bytes with `to_float`, else of the images' dtype. No autograd.
/// The same bits as torchvision's RandomCrop, RandomHorizontalFlip, ToTensor and Normalize for the same draws.
/// Throws ShapeError where the crop does not fit or a row is not there, DtypeError for other dtypes.
TANDEM_API Tensor augment(const Tensor& images, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o);

/// y channels-last; x dense in either layout; rows and samples i64 [n] or undefined.
inline constinit TANDEM_API
    KernelSlot<void(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o)>
        augment_forward{"augment_forward"};

}  // namespace tandem
