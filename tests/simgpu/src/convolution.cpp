#include "convolution.h"

#include <algorithm>

#include "multiply.h"

namespace simgpu {
namespace {

template <class C>
constexpr Element kElement = sizeof(C) == 8 ? Element::f64 : Element::f32;

// f(row of the unfolded image [p q, r s c/groups] with its tap, the image's pixel or -1 in the padding), tap by tap,
// the pixels of y in an order that begins at `turn`.
template <class F>
void for_each_tap(const ConvolutionShape& t, size_t turn, F&& f) {
  const int64_t pixels = t.p * t.q;
  for (int64_t i = 0; i < pixels; ++i) {
    const int64_t pixel = (i + int64_t(turn)) % pixels, p = pixel / t.q, q = pixel % t.q;
    for (int64_t r = 0; r < t.r; ++r)
      for (int64_t s = 0; s < t.s; ++s) {
        const int64_t y = p * t.stride_h - t.pad_h + r * t.dilation_h, x = q * t.stride_w - t.pad_w + s * t.dilation_w;
        const bool inside = y >= 0 && y < t.h && x >= 0 && x < t.w;
        f((pixel * t.r + r) * t.s + s, inside ? y * t.w + x : -1);
      }
  }
}

template <class C>
void unfold(const ConvolutionShape& t, const C* image, int64_t group, std::vector<C>& columns) {
  const int64_t channels = t.c / t.groups;
  for_each_tap(t, 0, [&](int64_t row, int64_t pixel) {
    C* to = &columns[size_t(row * channels)];
    if (pixel < 0)
      std::fill_n(to, channels, C(0));
    else
      std::copy_n(image + pixel * t.c + group * channels, channels, to);
  });
}

template <class C>
void fold(const ConvolutionShape& t, const std::vector<C>& columns, int64_t group, size_t turn, C* image) {
  const int64_t channels = t.c / t.groups;
  for_each_tap(t, turn, [&](int64_t row, int64_t pixel) {
    if (pixel < 0) return;
    const C* from = &columns[size_t(row * channels)];
    C* to = image + pixel * t.c + group * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
  });
}

}  // namespace

template <class C>
std::vector<C> convolve(const ConvolutionShape& t, const std::vector<C>& x, const std::vector<C>& w) {
  const int64_t pixels = t.p * t.q, depth = t.r * t.s * (t.c / t.groups), filters = t.k / t.groups;
  std::vector<C> y(size_t(t.y_elements())), columns(size_t(pixels * depth));
  for (int64_t n = 0; n < t.n; ++n)
    for (int64_t g = 0; g < t.groups; ++g) {
      unfold(t, &x[size_t(n * t.h * t.w * t.c)], g, columns);
      multiply_add(size_t(filters), size_t(pixels), size_t(depth),
                   {&w[size_t(g * filters * depth)], kElement<C>, depth, 1}, {columns.data(), kElement<C>, 1, depth},
                   &y[size_t(n * pixels * t.k + g * filters)], size_t(t.k));
    }
  return y;
}

template <class C>
std::vector<C> convolve_backward_data(const ConvolutionShape& t, const std::vector<C>& w, const std::vector<C>& dy,
                                      size_t turn) {
  const int64_t pixels = t.p * t.q, depth = t.r * t.s * (t.c / t.groups), filters = t.k / t.groups;
  std::vector<C> dx(size_t(t.x_elements())), columns;
  for (int64_t n = 0; n < t.n; ++n)
    for (int64_t g = 0; g < t.groups; ++g) {
      columns.assign(size_t(pixels * depth), C(0));
      multiply_add(size_t(depth), size_t(pixels), size_t(filters),
                   {&w[size_t(g * filters * depth)], kElement<C>, 1, depth},
                   {&dy[size_t(n * pixels * t.k + g * filters)], kElement<C>, 1, t.k}, columns.data(), size_t(depth));
      fold(t, columns, g, turn, &dx[size_t(n * t.h * t.w * t.c)]);
    }
  return dx;
}

template <class C>
std::vector<C> convolve_backward_filter(const ConvolutionShape& t, const std::vector<C>& x, const std::vector<C>& dy,
                                        size_t turn) {
  const int64_t pixels = t.p * t.q, depth = t.r * t.s * (t.c / t.groups), filters = t.k / t.groups;
  std::vector<C> dw(size_t(t.w_elements())), columns(size_t(pixels * depth));
  for (int64_t i = 0; i < t.n; ++i)
    for (int64_t g = 0; g < t.groups; ++g) {
      const int64_t n = (i + int64_t(turn)) % t.n;
      unfold(t, &x[size_t(n * t.h * t.w * t.c)], g, columns);
      multiply_add(size_t(depth), size_t(filters), size_t(pixels), {columns.data(), kElement<C>, 1, depth},
                   {&dy[size_t(n * pixels * t.k + g * filters)], kElement<C>, t.k, 1}, &dw[size_t(g * filters * depth)],
                   size_t(depth));
    }
  return dw;
}

template std::vector<float> convolve(const ConvolutionShape&, const std::vector<float>&, const std::vector<float>&);
template std::vector<double> convolve(const ConvolutionShape&, const std::vector<double>&, const std::vector<double>&);
template std::vector<float> convolve_backward_data(const ConvolutionShape&, const std::vector<float>&,
                                                   const std::vector<float>&, size_t);
template std::vector<double> convolve_backward_data(const ConvolutionShape&, const std::vector<double>&,
                                                    const std::vector<double>&, size_t);
template std::vector<float> convolve_backward_filter(const ConvolutionShape&, const std::vector<float>&,
                                                     const std::vector<float>&, size_t);
template std::vector<double> convolve_backward_filter(const ConvolutionShape&, const std::vector<double>&,
                                                      const std::vector<double>&, size_t);

}  // namespace simgpu
