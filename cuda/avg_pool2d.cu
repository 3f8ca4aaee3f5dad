#include <tandem/cuda/packs.h>
#include <tandem/cuda/row_grid.h>
#include <tandem/ops/avg_pool2d_sides.h>

namespace tandem::cuda_impl {
namespace {

using detail::Sides, detail::sides;

template <class T, int N, class Side>
__global__ void means(T* y, const T* x, int64_t images, int64_t packs, Sides<Side> s) {
  const int64_t height = s.rows.windows, items = s.cols.windows * packs;
  for (int64_t r = first_row(); r < images * height; r += row_step())
    for (int64_t i = first_item(); i < items; i += item_step()) {
      const int64_t row = r % height, col = i / packs;
      const T* image = x + (r / height * s.rows.size * s.cols.size * packs + i % packs) * N;
      Compute<T> sum[N] = {};
      for (int64_t u = s.rows.begin(row); u < s.rows.end(row); ++u)
        for (int64_t v = s.cols.begin(col); v < s.cols.end(col); ++v) {
          const auto in = load<N>(image + (u * s.cols.size + v) * packs * N);
          for (int k = 0; k < N; ++k) sum[k] += widen(in.v[k]);
        }
      const auto divisor = Compute<T>(s.rows.weight(row) * s.cols.weight(col));
      Pack<T, N> out;
      for (int k = 0; k < N; ++k) out.v[k] = narrow<T>(sum[k] / divisor);
      store(y + (r * items + i) * N, out);
    }
}

// Each pixel collects from the windows that cover it.
template <class T, int N, class Side>
__global__ void shares(T* gx, const T* gy, bool add, int64_t images, int64_t packs, Sides<Side> s) {
  const int64_t height = s.rows.size, items = s.cols.size * packs;
  for (int64_t r = first_row(); r < images * height; r += row_step())
    for (int64_t i = first_item(); i < items; i += item_step()) {
      const int64_t row = r % height, col = i / packs;
      const T* image = gy + (r / height * s.rows.windows * s.cols.windows * packs + i % packs) * N;
      T* to = gx + (r * items + i) * N;
      Pack<T, N> out{};
      if (add) out = load<N>(to);
      Compute<T> sum[N];
      for (int k = 0; k < N; ++k) sum[k] = widen(out.v[k]);
      for (int64_t u = s.rows.first(row); u < s.rows.last(row); ++u)
        for (int64_t v = s.cols.first(col); v < s.cols.last(col); ++v) {
          const auto divisor = Compute<T>(s.rows.weight(u) * s.cols.weight(v));
          const auto in = load<N>(image + (u * s.cols.windows + v) * packs * N);
          for (int k = 0; k < N; ++k) sum[k] += widen(in.v[k]) / divisor;
        }
      for (int k = 0; k < N; ++k) out.v[k] = narrow<T>(sum[k]);
      store(to, out);
    }
}

template <class Side>
void pool(Tensor& y, const Tensor& x, const Sides<Side>& s) {
  if (y.numel() == 0) return;
  On on(y);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    auto run = [&](auto n) {
      const int64_t images = x.shape()[0], packs = x.shape()[1] / n();
      launch(on, row_grid(images * s.rows.windows, s.cols.windows * packs), means<T, n(), Side>, y.ptr<T>(), x.ptr<T>(),
             images, packs, s);
    };
    with_packs(x.shape()[1], run, y.ptr<T>(), x.ptr<T>());
  });
}

template <class Side>
void share_out(const Out& gx, const Tensor& gy, const Sides<Side>& s) {
  if (gx.t.numel() == 0) return;
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    auto run = [&](auto n) {
      const int64_t images = gy.shape()[0], packs = gy.shape()[1] / n();
      launch(on, row_grid(images * s.rows.size, s.cols.size * packs), shares<T, n(), Side>, gx.t.ptr<T>(), gy.ptr<T>(),
             gx.beta != 0, images, packs, s);
    };
    with_packs(gy.shape()[1], run, gx.t.ptr<T>(), gy.ptr<T>());
  });
}

void forward(Tensor& y, const Tensor& x, const AvgPool2dWindow& w) { pool(y, x, sides(x, y, w)); }
void backward_data(Out gx, const Tensor& gy, const AvgPool2dWindow& w) { share_out(gx, gy, sides(gx.t, gy, w)); }
void adaptive_forward(Tensor& y, const Tensor& x) { pool(y, x, sides(x, y)); }
void adaptive_backward_data(Out gx, const Tensor& gy) { share_out(gx, gy, sides(gx.t, gy)); }

TANDEM_KERNEL(avg_pool2d_forward, cuda, forward);
TANDEM_KERNEL(avg_pool2d_backward_data, cuda, backward_data);
TANDEM_KERNEL(adaptive_avg_pool2d_forward, cuda, adaptive_forward);
TANDEM_KERNEL(adaptive_avg_pool2d_backward_data, cuda, adaptive_backward_data);

}  // namespace
}  // namespace tandem::cuda_impl
