#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/avg_pool2d.h>
#include <tandem/ops/avg_pool2d_sides.h>
#include <tandem/ops/images.h>
#include <tandem/ops/pool_shape.h>
#include <tandem/ops/widen.h>

#include <algorithm>

namespace tandem {

constexpr OpId kAvgPool2d{"avg_pool2d"};
constexpr OpId kAdaptiveAvgPool2d{"adaptive_avg_pool2d"};

Tensor avg_pool2d(const Tensor& x_in, Pair kernel, AvgPool2dOptions o) {
  auto [x] = enter(kAvgPool2d, x_in);
  check<DtypeError>(is_floating(x.dtype()), "[avg_pool2d] takes floating tensors, got ", x.dtype());
  detail::require_images("avg_pool2d", x);
  const AvgPool2dWindow window{kernel, o.stride.value_or(kernel), o.padding, o.count_include_pad};
  Tensor images = detail::as_images(x);
  Dims shape = images.shape();
  shape[2] = detail::pooled_size("avg_pool2d", shape[2], kernel.h, window.stride.h, o.padding.h, 1, o.ceil_mode);
  shape[3] = detail::pooled_size("avg_pool2d", shape[3], kernel.w, window.stride.w, o.padding.w, 1, o.ceil_mode);
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device(), .layout = Layout::channels_last});
  avg_pool2d_forward(x.device(), y, images, window);
  return record("avg_pool2d", detail::as_result(y, x.dim()), {x}, [window](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = detail::as_images(gy);
    detail::write_images(t[0].out(), [&](Out gx) { avg_pool2d_backward_data(g.device(), gx, g, window); });
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x_in, Pair output) {
  auto [x] = enter(kAdaptiveAvgPool2d, x_in);
  check<DtypeError>(is_floating(x.dtype()), "[adaptive_avg_pool2d] takes floating tensors, got ", x.dtype());
  detail::require_images("adaptive_avg_pool2d", x);
  Tensor images = detail::as_images(x);
  Dims shape = images.shape();
  check<ShapeError>(output.h > 0 && output.w > 0 && shape[2] > 0 && shape[3] > 0, "[adaptive_avg_pool2d] from ",
                    x.shape(), " to ", output.h, " by ", output.w, ": no size may be 0");
  shape[2] = output.h;
  shape[3] = output.w;
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device(), .layout = Layout::channels_last});
  adaptive_avg_pool2d_forward(x.device(), y, images);
  return record("adaptive_avg_pool2d", detail::as_result(y, x.dim()), {x}, [](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = detail::as_images(gy);
    detail::write_images(t[0].out(), [&](Out gx) { adaptive_avg_pool2d_backward_data(g.device(), gx, g); });
  });
}

namespace {

constexpr int64_t kGrain = 1 << 13;  // elements worth a thread
constexpr int64_t kBlock = 64;       // channels that are summed together

using detail::Sides, detail::sides;

// y[c] = the mean of window (i, j) of an image [h, w, c].
template <class T, class Side>
void window_mean(const Sides<Side>& s, int64_t i, int64_t j, const T* image, T* y, int64_t c) {
  const double divisor = double(s.rows.weight(i) * s.cols.weight(j));
  for (int64_t c0 = 0; c0 < c; c0 += kBlock) {
    const int64_t width = std::min(kBlock, c - c0);
    double sum[kBlock] = {};
    for (int64_t u = s.rows.begin(i); u < s.rows.end(i); ++u)
      for (int64_t v = s.cols.begin(j); v < s.cols.end(j); ++v) {
        const T* x = image + (u * s.cols.size + v) * c + c0;
#pragma omp simd
        for (int64_t z = 0; z < width; ++z) sum[z] += double(x[z]);
      }
    for (int64_t z = 0; z < width; ++z) y[c0 + z] = T(sum[z] / divisor);
  }
}

// gx[c] of pixel (u, v), from the windows it lies in.
template <class T, class Side>
void pixel_gradient(const Sides<Side>& s, int64_t u, int64_t v, const T* gy, T* gx, bool add, int64_t c) {
  if (!add) std::fill_n(gx, c, T(0));
  for (int64_t i = s.rows.first(u); i < s.rows.last(u); ++i)
    for (int64_t j = s.cols.first(v); j < s.cols.last(v); ++j) {
      const T divisor = T(s.rows.weight(i) * s.cols.weight(j));
      const T* g = gy + (i * s.cols.windows + j) * c;
#pragma omp simd
      for (int64_t z = 0; z < c; ++z) gx[z] += g[z] / divisor;
    }
}

template <class Side>
void forward(Tensor& y, const Tensor& x, const Sides<Side>& s) {
  dispatch_real("avg_pool2d", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* xp = x.ptr<T>();
    T* yp = y.ptr<T>();
    const int64_t c = x.shape()[1], rows = s.rows.windows, cols = s.cols.windows;
    const int64_t image = s.rows.size * s.cols.size * c;
    const int64_t work = std::max<int64_t>(1, image / rows);
    parallel_for(x.shape()[0] * rows, std::max<int64_t>(1, kGrain / work), [=](int64_t a, int64_t b) {
      for (int64_t r = a; r < b; ++r)
        for (int64_t j = 0; j < cols; ++j)
          window_mean(s, r % rows, j, xp + r / rows * image, yp + (r * cols + j) * c, c);
    });
  });
}

template <class Side>
void backward(const Out& gx, const Tensor& gy, const Sides<Side>& s) {
  dispatch_real("avg_pool2d", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* g = gy.ptr<T>();
    T* to = gx.t.ptr<T>();
    const bool add = gx.beta != 0;
    const int64_t c = gy.shape()[1], rows = s.rows.size, cols = s.cols.size;
    const int64_t image = s.rows.windows * s.cols.windows * c;
    parallel_for(gy.shape()[0] * rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cols * c)),
                 [=](int64_t a, int64_t b) {
                   for (int64_t r = a; r < b; ++r)
                     for (int64_t v = 0; v < cols; ++v)
                       pixel_gradient(s, r % rows, v, g + r / rows * image, to + (r * cols + v) * c, add, c);
                 });
  });
}

void avg_pool2d_forward_cpu(Tensor& y, const Tensor& x, const AvgPool2dWindow& w) { forward(y, x, sides(x, y, w)); }
void avg_pool2d_backward_data_cpu(Out gx, const Tensor& gy, const AvgPool2dWindow& w) {
  backward(gx, gy, sides(gx.t, gy, w));
}
void adaptive_avg_pool2d_forward_cpu(Tensor& y, const Tensor& x) { forward(y, x, sides(x, y)); }
void adaptive_avg_pool2d_backward_data_cpu(Out gx, const Tensor& gy) { backward(gx, gy, sides(gx.t, gy)); }

TANDEM_CPU_KERNEL(avg_pool2d_forward, avg_pool2d_forward_cpu);
TANDEM_CPU_KERNEL(avg_pool2d_backward_data, avg_pool2d_backward_data_cpu);
TANDEM_CPU_KERNEL(adaptive_avg_pool2d_forward, adaptive_avg_pool2d_forward_cpu);
TANDEM_CPU_KERNEL(adaptive_avg_pool2d_backward_data, adaptive_avg_pool2d_backward_data_cpu);

}  // namespace
}  // namespace tandem
