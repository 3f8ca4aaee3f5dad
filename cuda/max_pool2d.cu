// Kernels of our own and not cuDNN's: with a winner's number for each window, both passes of 2x2 windows side by side
// move 42 bytes an f32 output, and cuDNN's 60, whose backward reads the input again; and equal values, NaN and windows
// beyond the image are treated as they are on the CPU.
#include <tandem/cuda/packs.h>
#include <tandem/cuda/row_grid.h>
#include <tandem/ops/max_pool2d.h>

#include <limits>

namespace tandem::cuda_impl {
namespace {

// Along one side of an image.
struct Side {
  int size, windows, kernel, stride, padding, dilation;
};

// Sizes of channels-last images and what is pooled from them; channels are counted in packs.
struct Geometry {
  int64_t images;
  int packs;
  Side rows, cols;
  Geometry(const Tensor& x, const Tensor& y, const MaxPool2dWindow& k, int pack)
      : images(x.shape()[0]),
        packs(int(x.shape()[1]) / pack),
        rows{int(x.shape()[2]), int(y.shape()[2]), int(k.kernel.h),
             int(k.stride.h),   int(k.padding.h),  int(k.dilation.h)},
        cols{int(x.shape()[3]), int(y.shape()[3]), int(k.kernel.w),
             int(k.stride.w),   int(k.padding.w),  int(k.dilation.w)} {}
  // Where item `i` of a row of pixels lies: in 32 bits, because a division of 64 takes a GPU a hundred steps.
  __device__ int pixel(int64_t i) const { return int(i) / packs; }
  __device__ int pack(int64_t i) const { return int(i) % packs; }
  // Windows that lie side by side and cover the image.
  bool is_2x2() const {
    auto fits = [](const Side& s) {
      return s.kernel == 2 && s.stride == 2 && s.padding == 0 && s.dilation == 1 && s.size == 2 * s.windows;
    };
    return fits(rows) && fits(cols);
  }
};

// A value takes the window where it is larger, or NaN: so the first of equal ones stays.
template <class T, int N, class Winner>
__device__ void contend(Pack<T, N>& best, Pack<Winner, N>& winner, const Pack<T, N>& v, int at) {
  for (int k = 0; k < N; ++k) {
    const auto value = widen(v.v[k]);
    if (value > widen(best.v[k]) || value != value) {
      best.v[k] = v.v[k];
      winner.v[k] = Winner(at);
    }
  }
}

template <class T>
__device__ T minus_infinity() {
  return narrow<T>(-std::numeric_limits<Compute<T>>::infinity());
}

// winner is null where nobody will ask.
template <class T, class Winner, int N>
__global__ void pool(T* y, Winner* winner, const T* x, Geometry g) {
  const int64_t height = g.rows.windows, items = int64_t(g.cols.windows) * g.packs, channels = int64_t(g.packs) * N;
  for (int64_t r = first_row(); r < g.images * height; r += row_step()) {
    const T* image = x + r / height * g.rows.size * g.cols.size * channels;
    const int top = int(r % height) * g.rows.stride - g.rows.padding;
    for (int64_t i = first_item(); i < items; i += item_step()) {
      const int left = g.pixel(i) * g.cols.stride - g.cols.padding;
      Pack<T, N> best;
      Pack<Winner, N> won;
      for (int k = 0; k < N; ++k) {
        best.v[k] = minus_infinity<T>();
        won.v[k] = Winner(-1);  // no pixel's number: padding alone
      }
      bool first = true;
      for (int u = 0; u < g.rows.kernel; ++u) {
        const int row = top + u * g.rows.dilation;
        if (row < 0 || row >= g.rows.size) continue;
        for (int v = 0; v < g.cols.kernel; ++v) {
          const int col = left + v * g.cols.dilation;
          if (col < 0 || col >= g.cols.size) continue;
          const auto value = load<N>(image + (int64_t(row) * g.cols.size + col) * channels + g.pack(i) * N);
          const int at = u * g.cols.kernel + v;
          if (first) {
            best = value;
            for (int k = 0; k < N; ++k) won.v[k] = Winner(at);
            first = false;
          } else {
            contend(best, won, value, at);
          }
        }
      }
      store(y + (r * items + i) * N, best);
      if (winner) store(winner + (r * items + i) * N, won);
    }
  }
}

// Windows of 2x2 side by side.
template <class T, class Winner, int N>
__global__ void pool_2x2(T* y, Winner* winner, const T* x, Geometry g) {
  const int64_t items = int64_t(g.cols.windows) * g.packs, channels = int64_t(g.packs) * N;
  const int64_t width = g.cols.size * channels;
  for (int64_t r = first_row(); r < g.images * g.rows.windows; r += row_step())
    for (int64_t i = first_item(); i < items; i += item_step()) {
      const T* p = x + 2 * r * width + g.pixel(i) * 2 * channels + g.pack(i) * N;
      Pack<T, N> best = load<N>(p);
      const Pack<T, N> v1 = load<N>(p + channels), v2 = load<N>(p + width), v3 = load<N>(p + width + channels);
      Pack<Winner, N> won{};
      contend(best, won, v1, 1);
      contend(best, won, v2, 2);
      contend(best, won, v3, 3);
      store(y + (r * items + i) * N, best);
      if (winner) store(winner + (r * items + i) * N, won);
    }
}

// Each pixel collects from the windows that cover it, in one order.
template <class T, class Winner, int N>
__global__ void collect(T* gx, const T* gy, const Winner* winner, bool add, Geometry g) {
  const int64_t height = g.rows.size, items = int64_t(g.cols.size) * g.packs, channels = int64_t(g.packs) * N;
  for (int64_t r = first_row(); r < g.images * height; r += row_step()) {
    const int64_t image = r / height * g.rows.windows * g.cols.windows * channels;
    for (int64_t i = first_item(); i < items; i += item_step()) {
      T* to = gx + (r * items + i) * N;
      Pack<T, N> out{};
      if (add) out = load<N>(to);
      Compute<T> sum[N];
      for (int k = 0; k < N; ++k) sum[k] = widen(out.v[k]);
      for (int u = g.rows.kernel - 1; u >= 0; --u) {
        const int top = int(r % height) + g.rows.padding - u * g.rows.dilation;
        if (top < 0 || top % g.rows.stride != 0 || top / g.rows.stride >= g.rows.windows) continue;
        for (int v = g.cols.kernel - 1; v >= 0; --v) {
          const int left = g.pixel(i) + g.cols.padding - v * g.cols.dilation;
          if (left < 0 || left % g.cols.stride != 0 || left / g.cols.stride >= g.cols.windows) continue;
          const int64_t at =
              image + (int64_t(top / g.rows.stride) * g.cols.windows + left / g.cols.stride) * channels + g.pack(i) * N;
          const auto gradient = load<N>(gy + at);
          const auto won = load<N>(winner + at);
          for (int k = 0; k < N; ++k)
            if (won.v[k] == Winner(u * g.cols.kernel + v)) sum[k] += widen(gradient.v[k]);
        }
      }
      for (int k = 0; k < N; ++k) out.v[k] = narrow<T>(sum[k]);
      store(to, out);
    }
  }
}

template <class T, class Winner, int N>
__global__ void spread_2x2(T* gx, const T* gy, const Winner* winner, bool add, Geometry g) {
  const int64_t items = int64_t(g.cols.windows) * g.packs, channels = int64_t(g.packs) * N;
  const int64_t width = g.cols.size * channels;
  for (int64_t r = first_row(); r < g.images * g.rows.windows; r += row_step())
    for (int64_t i = first_item(); i < items; i += item_step()) {
      const auto gradient = load<N>(gy + (r * items + i) * N);
      const auto won = load<N>(winner + (r * items + i) * N);
      T* first = gx + 2 * r * width + g.pixel(i) * 2 * channels + g.pack(i) * N;
      for (int at = 0; at < 4; ++at) {
        T* to = first + at / 2 * width + at % 2 * channels;
        Pack<T, N> out{};
        if (add) out = load<N>(to);
        for (int k = 0; k < N; ++k)
          if (won.v[k] == Winner(at)) out.v[k] = narrow<T>(widen(out.v[k]) + widen(gradient.v[k]));
        store(to, out);
      }
    }
}

// f(Winner{}) with the type that `winner` has; uint8_t where there is none.
template <class F>
void with_winner_type(const Tensor& winner, F&& f) {
  if (winner && winner.dtype() == Dtype::i32)
    f(int32_t{});
  else
    f(uint8_t{});
}

void forward(Tensor& y, Tensor& winner, const Tensor& x, const MaxPool2dWindow& window) {
  if (y.numel() == 0) return;
  On on(y);
  dispatch_float(x.dtype(), [&](auto t) {
    with_winner_type(winner, [&](auto w) {
      using T = decltype(t);
      using Winner = decltype(w);
      auto run = [&](auto n) {
        constexpr int N = n();
        const Geometry g(x, y, window, N);
        launch(on, row_grid(g.images * g.rows.windows, int64_t(g.cols.windows) * g.packs),
               g.is_2x2() ? pool_2x2<T, Winner, N> : pool<T, Winner, N>, y.ptr<T>(),
               winner ? winner.ptr<Winner>() : nullptr, x.ptr<T>(), g);
      };
      with_packs(x.shape()[1], run, y.ptr<T>(), x.ptr<T>());
    });
  });
}

void backward_data(Out gx, const Tensor& gy, const Tensor& winner, const MaxPool2dWindow& window) {
  if (gx.t.numel() == 0) return;
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    with_winner_type(winner, [&](auto w) {
      using T = decltype(t);
      using Winner = decltype(w);
      auto run = [&](auto n) {
        constexpr int N = n();
        const Geometry g(gx.t, gy, window, N);
        const bool is_2x2 = g.is_2x2();
        const Side &rows = g.rows, &cols = g.cols;
        launch(on,
               row_grid(g.images * (is_2x2 ? rows.windows : rows.size),
                        int64_t(is_2x2 ? cols.windows : cols.size) * g.packs),
               is_2x2 ? spread_2x2<T, Winner, N> : collect<T, Winner, N>, gx.t.ptr<T>(), gy.ptr<T>(),
               winner.ptr<Winner>(), gx.beta != 0, g);
      };
      with_packs(gy.shape()[1], run, gx.t.ptr<T>(), gy.ptr<T>());
    });
  });
}

TANDEM_KERNEL(max_pool2d_forward, cuda, forward);
TANDEM_KERNEL(max_pool2d_backward_data, cuda, backward_data);

}  // namespace
}  // namespace tandem::cuda_impl
