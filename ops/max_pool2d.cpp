#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/images.h>
#include <tandem/ops/max_pool2d.h>
#include <tandem/ops/pool_shape.h>
#include <tandem/ops/widen.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace tandem {

constexpr OpId kMaxPool2d{"max_pool2d"};

Tensor max_pool2d(const Tensor& x_in, Pair kernel, MaxPool2dOptions o) {
  auto [x] = enter(kMaxPool2d, x_in);
  const char* op = kMaxPool2d.name;
  check<DtypeError>(is_floating(x.dtype()), "[max_pool2d] takes floating tensors, got ", x.dtype());
  detail::require_images(op, x);
  const MaxPool2dWindow window{kernel, o.stride.value_or(kernel), o.padding, o.dilation};
  Tensor images = detail::as_images(x);
  Dims shape = images.shape();
  shape[2] = detail::pooled_size(op, shape[2], kernel.h, window.stride.h, o.padding.h, o.dilation.h, o.ceil_mode);
  shape[3] = detail::pooled_size(op, shape[3], kernel.w, window.stride.w, o.padding.w, o.dilation.w, o.ceil_mode);
  Tensor y = empty(shape, images.options()), winner;
  if (wants_grad({x})) {
    const bool fits_byte = kernel.h * kernel.w <= 255;
    winner = empty(shape, {.dtype = fits_byte ? Dtype::u8 : Dtype::i32, .device = x.device(), .layout = y.layout()});
  }
  max_pool2d_forward(x.device(), y, winner, images, window);
  return record(op, detail::as_result(y, x.dim()), {x},
                [winner = Saved("max_pool2d", winner), window](Tensor& gy, Targets t) {
                  if (!t[0]) return;
                  Tensor g = detail::as_images(gy);
                  detail::write_images(t[0].out(),
                                       [&](Out gx) { max_pool2d_backward_data(g.device(), gx, g, winner(), window); });
                });
}

namespace {

constexpr int64_t kGrain = 1 << 13;  // elements worth a thread

// Sizes of a channels-last image and what is pooled from it.
struct Geometry {
  int64_t c, h, w, ho, wo;
  MaxPool2dWindow window;
  Geometry(const Tensor& x, const Tensor& y, const MaxPool2dWindow& k)
      : c(x.shape()[1]), h(x.shape()[2]), w(x.shape()[3]), ho(y.shape()[2]), wo(y.shape()[3]), window(k) {}
  bool is_2x2() const { return window.kernel == Pair(2) && window.dilation == Pair(1); }
  bool is_2x2_side_by_side() const { return is_2x2() && window.stride == Pair(2) && window.padding == Pair(0); }
};

// Which of a window's k rows (or columns) lie inside the image, when its first is at `start`.
struct Inside {
  int64_t begin, end;
  Inside(int64_t start, int64_t k, int64_t dilation, int64_t size)
      : begin(start < 0 ? (-start + dilation - 1) / dilation : 0),
        end(std::min(k, (size - start + dilation - 1) / dilation)) {}
};

// A value takes the window where it is larger, or NaN: so the first of equal ones stays.
template <class T>
bool wins(T value, T best) {
  return (value > best) | (value != value);
}

// y and k of one pixel from the four pixels p[0], p[c], q[0], q[c].
template <class T, class Winner>
void pool_2x2(const T* p, const T* q, T* y, Winner* k, int64_t c) {
  if (k) {
#pragma omp simd
    for (int64_t z = 0; z < c; ++z) {
      T best = p[z], v1 = p[c + z], v2 = q[z], v3 = q[c + z];
      int at = 0;
      at = wins(v1, best) ? 1 : at, best = wins(v1, best) ? v1 : best;
      at = wins(v2, best) ? 2 : at, best = wins(v2, best) ? v2 : best;
      at = wins(v3, best) ? 3 : at, best = wins(v3, best) ? v3 : best;
      y[z] = best;
      k[z] = Winner(at);
    }
  } else {
#pragma omp simd
    for (int64_t z = 0; z < c; ++z) {
      T best = p[z], v1 = p[c + z], v2 = q[z], v3 = q[c + z];
      best = wins(v1, best) ? v1 : best;
      best = wins(v2, best) ? v2 : best;
      y[z] = wins(v3, best) ? v3 : best;
    }
  }
}

// One more pixel of a window: number `at`.
template <class T, class Winner>
void pool_one_more(const T* x, Winner at, T* y, Winner* k, int64_t c) {
  if (k) {
#pragma omp simd
    for (int64_t z = 0; z < c; ++z) {
      T v = x[z], best = y[z];
      Winner was = k[z];
      y[z] = wins(v, best) ? v : best;
      k[z] = wins(v, best) ? at : was;
    }
  } else {
#pragma omp simd
    for (int64_t z = 0; z < c; ++z) {
      T v = x[z], best = y[z];
      y[z] = wins(v, best) ? v : best;
    }
  }
}

template <class T, class Winner>
void pool_row(const Geometry& g, const T* image, int64_t i, T* y, Winner* k) {
  const auto& [kernel, stride, padding, dilation] = g.window;
  const int64_t top = i * stride.h - padding.h;
  const Inside rows(top, kernel.h, dilation.h, g.h);
  for (int64_t j = 0; j < g.wo; ++j, y += g.c, k = k ? k + g.c : k) {
    const int64_t left = j * stride.w - padding.w;
    const Inside cols(left, kernel.w, dilation.w, g.w);
    auto pixel = [&](int64_t u, int64_t v) {
      return image + ((top + u * dilation.h) * g.w + left + v * dilation.w) * g.c;
    };
    if (g.is_2x2() && rows.begin == 0 && rows.end == 2 && cols.begin == 0 && cols.end == 2) {
      pool_2x2(pixel(0, 0), pixel(1, 0), y, k, g.c);
      continue;
    }
    if (rows.begin >= rows.end || cols.begin >= cols.end) {  // dilation steps over the whole image: padding alone
      std::fill_n(y, g.c, -std::numeric_limits<T>::infinity());
      if (k) std::fill_n(k, g.c, Winner(-1));  // no pixel's number
      continue;
    }
    std::copy_n(pixel(rows.begin, cols.begin), g.c, y);
    if (k) std::fill_n(k, g.c, Winner(rows.begin * kernel.w + cols.begin));
    for (int64_t u = rows.begin; u < rows.end; ++u)
      for (int64_t v = cols.begin; v < cols.end; ++v)
        if (u != rows.begin || v != cols.begin) pool_one_more(pixel(u, v), Winner(u * kernel.w + v), y, k, g.c);
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

void max_pool2d_forward_cpu(Tensor& y, Tensor& winner, const Tensor& x, const MaxPool2dWindow& window) {
  const Geometry g(x, y, window);
  dispatch_real("max_pool2d", x.dtype(), [&](auto t) {
    with_winner_type(winner, [&](auto k) {
      using T = decltype(t);
      using Winner = decltype(k);
      const T* xp = x.ptr<T>();
      T* yp = y.ptr<T>();
      Winner* kp = winner ? winner.ptr<Winner>() : nullptr;
      const int64_t row = g.wo * g.c;
      parallel_for(x.shape()[0] * g.ho, std::max<int64_t>(1, kGrain / std::max<int64_t>(row, 1)),
                   [=](int64_t a, int64_t b) {
                     for (int64_t r = a; r < b; ++r)
                       pool_row(g, xp + r / g.ho * g.h * g.w * g.c, r % g.ho, yp + r * row, kp ? kp + r * row : kp);
                   });
    });
  });
}

// v or 0. By its bits, because g++ makes branches of the choice between floats.
template <class T>
T where(bool taken, T v) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return std::bit_cast<T>(std::bit_cast<Bits>(v) & -Bits(taken));
}

// The windows that cover row (or column) `at` are visited by rising number: f(window, element of the window).
template <class F>
void for_windows_over(int64_t at, int64_t k, int64_t stride, int64_t padding, int64_t dilation, int64_t windows,
                      F&& f) {
  for (int64_t u = k; u--;) {
    const int64_t start = at + padding - u * dilation;
    if (start < 0 || start % stride != 0) continue;
    if (start / stride >= windows) return;
    f(start / stride, u);
  }
}

// Gradients of a whole image: each input pixel collects from the windows that cover it, so that pixels are independent
// and each is summed in one order.
template <class T, class Winner>
struct Backward {
  Geometry g;
  bool add;
  T* gx;            // [h, w, c]
  const T* gy;      // [ho, wo, c]
  const Winner* k;  // [ho, wo, c]

  void pixel(int64_t i, int64_t j) const {
    const auto& [kernel, stride, padding, dilation] = g.window;
    const int64_t c = g.c;
    T* to = gx + (i * g.w + j) * c;
    bool started = add;
    for_windows_over(i, kernel.h, stride.h, padding.h, dilation.h, g.ho, [&](int64_t wi, int64_t u) {
      for_windows_over(j, kernel.w, stride.w, padding.w, dilation.w, g.wo, [&](int64_t wj, int64_t v) {
        const T* from = gy + (wi * g.wo + wj) * c;
        const Winner *won = k + (wi * g.wo + wj) * c, at = Winner(u * kernel.w + v);
        if (started) {
#pragma omp simd
          for (int64_t z = 0; z < c; ++z) {
            T d = from[z];
            to[z] += where(won[z] == at, d);
          }
        } else {
#pragma omp simd
          for (int64_t z = 0; z < c; ++z) {
            T d = from[z];
            to[z] = where(won[z] == at, d);
          }
        }
        started = true;
      });
    });
    if (!started) std::fill_n(to, c, T(0));
  }

  // The four pixels of window (i, j) of a 2x2 pooling whose windows lie side by side.
  void four_pixels(int64_t i, int64_t j) const {
    const int64_t c = g.c;
    T *p = gx + (2 * i * g.w + 2 * j) * c, *q = p + g.w * c;
    const T* from = gy + (i * g.wo + j) * c;
    const Winner* won = k + (i * g.wo + j) * c;
    if (add) {
#pragma omp simd
      for (int64_t z = 0; z < c; ++z) {
        T d = from[z];
        int at = won[z];
        p[z] += where(at == 0, d);
        p[c + z] += where(at == 1, d);
        q[z] += where(at == 2, d);
        q[c + z] += where(at == 3, d);
      }
    } else {
#pragma omp simd
      for (int64_t z = 0; z < c; ++z) {
        T d = from[z];
        int at = won[z];
        p[z] = where(at == 0, d);
        p[c + z] = where(at == 1, d);
        q[z] = where(at == 2, d);
        q[c + z] = where(at == 3, d);
      }
    }
  }

  // Rows 2i and 2i+1.
  void two_rows(int64_t i) const {
    const bool full_rows = 2 * i + 1 < g.h && i < g.ho;
    for (int64_t j = 0; 2 * j < g.w; ++j) {
      if (full_rows && 2 * j + 1 < g.w && j < g.wo && g.is_2x2_side_by_side()) {
        four_pixels(i, j);
        continue;
      }
      for (int64_t u = 2 * i; u < std::min(g.h, 2 * i + 2); ++u)
        for (int64_t v = 2 * j; v < std::min(g.w, 2 * j + 2); ++v) pixel(u, v);
    }
  }
};

void max_pool2d_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& winner, const MaxPool2dWindow& window) {
  const Geometry g(gx.t, gy, window);
  dispatch_real("max_pool2d", gy.dtype(), [&](auto t) {
    with_winner_type(winner, [&](auto k) {
      using T = decltype(t);
      using Winner = decltype(k);
      const Backward<T, Winner> all{g, gx.beta != 0, gx.t.ptr<T>(), gy.ptr<T>(), winner.ptr<Winner>()};
      const int64_t pairs = (g.h + 1) / 2;
      parallel_for(gy.shape()[0] * pairs, std::max<int64_t>(1, kGrain / std::max<int64_t>(2 * g.w * g.c, 1)),
                   [=](int64_t a, int64_t b) {
                     for (int64_t r = a; r < b; ++r) {
                       const int64_t n = r / pairs;
                       Backward<T, Winner> image = all;
                       image.gx += n * g.h * g.w * g.c;
                       image.gy += n * g.ho * g.wo * g.c;
                       image.k += n * g.ho * g.wo * g.c;
                       image.two_rows(r % pairs);
                     }
                   });
    });
  });
}

TANDEM_CPU_KERNEL(max_pool2d_forward, max_pool2d_forward_cpu);
TANDEM_CPU_KERNEL(max_pool2d_backward_data, max_pool2d_backward_data_cpu);

}  // namespace
}  // namespace tandem
