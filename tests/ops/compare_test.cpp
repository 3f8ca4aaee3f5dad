#include "tests/support/op_case.h"

#include <tandem/core/parallel_for.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

using Bools = std::vector<bool>;
using Op = Tensor (*)(const Tensor&, const Tensor&);
using NumberOp = Tensor (*)(const Tensor&, Scalar);

struct Case {
  const char* name;
  Op op;
  NumberOp with_number;
  bool (*plain)(double, double);
};
const Case kCases[] = {
    {"eq", eq, eq, [](double a, double b) { return a == b; }},
    {"ne", ne, ne, [](double a, double b) { return a != b; }},
    {"lt", lt, lt, [](double a, double b) { return a < b; }},
    {"le", le, le, [](double a, double b) { return a <= b; }},
    {"gt", gt, gt, [](double a, double b) { return a > b; }},
    {"ge", ge, ge, [](double a, double b) { return a >= b; }},
};

}  // namespace

TEST_CASE("comparisons, in every dtype and layout, broadcast, with any number of threads") {
  const Dims shape{2, 3, 4, 5};
  for (auto& c : kCases)
    for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i64, Dtype::i32, Dtype::u8, Dtype::boolean})
      for (const Dims& other : {shape, Dims{3, 1, 1}, Dims{1, 5}, Dims{}}) {
        INFO(c.name, " ", to_string(t), " ", to_string(other));
        Tensor a = random_tensor(shape, {.dtype = Dtype::u8}, 0, 3),
               b = random_tensor(other, {.dtype = Dtype::u8}, 0, 3);
        a = a.to(t);
        b = b.to(t);
        Tensor y = c.op(a, b);
        CHECK(y.dtype() == Dtype::boolean);
        auto u = a.to_vector<double>(), v = b.expand(shape).to_vector<double>();
        Bools want;
        for (size_t i = 0; i < u.size(); ++i) want.push_back(c.plain(u[i], v[i]));
        CHECK(y.to_vector<bool>() == want);
        CHECK(c.op(a.contiguous(Layout::channels_last), b).to_vector<bool>() == want);
        CHECK(c.op(a.transpose(1, 2).contiguous().transpose(1, 2), b).to_vector<bool>() == want);
      }
  Tensor a = random_tensor({100000}), b = random_tensor({100000});
  Tensor one = lt(a, b);
  set_num_threads(2);
  CHECK(same_bits(lt(a, b), one));
  set_num_threads(1);
}

TEST_CASE("comparisons with numbers") {
  for (auto& c : kCases) {
    INFO(c.name);
    Tensor x = tensor({0.5f, 1.f, 1.5f, NAN});
    CHECK(c.with_number(x, 1).to_vector<bool>() ==
          Bools{c.plain(0.5, 1), c.plain(1, 1), c.plain(1.5, 1), c.plain(NAN, 1)});
    CHECK(c.with_number(arange(0, 3), 0.5).to_vector<bool>() ==
          Bools{c.plain(0, 0.5), c.plain(1, 0.5), c.plain(2, 0.5)});
    CHECK(c.with_number(tensor<uint8_t>({44, 200}), 300).to_vector<bool>() ==
          Bools{c.plain(44, 300), c.plain(200, 300)});
  }
  CHECK(eq(tensor({0.1f}), 0.1).item<bool>());  // the number is taken in the tensor's dtype
  CHECK(eq(full({1}, 0.1, {.dtype = Dtype::f16}), 0.1).item<bool>());
}

TEST_CASE("comparisons have no gradient and refuse what does not fit") {
  Tensor x = ones({2}).set_requires_grad();
  CHECK(!gt(x, 0).requires_grad());
  CHECK(!isfinite(x).requires_grad());
  CHECK_THROWS_AS(eq(ones({2}), ones({3})), ShapeError);
}

TEST_CASE("logical ops") {
  Tensor a = tensor({0.f, 2.f, NAN, 0.f}), b = tensor<int64_t>({0, 0, 3, -1});
  CHECK(logical_not(a).to_vector<bool>() == Bools{true, false, false, true});
  CHECK(logical_and(a, b).to_vector<bool>() == Bools{false, false, true, false});
  CHECK(logical_or(a, b).to_vector<bool>() == Bools{false, true, true, true});
}

TEST_CASE("isnan, isfinite") {
  Tensor x = tensor({1.f, NAN, INFINITY, -INFINITY});
  CHECK(isnan(x).to_vector<bool>() == Bools{false, true, false, false});
  CHECK(isfinite(x).to_vector<bool>() == Bools{true, false, false, false});
  CHECK(isfinite(x.to(Dtype::bf16)).to_vector<bool>() == Bools{true, false, false, false});
  CHECK(isfinite(arange(0, 2)).to_vector<bool>() == Bools{true, true});
  CHECK(isnan(arange(0, 2)).to_vector<bool>() == Bools{false, false});
}

TEST_CASE("all, any") {
  for (int64_t n : {1, 7, 100000}) {
    Tensor x = zeros({n});
    CHECK(!any(x).item<bool>());
    CHECK(!all(x).item<bool>());
    x.select(0, n - 1).fill_(0.5);
    CHECK(any(x).item<bool>());
    CHECK(all(x).item<bool>() == (n == 1));
    CHECK(all(ones({n})).item<bool>());
  }
  CHECK(all(zeros({0})).item<bool>());
  CHECK(!any(zeros({0})).item<bool>());
  CHECK(any(arange(0, 6).slice(0, 0, 6, 2)).item<bool>());
}

TEST_CASE("equal, allclose") {
  Tensor x = random_tensor({2, 3, 4, 5});
  CHECK(equal(x, x.contiguous(Layout::channels_last)));
  CHECK(!equal(x, x.reshape({6, 20})));
  CHECK(!equal(tensor({1.f, NAN}), tensor({1.f, NAN})));
  CHECK(equal(zeros({0}), zeros({0})));
  CHECK(allclose(tensor({1.0, 100.0}), tensor({1.0 + 5e-6, 100.0005})));
  CHECK(!allclose(tensor({1.0}), tensor({1.0 + 2e-5})));
  CHECK(allclose(tensor({1.0}), tensor({1.1}), 0, 0.2));
  CHECK(allclose(tensor({INFINITY, 1.f}), tensor({INFINITY, 1.f})));
  CHECK(!allclose(tensor({INFINITY}), tensor({-INFINITY})));
  CHECK(!allclose(tensor({1.f}), tensor({INFINITY})));
  CHECK(!allclose(tensor({NAN}), tensor({NAN})));
  CHECK(allclose(tensor({NAN}), tensor({NAN}), 1e-5, 1e-8, true));
  CHECK(allclose(arange(0, 3), arange(0, 3)));
  CHECK(!allclose(arange(0, 3), arange(1, 4)));
}
