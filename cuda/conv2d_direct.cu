#include <tandem/cuda/conv2d_direct.h>
#include <tandem/cuda/pointwise.h>
#include <tandem/cuda/row_grid.h>
#include <tandem/ops/conv2d_kernels.h>

namespace tandem::cuda_impl {
namespace {

// Along one side of an image.
struct Side {
  int64_t size, windows, kernel, stride, padding, dilation;
  // The pixel under element u of window i, or -1 in the padding.
  __device__ int64_t pixel(int64_t i, int64_t u) const {
    const int64_t p = i * stride - padding + u * dilation;
    return p < size ? p : -1;
  }
  // The window whose element u is pixel p, or -1.
  __device__ int64_t window(int64_t p, int64_t u) const {
    const int64_t start = p + padding - u * dilation;
    return start >= 0 && start % stride == 0 && start / stride < windows ? start / stride : -1;
  }
};

// Images are channels-last, weights [out, kh, kw, in / groups].
struct Geometry {
  int64_t images, in, out, group_in, group_out;
  Side rows, cols;
  explicit Geometry(const detail::ConvShape& s)
      : images(s.n),
        in(s.in),
        out(s.out),
        group_in(s.group_in()),
        group_out(s.group_out()),
        rows{s.h, s.ho, s.kh, s.o.stride.h, s.o.padding.h, s.o.dilation.h},
        cols{s.w, s.wo, s.kw, s.o.stride.w, s.o.padding.w, s.o.dilation.w} {}
};

// A thread has one element of gx, and collects from the windows that cover it.
template <class T>
__global__ void backward_data(T* gx, bool add, const T* gy, const T* w, Geometry g) {
  const int64_t items = g.cols.size * g.in;
  for (int64_t r = first_row(); r < g.images * g.rows.size; r += row_step())
    for (int64_t item = first_item(); item < items; item += item_step()) {
      const int64_t c = item % g.in, group = c / g.group_in;
      Compute<T> sum = add ? widen(gx[r * items + item]) : Compute<T>(0);
      for (int64_t u = 0; u < g.rows.kernel; ++u) {
        const int64_t i = g.rows.window(r % g.rows.size, u);
        if (i < 0) continue;
        for (int64_t v = 0; v < g.cols.kernel; ++v) {
          const int64_t j = g.cols.window(item / g.in, v);
          if (j < 0) continue;
          const T* from = gy + ((r / g.rows.size * g.rows.windows + i) * g.cols.windows + j) * g.out;
          for (int64_t k = group * g.group_out; k < (group + 1) * g.group_out; ++k)
            sum +=
                widen(from[k]) * widen(w[((k * g.rows.kernel + u) * g.cols.kernel + v) * g.group_in + c % g.group_in]);
        }
      }
      gx[r * items + item] = narrow<T>(sum);
    }
}

// A thread has one element of gw, and goes through all images. Rows of windows are summed by themselves, so that long
// sums in f32 lose little.
template <class T>
__global__ void backward_weight(T* gw, bool add, const T* gy, const T* x, Geometry g) {
  const int64_t items = g.rows.kernel * g.cols.kernel * g.group_in;
  for (int64_t k = first_row(); k < g.out; k += row_step())
    for (int64_t item = first_item(); item < items; item += item_step()) {
      const int64_t c = k / g.group_out * g.group_in + item % g.group_in;
      const int64_t u = item / g.group_in / g.cols.kernel, v = item / g.group_in % g.cols.kernel;
      double sum = add ? double(widen(gw[k * items + item])) : 0;
      for (int64_t n = 0; n < g.images; ++n)
        for (int64_t i = 0; i < g.rows.windows; ++i) {
          const int64_t row = g.rows.pixel(i, u);
          if (row < 0) continue;
          Compute<T> of_row = 0;
          for (int64_t j = 0; j < g.cols.windows; ++j)
            if (const int64_t col = g.cols.pixel(j, v); col >= 0)
              of_row += widen(gy[((n * g.rows.windows + i) * g.cols.windows + j) * g.out + k]) *
                        widen(x[((n * g.rows.size + row) * g.cols.size + col) * g.in + c]);
          sum += double(of_row);
        }
      gw[k * items + item] = narrow<T>(Compute<T>(sum));
    }
}

}  // namespace

void conv2d_backward_data_direct(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o) {
  On on(gy);
  const Geometry g{detail::ConvShape(gx.t, w, gy, o)};
  const Tensor weight = as_layout(w, Layout::channels_last);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    launch(on, row_grid(g.images * g.rows.size, g.cols.size * g.in), backward_data<T>, gx.t.ptr<T>(), gx.beta != 0,
           gy.ptr<T>(), weight.ptr<T>(), g);
  });
}

void conv2d_backward_weight_direct(const Out& gw, const Tensor& gy, const Tensor& x, const Conv2dOptions& o) {
  On on(gy);
  const Geometry g{detail::ConvShape(x, gw.t, gy, o)};
  in_layout(gw, Layout::channels_last, [&](const Out& to) {
    dispatch_float(gy.dtype(), [&](auto t) {
      using T = decltype(t);
      launch(on, row_grid(g.out, g.rows.kernel * g.cols.kernel * g.group_in), backward_weight<T>, to.t.ptr<T>(),
             to.beta != 0, gy.ptr<T>(), x.ptr<T>(), g);
    });
  });
}

}  // namespace tandem::cuda_impl
