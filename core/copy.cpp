// Copies by CPU. Two steps keep the code small: moving by strides knows only the element's size, converting works on
// dense memory. What needs both goes through a block on the stack.
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem {
namespace {

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>)
    return v != From(0);
  else if constexpr (std::is_same_v<From, f16> || std::is_same_v<From, bf16>)
    return convert<To>(float(v));
  else if constexpr (std::is_same_v<To, f16> || std::is_same_v<To, bf16>)
    return To(static_cast<float>(v));
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return static_cast<To>(static_cast<int64_t>(v));
  else
    return static_cast<To>(v);
}

// Dense y[0..n) = convert(x[0..n)) (+ y where add).
template <class To, class From>
void convert_run(To* y, const From* x, int64_t n, bool add) {
  if constexpr (std::is_same_v<To, From>) {
    if (!add) {
      std::memcpy(y, x, size_t(n) * sizeof(To));
      return;
    }
  }
  if (!add) {
    for (int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
  } else if constexpr (std::is_same_v<To, bool>) {
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] || convert<bool>(x[i]);
  } else if constexpr (std::is_same_v<To, f16> || std::is_same_v<To, bf16>) {
    for (int64_t i = 0; i < n; ++i) y[i] = To(float(y[i]) + convert<float>(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(y[i] + convert<To>(x[i]));
  }
}
using ConvertRun = void (*)(void*, const void*, int64_t, bool);
ConvertRun converter(Dtype to, Dtype from) {
  return dispatch_all(to, [&](auto t) {
    return dispatch_all(from, [&](auto f) -> ConvertRun {
      using To = decltype(t);
      using From = decltype(f);
      return [](void* y, const void* x, int64_t n, bool add) {
        convert_run(static_cast<To*>(y), static_cast<const From*>(x), n, add);
      };
    });
  });
}

// One loop nest over both tensors: dimensions of size 1 dropped, neighbours that run on in both merged, the one with
// the smallest stride of y innermost.
struct Nest {
  int n = 0;
  int64_t size[kMaxDims], ys[kMaxDims], xs[kMaxDims];
};
Nest nest_of(const Dims& shape, const Dims& ys, const Dims& xs) {
  Nest d;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    d.size[d.n] = shape[i];
    d.ys[d.n] = ys[i];
    d.xs[d.n] = xs[i];
    ++d.n;
  }
  for (int i = 1; i < d.n; ++i)  // insertion sort by y's stride, largest first
    for (int j = i; j > 0 && d.ys[j - 1] < d.ys[j]; --j) {
      std::swap(d.size[j - 1], d.size[j]);
      std::swap(d.ys[j - 1], d.ys[j]);
      std::swap(d.xs[j - 1], d.xs[j]);
    }
  int k = 0;
  for (int i = 1; i < d.n; ++i) {
    if (d.ys[k] == d.ys[i] * d.size[i] && d.xs[k] == d.xs[i] * d.size[i]) {
      d.size[k] *= d.size[i];
      d.ys[k] = d.ys[i];
      d.xs[k] = d.xs[i];
    } else if (++k != i) {
      d.size[k] = d.size[i];
      d.ys[k] = d.ys[i];
      d.xs[k] = d.xs[i];
    }
  }
  if (d.n) d.n = k + 1;
  if (!d.n) {
    d.n = 1;
    d.size[0] = d.ys[0] = d.xs[0] = 1;
  }
  return d;
}

template <class T>
void gather(T* to, const T* x, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) to[i] = x[i * stride];
}
template <class T>
void scatter(T* y, const T* from, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) y[i * stride] = from[i];
}
using Move = void (*)(void*, const void*, int64_t, int64_t);
template <class T>
constexpr Move kGather =
    [](void* to, const void* x, int64_t n, int64_t s) { gather(static_cast<T*>(to), static_cast<const T*>(x), n, s); };
template <class T>
constexpr Move kScatter = [](void* y, const void* from, int64_t n, int64_t s) {
  scatter(static_cast<T*>(y), static_cast<const T*>(from), n, s);
};
Move gather_of(size_t size) {
  return size == 8   ? kGather<uint64_t>
         : size == 4 ? kGather<uint32_t>
         : size == 2 ? kGather<uint16_t>
                     : kGather<uint8_t>;
}
Move scatter_of(size_t size) {
  return size == 8   ? kScatter<uint64_t>
         : size == 4 ? kScatter<uint32_t>
         : size == 2 ? kScatter<uint16_t>
                     : kScatter<uint8_t>;
}

// A transposition of the two inner dimensions in tiles, so that both sides are read and written by cache lines.
template <class T>
void transpose_tiles(T* y, const T* x, int64_t rows, int64_t cols, int64_t y_stride, int64_t x_stride) {
  constexpr int64_t kTile = 16;  // y[r*y_stride + c] = x[c*x_stride + r]
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
      int64_t r1 = std::min(rows, r0 + kTile), c1 = std::min(cols, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) y[r * y_stride + c] = x[c * x_stride + r];
    }
}

constexpr int64_t kGrain = 1 << 14;

void copy_cpu(Out out, const Tensor& x) {
  Tensor& y = out.t;
  const int64_t n = x.numel();
  if (n == 0) return;
  const bool add = out.beta != 0, same_type = x.dtype() == y.dtype();
  const size_t y_size = size_of(y.dtype()), x_size = size_of(x.dtype());
  auto* yp = static_cast<std::byte*>(y.raw());
  auto* xp = static_cast<const std::byte*>(x.raw());
  const ConvertRun run = converter(y.dtype(), x.dtype());
  const Nest d = nest_of(x.shape(), y.strides(), x.strides());

  if (d.n == 1 && d.ys[0] == 1 && d.xs[0] == 1)
    return parallel_for(n, kGrain, [&](int64_t a, int64_t b) { run(yp + a * y_size, xp + a * x_size, b - a, add); });

  const int64_t inner = d.size[d.n - 1], y_step = d.ys[d.n - 1], x_step = d.xs[d.n - 1];
  auto outer_offsets = [&](int64_t index, int dims, int64_t& yo, int64_t& xo) {
    yo = xo = 0;
    for (int i = dims; i--;) {
      int64_t k = index % d.size[i];
      index /= d.size[i];
      yo += k * d.ys[i];
      xo += k * d.xs[i];
    }
  };
  if (same_type && !add && d.n >= 2 && y_step == 1 && d.xs[d.n - 2] == 1 && x_step != 1) {
    const int64_t rows = d.size[d.n - 2], planes = n / (rows * inner);
    auto tiles = [&](auto t) {
      using T = decltype(t);
      parallel_for(planes, std::max<int64_t>(1, kGrain / (rows * inner)), [&](int64_t a, int64_t b) {
        for (int64_t p = a; p < b; ++p) {
          int64_t yo, xo;
          outer_offsets(p, d.n - 2, yo, xo);
          transpose_tiles(reinterpret_cast<T*>(yp) + yo, reinterpret_cast<const T*>(xp) + xo, rows, inner,
                          d.ys[d.n - 2], x_step);
        }
      });
    };
    return y_size == 8   ? tiles(uint64_t{})
           : y_size == 4 ? tiles(uint32_t{})
           : y_size == 2 ? tiles(uint16_t{})
                         : tiles(uint8_t{});
  }

  const Move get = gather_of(x_size), get_y = gather_of(y_size), put = scatter_of(y_size);
  parallel_for(n / inner, std::max<int64_t>(1, kGrain / inner), [&](int64_t a, int64_t b) {
    constexpr int64_t kBlock = 256;
    alignas(64) std::byte xs[kBlock * 8], ys[kBlock * 8];
    for (int64_t r = a; r < b; ++r) {
      int64_t yo, xo;
      outer_offsets(r, d.n - 1, yo, xo);
      std::byte* yr = yp + yo * int64_t(y_size);
      const std::byte* xr = xp + xo * int64_t(x_size);
      if (y_step == 1 && x_step == 1) {
        run(yr, xr, inner, add);
        continue;
      }
      for (int64_t i = 0; i < inner; i += kBlock) {
        int64_t k = std::min(kBlock, inner - i);
        const std::byte* from = xr + i * x_step * int64_t(x_size);
        std::byte* to = yr + i * y_step * int64_t(y_size);
        if (x_step != 1) {
          get(xs, from, k, x_step);
          from = xs;
        }
        if (y_step == 1) {
          run(to, from, k, add);
        } else {
          if (add) get_y(ys, to, k, y_step);
          run(ys, from, k, add);
          put(to, ys, k, y_step);
        }
      }
    }
  });
}

void fill_cpu(Tensor& y, double v) {
  if (y.numel() == 0) return;
  dispatch_all(y.dtype(), [&](auto t) {
    using T = decltype(t);
    const T value = convert<T>(v);
    if (y.is_dense_in_any_layout()) {
      T* p = y.ptr<T>();
      parallel_for(y.numel(), kGrain, [=](int64_t a, int64_t b) { std::fill(p + a, p + b, value); });
    } else {
      Tensor one = from_span(std::span<const T>(&value, 1), {}, {.device = y.device()});
      Dims zero = y.shape();
      for (int i = 0; i < zero.size(); ++i) zero[i] = 0;
      copy_cpu({y, 0}, one.alias(y.shape(), zero, 0));
    }
  });
}

TANDEM_KERNEL(copy_forward, cpu, copy_cpu);
TANDEM_KERNEL(fill_forward, cpu, fill_cpu);

}  // namespace

void copy_into(Out y, const Tensor& x) {
  check<ShapeError>(x.shape() == y.t.shape(), "[copy] ", x.shape(), " into ", y.t.shape());
  copy_forward(y.t.device().is_cpu() ? x.device() : y.t.device(), std::move(y), x);
}

void fill_into(Tensor& y, double v) { fill_forward(y.device(), y, v); }

Tensor copy_of(const Tensor& x, TensorOptions o) {
  Tensor y = empty(x.shape(), {.dtype = o.dtype, .device = o.device, .layout = o.layout});
  copy_into({y, 0}, x);
  if (o.requires_grad) y.set_requires_grad();
  return y;
}

Tensor as_layout(const Tensor& x, Layout l) {
  if (x.is_contiguous(l) || (l == Layout::channels_last && x.dim() != 4 && x.is_contiguous())) return x;
  return copy_of(x, {.dtype = x.dtype(), .device = x.device(), .layout = l});
}

Tensor as_dense(const Tensor& x) { return x.is_dense_in_any_layout() ? x : as_layout(x, Layout::row_major); }

}  // namespace tandem
