#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/dropout.h>
#include <tandem/ops/widen.h>

#include <algorithm>

namespace tandem {

constexpr OpId kDropout{"dropout"};

Tensor dropout(Tensor x_in, double p, bool training) {
  auto [x] = enter(kDropout, x_in);
  check(p >= 0 && p <= 1, "[dropout] the probability is from 0 to 1, got ", p);
  check<DtypeError>(is_floating(x.dtype()), "[dropout] takes floating tensors, got ", x.dtype());
  if (!training || p == 0 || x.numel() == 0) return x;
  const bool over = x.unique();  // asked before another handle is made
  Tensor dense = as_dense(x);
  Tensor y = over ? x.detach() : empty_like(dense);
  Tensor mask = empty(x.shape(), {.dtype = Dtype::u8, .device = x.device(), .layout = dense.layout()});
  RandomStep& random = context().random;
  const DropoutKey key{random.seed, random.step, random.call++, random.row_offset};
  dropout_forward(x.device(), y, mask, dense, key, p);
  return record("dropout", y, {x}, [mask = Saved("dropout", mask), p](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_layout(gy, mask().layout());
    gy = {};  // g is the only handle now, and may be written over
    in_layout(t[0].out_over(g), mask().layout(), [&](Out gx) { dropout_backward_data(g.device(), gx, g, mask(), p); });
  });
}

namespace {

constexpr int64_t kGrain = 1 << 12;

double scale_of(double p) { return p < 1 ? 1 / (1 - p) : 0; }

// Row-major bytes: 1 where a draw of 32 bits is at least p.
void draw(Tensor& mask, const DropoutKey& key, double p) {
  const auto of_call =
      philox(key.seed, {uint32_t(key.step), uint32_t(key.step >> 32), uint32_t(key.call), uint32_t(key.call >> 32)});
  const uint64_t k = uint64_t(of_call[1]) << 32 | of_call[0];
  const auto dropped = uint64_t(p * 0x1p32);
  const int64_t rows = mask.dim() ? mask.size(0) : 1, width = mask.numel() / rows, blocks = (width + 3) / 4;
  auto* bytes = mask.ptr<uint8_t>();
  parallel_for(rows * blocks, kGrain / 4, [=](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) {
      const int64_t row = i / blocks, block = i % blocks, global = row + key.row_offset;
      const auto u =
          philox(k, {uint32_t(block), uint32_t(block >> 32), uint32_t(global), uint32_t(uint64_t(global) >> 32)});
      uint8_t* to = bytes + row * width + 4 * block;
      const int64_t n = std::min<int64_t>(4, width - 4 * block);
      for (int64_t j = 0; j < n; ++j) to[j] = u[size_t(j)] >= dropped;
    }
  });
}

template <bool kAdd, class T>
void apply(T* y, const T* x, const uint8_t* mask, int64_t n, double p) {
  const T scale = T(scale_of(p));
  parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
    for (int64_t i = a; i < b; ++i) {
      const T v = x[i] * (T(mask[i]) * scale);
      y[i] = kAdd ? y[i] + v : v;
    }
  });
}

void dropout_forward_cpu(Tensor& y, Tensor& mask, const Tensor& x, const DropoutKey& key, double p) {
  if (mask.is_contiguous()) {
    draw(mask, key, p);
  } else {
    Tensor rows = empty(mask.shape(), {.dtype = Dtype::u8, .device = mask.device()});
    draw(rows, key, p);
    copy_into({mask, 0}, rows);
  }
  dispatch_real("dropout", x.dtype(), [&](auto t) {
    using T = decltype(t);
    apply<false>(y.ptr<T>(), x.ptr<T>(), mask.ptr<uint8_t>(), x.numel(), p);
  });
}

void dropout_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& mask, double p) {
  dispatch_real("dropout", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    auto* bytes = mask.ptr<uint8_t>();
    if (gx.beta != 0)
      apply<true>(gx.t.ptr<T>(), gy.ptr<T>(), bytes, gy.numel(), p);
    else
      apply<false>(gx.t.ptr<T>(), gy.ptr<T>(), bytes, gy.numel(), p);
  });
}

TANDEM_CPU_KERNEL(dropout_forward, dropout_forward_cpu);
TANDEM_CPU_KERNEL(dropout_backward_data, dropout_backward_data_cpu);

}  // namespace
}  // namespace tandem
