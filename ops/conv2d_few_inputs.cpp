#include <tandem/ops/conv2d_kernels.h>
#include <tandem/ops/float_vector.h>
#include <tandem/ops/parallel_scratch.h>

#include <algorithm>
#include <array>
#include <utility>

// A tap is one element of the window, with a gradient for each output channel: the sum over all output pixels of gy
// times the element's value there. The bias is a tap whose value is always 1. A few taps times a few vectors of output
// channels are summed in registers while rows of gy pass by; gy comes from memory once.

namespace tandem::detail {
namespace {

constexpr int kVectors = 2;                             // of output channels,
constexpr int kTaps = kVectorRegisters == 32 ? 12 : 6;  // times these taps are in registers at once
constexpr int64_t kBlock = kVectors * kLanes;
constexpr int64_t kMostInputs = 16, kMostTaps = 160;  // beyond, a library's blocks are as good
constexpr int64_t kMostParts = 16;
constexpr int64_t kRows = 4;  // of gy, which stay in the nearest cache while all taps read them

struct Tap {
  const float* x;  // the element's value for the first output pixel
  int64_t row;     // step to the next output row
};

struct Rows {
  const float* gy;
  int64_t count, width;       // rows of pixels
  int64_t gy_pixel, x_pixel;  // steps to the next pixel
  int64_t ahead;              // how far the next rows of gy are
};

// acc[Taps, kBlock] += the sum over all pixels of each tap's value times gy.
template <int Taps>
void sum_taps(const Rows& rows, const Tap* taps, float* acc) {
  constexpr int kLines = (kVectors * kVectorBytes + 63) / 64;  // of the cache
  FloatVector sums[Taps * kVectors];
  unrolled<Taps * kVectors>([&](auto i) __attribute__((always_inline)) { sums[i] = load(acc + i * kLanes); });
  for (int64_t r = 0; r < rows.count; ++r) {
    const float* gy = rows.gy + r * rows.width * rows.gy_pixel;
    const float* x[Taps];
    unrolled<Taps>([&](auto t) __attribute__((always_inline)) { x[t] = taps[t].x + r * taps[t].row; });
    int64_t at = 0;
    for (int64_t j = 0; j < rows.width; ++j, gy += rows.gy_pixel, at += rows.x_pixel) {
      FloatVector g[kVectors];
      unrolled<kVectors>([&](auto v) __attribute__((always_inline)) { g[v] = load(gy + v * kLanes); });
      unrolled<kLines>([&](auto l)
                           __attribute__((always_inline)) { __builtin_prefetch(gy + rows.ahead + l * 16, 0, 2); });
      unrolled<Taps>([&](auto t) __attribute__((always_inline)) {
        const FloatVector value = broadcast(x[t][at]);
        unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
          constexpr int i = t * kVectors + v;
          sums[i] = multiply_add(value, g[v], sums[i]);
        });
      });
    }
  }
  unrolled<Taps * kVectors>([&](auto i) __attribute__((always_inline)) { store(acc + i * kLanes, sums[i]); });
}

using SumTaps = void (*)(const Rows&, const Tap*, float*);
template <int... Taps>
constexpr std::array<SumTaps, kTaps> all_tap_counts(std::integer_sequence<int, Taps...>) {
  return {sum_taps<Taps + 1>...};
}
constexpr auto kSumTaps = all_tap_counts(std::make_integer_sequence<int, kTaps>());

// The work of one convolution.
class WeightGradient {
 public:
  WeightGradient(const ConvShape& s, bool bias)
      : s_(s),
        window_taps_(s.kh * s.kw * s.in),
        taps_(window_taps_ + bias),
        padded_h_(s.h + 2 * s.o.padding.h),
        padded_w_(s.w + 2 * s.o.padding.w) {}
  int64_t taps() const { return taps_; }
  int64_t scratch_size() const { return padded_size() + ones_size() + taps_ * s_.out; }

  // sums[out / kBlock, taps, kBlock] = the gradients over the images from `begin` to `end`.
  void sum_images(const float* x, const float* gy, int64_t begin, int64_t end, float* scratch, double* sums) const {
    float *padded = scratch, *ones = padded + padded_size(), *acc = ones + ones_size();
    const int64_t x_size = s_.h * s_.w * s_.in, gy_size = s_.ho * s_.wo * s_.out, sums_size = taps_ * s_.out;
    std::fill_n(padded, padded_size(), 0.f);
    std::fill_n(ones, ones_size(), 1.f);
    std::fill_n(sums, sums_size, 0.0);
    for (int64_t image = begin; image < end; ++image) {
      pad(x + image * x_size, padded);
      std::fill_n(acc, sums_size, 0.f);
      sum_image(padded, ones, gy + image * gy_size, acc);
      for (int64_t i = 0; i < sums_size; ++i) sums[i] += double(acc[i]);
    }
  }

 private:
  int64_t x_pixel() const { return s_.o.stride.w * s_.in; }
  int64_t padded_size() const { return padded_h_ * padded_w_ * s_.in; }
  int64_t ones_size() const { return s_.wo * x_pixel(); }

  void pad(const float* x, float* padded) const {
    for (int64_t r = 0; r < s_.h; ++r)
      std::copy_n(x + r * s_.w * s_.in, s_.w * s_.in,
                  padded + ((r + s_.o.padding.h) * padded_w_ + s_.o.padding.w) * s_.in);
  }

  // Tap t for output row 0; t counts [kh, kw, in], then comes the bias.
  Tap tap(int64_t t, const float* padded, const float* ones) const {
    if (t == window_taps_) return {ones, 0};
    const int64_t c = t % s_.in, v = t / s_.in % s_.kw, u = t / s_.in / s_.kw;
    return {padded + (u * s_.o.dilation.h * padded_w_ + v * s_.o.dilation.w) * s_.in + c,
            s_.o.stride.h * padded_w_ * s_.in};
  }

  void sum_image(const float* padded, const float* ones, const float* gy, float* acc) const {
    std::array<Tap, kMostTaps + 1> taps;
    for (int64_t t = 0; t < taps_; ++t) taps[size_t(t)] = tap(t, padded, ones);
    for (int64_t r = 0; r < s_.ho; r += kRows) {
      Rows rows{gy + r * s_.wo * s_.out, std::min(kRows, s_.ho - r), s_.wo, s_.out, x_pixel(), kRows * s_.wo * s_.out};
      for (int64_t block = 0; block < s_.out / kBlock; ++block, rows.gy += kBlock)
        for (int64_t t = 0; t < taps_; t += kTaps) {
          const int64_t count = std::min<int64_t>(kTaps, taps_ - t);
          kSumTaps[size_t(count - 1)](rows, &taps[size_t(t)], acc + (block * taps_ + t) * kBlock);
        }
      for (int64_t t = 0; t < taps_; ++t) taps[size_t(t)].x += kRows * taps[size_t(t)].row;
    }
  }

  ConvShape s_;
  int64_t window_taps_, taps_, padded_h_, padded_w_;
};

// Where output o's gradient of tap t stands in the sums.
int64_t blocked(int64_t o, int64_t t, int64_t taps) { return (o / kBlock * taps + t) * kBlock + o % kBlock; }

}  // namespace

bool conv2d_has_few_inputs(const ConvShape& s, Dtype t) {
  return t == Dtype::f32 && s.o.groups == 1 && s.out % kBlock == 0 && s.in <= kMostInputs &&
         s.kh * s.kw * s.in <= kMostTaps && s.n * s.ho * s.wo > 0;
}

void conv2d_backward_weight_few_inputs(const Out& gw, const Out& gb, const Tensor& gy, const Tensor& x,
                                       const Conv2dOptions& o) {
  const ConvShape s(x, gw.t, gy, o);
  const WeightGradient gradient(s, gb.t.defined());
  const int64_t parts = std::min(s.n, kMostParts), size = gradient.taps() * s.out;
  Tensor partial = empty({parts, size}, {.dtype = Dtype::f64, .device = x.device()});
  double* sums = partial.ptr<double>();
  parallel_with_scratch<float>(parts, 1, gradient.scratch_size(), x.device(),
                               [&](float* scratch, int64_t begin, int64_t end) {
                                 for (int64_t p = begin; p < end; ++p)
                                   gradient.sum_images(x.ptr<float>(), gy.ptr<float>(), s.n * p / parts,
                                                       s.n * (p + 1) / parts, scratch, sums + p * size);
                               });
  for (int64_t p = 1; p < parts; ++p)
    for (int64_t i = 0; i < size; ++i) sums[i] += sums[p * size + i];

  auto put = [](float* to, bool add, double v) { *to = float(add ? double(*to) + v : v); };
  const Dims& ws = gw.t.strides();
  for (int64_t out = 0; out < s.out; ++out) {
    for (int64_t t = 0; t < s.kh * s.kw * s.in; ++t) {
      const int64_t c = t % s.in, v = t / s.in % s.kw, u = t / s.in / s.kw;
      put(gw.t.ptr<float>() + out * ws[0] + c * ws[1] + u * ws[2] + v * ws[3], gw.beta != 0,
          sums[blocked(out, t, gradient.taps())]);
    }
    if (gb.t) put(gb.t.ptr<float>() + out, gb.beta != 0, sums[blocked(out, gradient.taps() - 1, gradient.taps())]);
  }
}

}  // namespace tandem::detail
