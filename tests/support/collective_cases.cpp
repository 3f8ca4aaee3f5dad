#include "tests/support/collective_cases.h"

#include <tandem/ops/compare.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tandem::test {
namespace {

constexpr Dtype kAll[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16,
                          Dtype::i64, Dtype::i32, Dtype::u8,  Dtype::boolean};

// Small whole numbers, other ones on each rank: sums of 8 ranks are exact in every dtype.
double value(Dtype t, int rank, int64_t i) {
  if (t == Dtype::boolean) return double((i + rank) % 3 == 0);
  const auto v = double((i * 7 + rank * 3) % 11);
  return is_floating(t) || t == Dtype::i64 || t == Dtype::i32 ? v - 5 : v;
}

Tensor values(Dtype t, int rank, const Dims& shape) {
  std::vector<double> v(size_t(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = value(t, rank, int64_t(i));
  return from_vector(v, shape).to(t);
}

double reduced(Dtype t, ReduceOp op, int size, int64_t i) {
  double r = value(t, 0, i);
  for (int k = 1; k < size; ++k) {
    const double v = value(t, k, i);
    r = op == ReduceOp::min ? std::fmin(r, v) : op == ReduceOp::max ? std::fmax(r, v) : r + v;
  }
  if (t == Dtype::boolean && op != ReduceOp::min && op != ReduceOp::max) r = r != 0;
  if (op == ReduceOp::mean) r /= size;
  return r;
}

Tensor expected(Dtype t, ReduceOp op, int size, const Dims& shape, int64_t from = 0) {
  std::vector<double> v(size_t(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = reduced(t, op, size, from + int64_t(i));
  return from_vector(v, shape).to(t);
}

void check_reductions(Communicator& c, int64_t n) {
  const int size = c.size();
  const bool halves = (size & (size - 1)) == 0;  // means over a power of two of ranks are exact
  for (Dtype t : kAll)
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max}) {
      if (op == ReduceOp::mean && (!is_floating(t) || !halves)) continue;
      CAPTURE(to_string(t));
      CAPTURE(to_string(op));
      CAPTURE(n);
      Tensor x = values(t, c.rank(), {n});
      c.all_reduce(x, {.op = op});
      CHECK(equal(x, expected(t, op, size, {n})));

      const int root = int(n % size);
      Tensor y = values(t, c.rank(), {n});
      c.reduce(y, root, {.op = op});
      CHECK(equal(y, c.rank() == root ? expected(t, op, size, {n}) : values(t, c.rank(), {n})));

      Tensor part = empty({n}, {.dtype = t});
      c.reduce_scatter(part, values(t, c.rank(), {size, n}), {.op = op});
      CHECK(equal(part, expected(t, op, size, {n}, c.rank() * n)));
    }
}

void check_moves(Communicator& c, int64_t n) {
  const int size = c.size(), me = c.rank(), root = int((n + 1) % size);
  for (Dtype t : kAll) {
    CAPTURE(to_string(t));
    CAPTURE(n);
    Tensor x = values(t, me, {n});
    c.broadcast(x, root);
    CHECK(equal(x, values(t, root, {n})));

    Tensor all = empty({size, n}, {.dtype = t});
    c.all_gather(all, values(t, me, {n}));
    for (int r = 0; r < size; ++r) CHECK(equal(all.select(0, r), values(t, r, {n})));

    Tensor gathered = me == root ? empty({size, n}, {.dtype = t}) : Tensor();
    c.gather(gathered, values(t, me, {n}), root);
    if (me == root)
      for (int r = 0; r < size; ++r) CHECK(equal(gathered.select(0, r), values(t, r, {n})));

    Tensor mine = empty({n}, {.dtype = t});
    c.scatter(mine, me == root ? values(t, 99, {size, n}) : Tensor(), root);
    CHECK(equal(mine, values(t, 99, {size, n}).select(0, me)));

    Tensor out = empty({size, n}, {.dtype = t});
    c.all_to_all(out, values(t, me, {size, n}));
    for (int r = 0; r < size; ++r) CHECK(equal(out.select(0, r), values(t, r, {size, n}).select(0, me)));

    if (size > 1 && me == 0) c.send(values(t, 5, {n}), size - 1);
    if (size > 1 && me == size - 1) {
      Tensor got = zeros({n}, {.dtype = t});
      c.recv(got, 0);
      CHECK(equal(got, values(t, 5, {n})));
    }
  }
  c.barrier();
}

double factor_tolerance(Dtype t) {
  switch (t) {
    case Dtype::f64: return 1e-14;
    case Dtype::f32: return 1e-6;
    case Dtype::f16: return 4e-3;
    default: return 3e-2;
  }
}

// Factors as they are read, which the host or the tensor's device has; a rank that counts for nothing is not read.
void check_factors(Communicator& c, int64_t n, Device there) {
  const int size = c.size();
  const double total = size * (size + 1) / 2.0;
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    Tensor x = values(t, c.rank(), {n});
    c.all_reduce(x, {.premultiply = tensor({double(c.rank() + 1), total}, {.device = there})});
    std::vector<double> sum(static_cast<size_t>(n));
    double largest = 1;
    for (int64_t i = 0; i < n; ++i) {
      double d = 0;
      float f = 0;
      for (int r = 0; r < size; ++r) {
        const double w = (r + 1) / total, v = value(t, r, i);
        d = r ? d + v * w : v * w;
        f = r ? f + float(v) * float(w) : float(v) * float(w);
        largest = std::max(largest, std::abs(v));
      }
      sum[size_t(i)] = t == Dtype::f32 ? double(f) : d;
    }
    const auto got = x.to_vector<double>();
    REQUIRE(got.size() == sum.size());
    if (x.device().is_cpu() && (t == Dtype::f32 || t == Dtype::f64)) {
      CHECK(got == sum);
    } else {  // NCCL adds in an order of its own
      double worst = 0;
      for (size_t i = 0; i < sum.size(); ++i) worst = std::max(worst, std::abs(got[i] - sum[i]));
      CHECK(worst <= factor_tolerance(t) * largest);
    }

    const bool counts = c.rank() != size - 1 || size == 1;
    Tensor y = counts ? values(t, c.rank(), {n}) : full({n}, std::nan(""), {.dtype = t});
    c.all_reduce(y, {.premultiply = tensor({counts ? 1.0 : 0.0, 1.0}, {.device = there})});
    CHECK(equal(y, expected(t, ReduceOp::sum, size == 1 ? 1 : size - 1, {n})));
  }
}

}  // namespace

void check_collectives(Communicator& c, int64_t largest) {
  for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{1025}, largest}) {
    check_reductions(c, n);
    check_moves(c, n);
    check_factors(c, n, cpu());
    if (!current_device().is_cpu()) check_factors(c, n, current_device());
  }
  // A tensor in another layout, and one that lies within another.
  Tensor image = values(Dtype::f32, c.rank(), {2, 3, 4, 5}).contiguous(Layout::channels_last);
  c.all_reduce(image);
  CHECK(equal(image, expected(Dtype::f32, ReduceOp::sum, c.size(), {2, 3, 4, 5})));
  Tensor whole = values(Dtype::i64, c.rank(), {6, 2000}), row = whole.select(0, 3);
  c.all_reduce(row);
  CHECK(whole.select(0, 2).to_vector<int64_t>() ==
        values(Dtype::i64, c.rank(), {6, 2000}).select(0, 2).to_vector<int64_t>());
  CHECK(equal(row, expected(Dtype::i64, ReduceOp::sum, c.size(), {2000}, 6000)));
  // NaN wins over every number (NCCL, in device memory, promises nothing of it).
  Tensor bad = full({3}, c.rank() == c.size() - 1 ? std::nan("") : 1.0);
  c.all_reduce(bad, {.op = ReduceOp::max});
  if (bad.device().is_cpu()) CHECK(std::isnan(bad.to_vector()[0]));
  // Asynchronous ones, in order.
  std::vector<Tensor> many;
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i) {
    many.push_back(values(Dtype::f64, c.rank() + i, {1 + i * 300}));
    works.push_back(c.all_reduce_async(many.back(), {.label = "one of many"}));
  }
  c.barrier();
  for (int i = 0; i < 20; ++i) {
    if (many[size_t(i)].device().is_cpu()) CHECK(works[size_t(i)].is_completed());
    works[size_t(i)].wait();
    double sum = 0;
    for (int r = 0; r < c.size(); ++r) sum += value(Dtype::f64, r + i, 0);
    CHECK(many[size_t(i)].to_vector<double>()[0] == sum);
    CHECK(works[size_t(i)].is_completed());
  }
}

}  // namespace tandem::test
