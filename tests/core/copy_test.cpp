#include "tests/support/op_case.h"

#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr Dtype kAll[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16,
                          Dtype::i64, Dtype::i32, Dtype::u8,  Dtype::boolean};

// One conversion, spelled out.
template <class To, class From>
To converted(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return double(v) != 0;
  } else if constexpr (std::is_integral_v<To>) {
    return To(int64_t(v));  // cut, then as many low bits as fit
  } else if constexpr (std::is_same_v<To, double>) {
    return double(v);
  } else {
    return To(float(v));
  }
}
template <class T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (sizeof(T) == 2)
    return T(float(a) + float(b));
  else
    return T(a + b);
}

int64_t offset_of(const Tensor& x, int64_t flat) {
  int64_t at = 0;
  for (int d = x.dim(); d--;) {
    at += flat % x.shape()[d] * x.strides()[d];
    flat /= x.shape()[d];
  }
  return at;
}

// y = beta * y + x, one element at a time.
void naive_copy(const Tensor& y, float beta, const Tensor& x) {
  dispatch_all(y.dtype(), [&](auto to) {
    dispatch_all(x.dtype(), [&](auto from) {
      using To = decltype(to);
      for (int64_t i = 0; i < x.numel(); ++i) {
        To& out = y.ptr<To>()[offset_of(y, i)];
        const To v = converted<To>(x.ptr<decltype(from)>()[offset_of(x, i)]);
        out = beta != 0 ? sum(out, v) : v;
      }
    });
  });
}

// Memory with room to spare, on the CPU, filled with small numbers: halves, negative ones and zeros among them.
Tensor memory(int64_t elements, Dtype t, int seed) {
  std::vector<double> v;
  for (int64_t i = 0; i < elements; ++i) v.push_back(double((i * 37 + seed) % 23 - 7) / 2);
  Tensor x = empty({elements}, {.dtype = t, .device = cpu()});
  dispatch_all(t, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < elements; ++i) x.ptr<T>()[i] = converted<T>(v[size_t(i)]);
  });
  return x;
}

struct View {
  Dims shape, y_strides, x_strides;
};

// What a copy meets: each pair of strides of one shape. The last are operands whose elements overlap or repeat.
std::vector<View> views() {
  std::vector<View> all;
  auto rm = [](const Dims& s) { return dense_strides(s, Layout::row_major); };
  auto cl = [](const Dims& s) { return dense_strides(s, Layout::channels_last); };
  const Dims four{2, 3, 4, 5};
  all.push_back({{}, {}, {}});
  all.push_back({{0, 3}, {3, 1}, {1, 0}});
  all.push_back({{7}, {1}, {1}});
  all.push_back({{7}, {3}, {2}});
  all.push_back({four, rm(four), cl(four)});
  all.push_back({four, cl(four), rm(four)});
  all.push_back({four, cl(four), cl(four)});
  all.push_back({{5, 6}, {6, 1}, {1, 5}});      // transposed
  all.push_back({{40, 35}, {35, 1}, {1, 40}});  // over several tiles, with ragged edges
  all.push_back({{40, 35}, {1, 40}, {35, 1}});
  all.push_back({{3, 20, 18}, {360, 18, 1}, {360, 1, 20}});
  all.push_back({{2, 16, 5, 20}, cl({2, 16, 5, 20}), rm({2, 16, 5, 20})});  // merged dimensions are exchanged
  all.push_back({{2, 16, 5, 20}, rm({2, 16, 5, 20}), cl({2, 16, 5, 20})});
  all.push_back({{3, 2, 16}, {32, 16, 1}, {64, 32, 1}});  // rows, of which several elements are moved as one
  all.push_back({{3, 4}, {4, 1}, {8, 1}});
  all.push_back({{3, 4}, {8, 2}, {4, 1}});  // into every second column
  all.push_back({{2, 1, 3}, {3, 77, 1}, {1, 5, 2}});
  all.push_back({{3, 300}, {300, 1}, {900, 3}});  // longer than a block of the stack
  all.push_back({{2, 300}, {601, 2}, {300, 1}});
  all.push_back({{4, 6}, {6, 1}, {0, 1}});  // expanded
  all.push_back({{4, 6}, {6, 1}, {1, 0}});
  all.push_back({{4, 6}, {6, 1}, {0, 0}});
  all.push_back({{5, 4}, {4, 1}, {1, 1}});  // a sliding window
  return all;
}

int64_t span_of(const Dims& shape, const Dims& strides) {
  int64_t last = 0;
  for (int d = 0; d < shape.size(); ++d) last += std::max<int64_t>(0, shape[d] - 1) * strides[d];
  return last + 1;
}

// The same bytes on the device under test, with memory of their own.
Tensor there(const Tensor& x) { return copy_of(x, {.dtype = x.dtype()}); }

void check_copy(const View& v, Dtype to, Dtype from, float beta) {
  Tensor x = memory(span_of(v.shape, v.x_strides) + 3, from, 1),
         want = memory(span_of(v.shape, v.y_strides) + 3, to, 5);
  Tensor got = there(want);
  copy_into({got.alias(v.shape, v.y_strides, 1), beta}, there(x).alias(v.shape, v.x_strides, 2));
  naive_copy(want.alias(v.shape, v.y_strides, 1), beta, x.alias(v.shape, v.x_strides, 2));
  INFO(to_string(from), " to ", to_string(to), ", beta ", beta, ", shape ", to_string(v.shape), ", strides ",
       to_string(v.x_strides), " to ", to_string(v.y_strides));
  CHECK(same_bits(got, want));  // what lies around the view included
}

}  // namespace

TEST_CASE("copy: all pairs of dtypes, all kinds of strides, against a plain loop") {
  for (Dtype to : kAll)
    for (Dtype from : kAll)
      for (float beta : {0.f, 1.f})
        for (auto& v : views()) check_copy(v, to, from, beta);
}

TEST_CASE("copy: large enough for several threads") {
  const Dims shape{150, 60, 10};
  const View cases[] = {{shape, {600, 10, 1}, {600, 10, 1}},
                        {shape, {600, 10, 1}, {1, 150, 9000}},
                        {shape, {600, 1, 60}, {600, 10, 1}},
                        {shape, {600, 10, 1}, {0, 10, 1}}};
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (auto& v : cases)
      for (Dtype to : {Dtype::f32, Dtype::bf16})
        for (float beta : {0.f, 1.f}) check_copy(v, to, Dtype::f32, beta);
  }
  set_num_threads(1);
}

TEST_CASE("copy keeps what is not finite, and rounds halves once") {
  Tensor x = tensor({float(NAN), float(INFINITY), -float(INFINITY), 65520.f, 1.00048828125f});
  auto h = copy_of(x, {.dtype = Dtype::f16}).to_vector();
  CHECK(std::isnan(h[0]));
  CHECK(h[1] == INFINITY);
  CHECK(h[2] == -INFINITY);
  CHECK(h[3] == INFINITY);
  CHECK(h[4] == 1.f);  // a tie: to even
  CHECK(copy_of(x, {.dtype = Dtype::boolean}).to_vector<bool>() == std::vector<bool>(5, true));
}

TEST_CASE("copy with beta 0 does not read what it overwrites") {
  Tensor y = full({4, 4}, NAN);
  copy_into({y.alias({4, 4}, {1, 4}, 0), 0}, zeros({4, 4}));
  CHECK(y.to_vector() == std::vector<float>(16, 0.f));
}

TEST_CASE("copy of different shapes") {
  Tensor y = zeros({2});
  CHECK_THROWS_WITH_AS(copy_into({y, 0}, zeros({3})), "[copy] [3] into [2]", ShapeError);
}

TEST_CASE("fill: all dtypes, dense and strided") {
  for (Dtype t : kAll) {
    INFO(to_string(t));
    for (double v : {0.0, 1.0, 3.0}) {
      Tensor want = memory(24, t, 3), x = there(want);
      Tensor odd = x.alias({3, 4}, {8, 2}, 1);
      fill_into(odd, v);
      naive_copy(want.alias({3, 4}, {8, 2}, 1), 0,
                 from_vector<double>({v}, {1}, {.device = cpu()}).alias({3, 4}, {0, 0}, 0));
      CHECK(same_bits(x, want));
      fill_into(x, v);
      CHECK(x.to_vector<double>() == std::vector<double>(24, t == Dtype::boolean ? v != 0 : v));
    }
  }
  Tensor nothing = empty({0, 2});
  CHECK_NOTHROW(fill_into(nothing, 1));
}

TEST_CASE("as_layout, as_dense and in_layout") {
  Tensor x = random_tensor({2, 3, 4, 5}, {});
  CHECK(as_layout(x, Layout::row_major).is_same(x));
  Tensor y = as_layout(x, Layout::channels_last);
  CHECK(y.layout() == Layout::channels_last);
  CHECK(y.to_vector() == x.to_vector());
  CHECK(as_dense(y).is_same(y));
  Tensor vector = zeros({3});
  CHECK(as_layout(vector, Layout::channels_last).is_same(vector));
  Tensor t = x.alias({5, 4}, {1, 5}, 0);
  CHECK(as_dense(t).is_contiguous());
  CHECK(as_dense(t).to_vector() == t.to_vector());

  // A kernel that writes row-major only: into the tensor itself, or through scratch that is added.
  for (Layout l : {Layout::row_major, Layout::channels_last})
    for (float beta : {0.f, 1.f}) {
      Tensor out = copy_of(x, {.layout = l});
      in_layout({out, beta}, Layout::row_major, [&](Out o) {
        CHECK(o.t.is_contiguous());
        CHECK(o.t.is_same(out) == (l == Layout::row_major));
        copy_into(o, x);
      });
      auto want = x.to_vector();
      for (float& v : want) v *= 1 + beta;
      CHECK(out.to_vector() == want);
    }
}
