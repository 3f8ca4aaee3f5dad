// One order of summation for all layouts and thread counts: the summed dimensions that are neighbours form runs. Runs
// are cut into pieces of kPiece; a part is a range of (outer index, piece) whose bounds depend on the shapes alone. In
// a part, element i of the innermost run goes to lane i % kLanes; lanes are added first to last, then the parts.
// Whether a kept or a summed dimension is innermost in memory decides only which loop is the inner one.
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/sum_to.h>
#include <tandem/ops/widen.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kPiece = 256;  // a multiple of kLanes
constexpr int64_t kBlock = 128;  // kept elements at a time
constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kMaxParts = 16;

struct Run {
  int64_t size, xs, ys;
};
struct Runs {
  int n = 0;
  Run run[kMaxDims + 1];  // room for a run of 1
  int64_t count() const {
    int64_t k = 1;
    for (int i = 0; i < n; ++i) k *= run[i].size;
    return k;
  }
  // Where the index-th element of the first `runs` runs lies in x and y.
  std::pair<int64_t, int64_t> offsets(int64_t index, int runs) const {
    int64_t x = 0, y = 0;
    for (int i = runs; i--;) {
      int64_t k = index % run[i].size;
      index /= run[i].size;
      x += k * run[i].xs;
      y += k * run[i].ys;
    }
    return {x, y};
  }
};

struct Plan {
  Runs kept, summed;
  bool even = true;  // every run of summed dimensions has one stride: else x must be made row-major
};

Plan plan_of(const Tensor& y, const Tensor& x) {
  Plan p;
  const int skip = x.dim() - y.dim();
  int previous = 0;  // 1: the dimension before was kept, 2: summed
  for (int d = 0; d < x.dim(); ++d) {
    const int64_t n = x.shape()[d];
    if (n == 1) continue;
    const bool keep = d >= skip && y.shape()[d - skip] == n;
    const int64_t xs = x.strides()[d], ys = keep ? y.strides()[d - skip] : 0;
    Runs& runs = keep ? p.kept : p.summed;
    Run* last = previous == (keep ? 1 : 2) ? &runs.run[runs.n - 1] : nullptr;
    const bool runs_on = last && last->xs == xs * n && last->ys == ys * n;
    if (last && !keep && !runs_on) p.even = false;
    if (runs_on)
      *last = {last->size * n, xs, ys};
    else
      runs.run[runs.n++] = {n, xs, ys};
    previous = keep ? 1 : 2;
  }
  if (!p.summed.n) p.summed.run[p.summed.n++] = {1, 0, 0};
  // The kept run that is innermost in memory goes last; without one, a run of 1.
  for (int i = 0; i + 1 < p.kept.n; ++i)
    if (p.kept.run[i].xs == 1) std::swap(p.kept.run[i], p.kept.run[p.kept.n - 1]);
  if (!p.kept.n || p.kept.run[p.kept.n - 1].xs != 1) p.kept.run[p.kept.n++] = {1, 0, 0};
  return p;
}

// The sums of `width` neighbouring kept elements over segments [a, b) of the summed runs.
template <class T>
void sum_part(double* sums, const T* x, int64_t width, const Runs& summed, int64_t a, int64_t b) {
  const Run inner = summed.run[summed.n - 1];
  const int64_t pieces = (inner.size + kPiece - 1) / kPiece, stride = inner.xs;
  double lanes[kLanes][kBlock];
  for (auto& lane : lanes) std::fill_n(lane, width, 0.0);
  for (int64_t s = a; s < b; ++s) {
    const int64_t i0 = s % pieces * kPiece, n = std::min(kPiece, inner.size - i0);
    const T* p = x + summed.offsets(s / pieces, summed.n - 1).first + i0 * stride;
    if (width == 1) {
      double lane[kLanes];
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = lanes[l][0];
      int64_t i = 0;
      if (stride == 1)
        for (; i + kLanes <= n; i += kLanes)
          for (int64_t l = 0; l < kLanes; ++l) lane[l] += double(p[i + l]);
      for (; i < n; ++i) lane[i % kLanes] += double(p[i * stride]);
      for (int64_t l = 0; l < kLanes; ++l) lanes[l][0] = lane[l];
    } else {
      for (int64_t i = 0; i < n; ++i) {
        double* lane = lanes[i % kLanes];
        const T* row = p + i * stride;
        for (int64_t k = 0; k < width; ++k) lane[k] += double(row[k]);
      }
    }
  }
  for (int64_t k = 0; k < width; ++k) {
    double sum = lanes[0][k];
    for (int64_t l = 1; l < kLanes; ++l) sum += lanes[l][k];
    sums[k] = sum;
  }
}

template <class T>
void sum_to_typed(Out& out, const Tensor& x, const Plan& plan) {
  const Runs &kept = plan.kept, &summed = plan.summed;
  const Run inner = kept.run[kept.n - 1];
  const int64_t n_kept = kept.count(), blocks = (inner.size + kBlock - 1) / kBlock;
  const int64_t run = summed.run[summed.n - 1].size;
  const int64_t segments = summed.count() / run * ((run + kPiece - 1) / kPiece);
  const bool few = n_kept < kGrain / 2 && n_kept * summed.count() >= kGrain;  // too few kept ones to share out
  const int64_t parts = few ? std::min(segments, kMaxParts) : 1;
  const T* xp = x.ptr<T>();
  T* yp = out.t.ptr<T>();
  const bool add = out.beta != 0;

  // Calls f(y's offset, x's offset, index of the first kept element, width) for a block of kept elements.
  auto at_block = [&](int64_t j, auto&& f) {
    const int64_t k0 = j % blocks * kBlock;
    auto [xo, yo] = kept.offsets(j / blocks, kept.n - 1);
    f(yo + k0 * inner.ys, xo + k0, j / blocks * inner.size + k0, std::min(kBlock, inner.size - k0));
  };
  auto store = [&](int64_t yo, const double* sums, int64_t width) {
    T* q = yp + yo;
    for (int64_t k = 0; k < width; ++k, q += inner.ys) *q = add ? T(double(*q) + sums[k]) : T(sums[k]);
  };
  const int64_t jobs = n_kept / inner.size * blocks * parts;
  const int64_t work = std::max<int64_t>(1, n_kept * summed.count() / jobs);
  const int64_t grain = std::max<int64_t>(1, kGrain / work);
  if (parts == 1) {
    parallel_for(jobs, grain, [&](int64_t a, int64_t b) {
      double sums[kBlock];
      for (int64_t j = a; j < b; ++j)
        at_block(j, [&](int64_t yo, int64_t xo, int64_t, int64_t width) {
          sum_part(sums, xp + xo, width, summed, 0, segments);
          store(yo, sums, width);
        });
    });
    return;
  }
  Tensor scratch = empty({parts, n_kept}, {.dtype = Dtype::f64, .device = x.device()});
  double* partial = scratch.ptr<double>();
  parallel_for(jobs, grain, [&](int64_t a, int64_t b) {
    for (int64_t j = a; j < b; ++j)
      at_block(j / parts, [&](int64_t, int64_t xo, int64_t k, int64_t width) {
        const int64_t part = j % parts;
        sum_part(partial + part * n_kept + k, xp + xo, width, summed, part * segments / parts,
                 (part + 1) * segments / parts);
      });
  });
  for (int64_t j = 0; j < jobs / parts; ++j)
    at_block(j, [&](int64_t yo, int64_t, int64_t k, int64_t width) {
      for (int64_t part = 1; part < parts; ++part)
        for (int64_t i = 0; i < width; ++i) partial[k + i] += partial[part * n_kept + k + i];
      store(yo, partial + k, width);
    });
}

void sum_to_cpu(Out out, const Tensor& x) {
  if (x.numel() == 0) {
    if (out.beta == 0) fill_into(out.t, 0);
    return;
  }
  Plan plan = plan_of(out.t, x);
  Tensor rows = x;
  if (!plan.even) {
    rows = as_layout(x, Layout::row_major);
    plan = plan_of(out.t, rows);
  }
  dispatch_real("sum_to", x.dtype(), [&](auto t) { sum_to_typed<decltype(t)>(out, rows, plan); });
}
TANDEM_CPU_KERNEL(sum_to_forward, sum_to_cpu);

}  // namespace

Tensor sum_to(const Tensor& x, const Dims& shape) {
  check<DtypeError>(is_floating(x.dtype()), "[sum_to] takes floating tensors, got ", x.dtype());
  check<ShapeError>(broadcast_shapes("sum_to", shape, x.shape()) == x.shape(), "[sum_to] ", shape,
                    " does not broadcast to ", x.shape());
  if (x.shape() == shape) return x;
  Tensor dense = as_dense(x);
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device(), .layout = dense.layout()});
  sum_to_forward(x.device(), Out{y, 0}, dense);
  return y;
}

void give_sum_to(Target& gx, Tensor gy) {
  if (gx.shape() == gy.shape()) return gx.give(std::move(gy));
  Out out = gx.out();
  if (out.t.dtype() == gy.dtype())
    sum_to_forward(gy.device(), out, as_dense(gy));
  else  // the op computed in a wider type
    copy_into(out, sum_to(gy, out.t.shape()));
}

}  // namespace tandem
