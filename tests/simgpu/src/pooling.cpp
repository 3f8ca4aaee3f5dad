#include "pooling.h"

#include <algorithm>
#include <limits>

namespace simgpu {
namespace {

// f(first channel in y, the window's pixels of x: rows [h0, h1), columns [w0, w1)) for each pixel of y.
template <class F>
void for_each_window(const PoolingShape& t, F&& f) {
  int64_t at = 0;
  for (int64_t n = 0; n < t.n; ++n)
    for (int64_t p = 0; p < t.p; ++p)
      for (int64_t q = 0; q < t.q; ++q, at += t.c) {
        const int64_t h = p * t.stride_h - t.pad_h, w = q * t.stride_w - t.pad_w;
        f(at, n * t.h, std::max<int64_t>(h, 0), std::min(h + t.window_h, t.h), std::max<int64_t>(w, 0),
          std::min(w + t.window_w, t.w));
      }
}

template <class C>
C share(const PoolingShape& t, int64_t pixels) {
  return C(1) / C(t.kind == PoolingShape::average_with_padding ? t.window_h * t.window_w : pixels);
}

}  // namespace

template <class C>
std::vector<C> pool(const PoolingShape& t, const std::vector<C>& x) {
  const bool max = t.kind == PoolingShape::max;
  std::vector<C> y(size_t(t.n * t.p * t.q * t.c), max ? -std::numeric_limits<C>::infinity() : C(0));
  for_each_window(t, [&](int64_t at, int64_t image, int64_t h0, int64_t h1, int64_t w0, int64_t w1) {
    C* to = &y[size_t(at)];
    for (int64_t h = h0; h < h1; ++h)
      for (int64_t w = w0; w < w1; ++w) {
        const C* from = &x[size_t(((image + h) * t.w + w) * t.c)];
        for (int64_t c = 0; c < t.c; ++c) {
          const C v = from[c], now = to[c];
          to[c] = !max ? now + v : v > now || (t.propagates_nan && v != v) ? v : now;
        }
      }
    if (max) return;
    const C part = share<C>(t, (h1 - h0) * (w1 - w0));
    for (int64_t c = 0; c < t.c; ++c) to[c] *= part;
  });
  return y;
}

template <class C>
std::vector<C> pool_backward(const PoolingShape& t, const std::vector<C>& x, const std::vector<C>& y,
                             const std::vector<C>& dy) {
  const bool max = t.kind == PoolingShape::max;
  std::vector<C> dx(size_t(t.n * t.h * t.w * t.c));
  std::vector<uint8_t> found(size_t(t.c));
  for_each_window(t, [&](int64_t at, int64_t image, int64_t h0, int64_t h1, int64_t w0, int64_t w1) {
    std::fill(found.begin(), found.end(), uint8_t(0));
    const C part = max ? C(1) : share<C>(t, (h1 - h0) * (w1 - w0));
    const C* gradient = &dy[size_t(at)];
    for (int64_t h = h0; h < h1; ++h)
      for (int64_t w = w0; w < w1; ++w) {
        const int64_t pixel = ((image + h) * t.w + w) * t.c;
        C* to = &dx[size_t(pixel)];
        for (int64_t c = 0; c < t.c; ++c) {
          if (!max) {
            to[c] += part * gradient[c];
            continue;
          }
          const C v = x[size_t(pixel + c)], best = y[size_t(at + c)];
          const bool wins = !found[size_t(c)] && (v == best || (v != v && best != best));
          found[size_t(c)] |= uint8_t(wins);
          if (wins) to[c] += gradient[c];
        }
      }
  });
  return dx;
}

template std::vector<float> pool(const PoolingShape&, const std::vector<float>&);
template std::vector<double> pool(const PoolingShape&, const std::vector<double>&);
template std::vector<float> pool_backward(const PoolingShape&, const std::vector<float>&, const std::vector<float>&,
                                          const std::vector<float>&);
template std::vector<double> pool_backward(const PoolingShape&, const std::vector<double>&, const std::vector<double>&,
                                           const std::vector<double>&);

}  // namespace simgpu
