#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/binary.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("add", [](GoldenCall& c) { return add(c.in[0], c.in[1], c.args.number("alpha", 1)); });
TANDEM_GOLDEN("sub", [](GoldenCall& c) { return sub(c.in[0], c.in[1], c.args.number("alpha", 1)); });
TANDEM_GOLDEN("mul", [](GoldenCall& c) { return mul(c.in[0], c.in[1]); });
TANDEM_GOLDEN("div", [](GoldenCall& c) { return div(c.in[0], c.in[1]); });
TANDEM_GOLDEN("maximum", [](GoldenCall& c) { return maximum(c.in[0], c.in[1]); });
TANDEM_GOLDEN("minimum", [](GoldenCall& c) { return minimum(c.in[0], c.in[1]); });
TANDEM_GOLDEN("add_scalar", [](GoldenCall& c) { return add(c.in[0], c.args.number("value", 0)); });
TANDEM_GOLDEN("mul_scalar", [](GoldenCall& c) { return mul(c.in[0], c.args.number("value", 0)); });

namespace {

using Plain = double (*)(double, double);

// Element by element, the operands' indices worked out from the result's.
std::vector<double> plainly(const Dims& a, const Dims& b, const std::vector<std::vector<double>>& in, Plain f) {
  const Dims shape = broadcast_shapes("plainly", a, b);
  auto at = [&](const Dims& own, int64_t index) {
    int64_t offset = 0, step = 1;
    for (int d = shape.size(), k = own.size(); d--; index /= shape[d])
      if (--k >= 0) {
        if (own[k] != 1) offset += index % shape[d] * step;
        step *= own[k];
      }
    return size_t(offset);
  };
  std::vector<double> y;
  for (int64_t i = 0; i < shape.numel(); ++i) y.push_back(f(in[0][at(a, i)], in[1][at(b, i)]));
  return y;
}

void check_binary(const std::string& name, const Dims& a, const Dims& b, Tensor (*op)(const Tensor&, const Tensor&),
                  Plain f, double b_low = -1, double b_high = 1) {
  check_op({.name = name + " " + to_string(a) + " " + to_string(b),
            .inputs = {{.shape = a}, {.shape = b, .low = b_low, .high = b_high}},
            .run = [op](auto& in) { return op(in[0], in[1]); },
            .reference = [&](auto& in) { return plainly(a, b, in, f); }});
}

Tensor plus(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor minus_half(const Tensor& a, const Tensor& b) { return sub(a, b, 0.5); }

}  // namespace

TEST_CASE("add, sub, mul, div of all pairs of shapes") {
  const std::pair<Dims, Dims> shapes[] = {
      {{2, 3, 4, 5}, {2, 3, 4, 5}},
      {{2, 3, 4, 5}, {3, 1, 1}},
      {{2, 3, 4, 5}, {5}},
      {{2, 1, 4, 1}, {2, 3, 1, 5}},
      {{}, {2, 3}},
      {{4, 1}, {1, 3}},
      {{1}, {}},
      {{0, 3}, {1, 3}},
      {{2, 3, 1, 1}, {2, 3, 4, 5}},
      {{3, 4, 5}, {2, 3, 4, 5}},
      {{7}, {7}},
  };
  for (auto& [a, b] : shapes) {
    check_binary("add", a, b, plus, [](double x, double y) { return x + y; });
    check_binary("sub", a, b, minus_half, [](double x, double y) { return x - 0.5 * y; });
    check_binary("mul", a, b, mul, [](double x, double y) { return x * y; });
    check_binary(
        "div", a, b, div, [](double x, double y) { return x / y; }, 0.5, 2);
  }
}

TEST_CASE("maximum, minimum") {
  const std::pair<Dims, Dims> shapes[] = {
      {{2, 3, 4, 5}, {2, 3, 4, 5}}, {{2, 3, 4, 5}, {3, 1, 1}}, {{4, 1}, {1, 3}}, {{0, 3}, {3}}};
  for (auto& [a, b] : shapes) {
    check_binary("maximum", a, b, maximum, [](double x, double y) { return std::max(x, y); });
    check_binary("minimum", a, b, minimum, [](double x, double y) { return std::min(x, y); });
  }
}

TEST_CASE("equal operands of maximum and minimum share the gradient, and NaN wins") {
  for (auto op : {static_cast<Tensor (*)(const Tensor&, const Tensor&)>(maximum), minimum}) {
    Tensor a = tensor({1.f, 2.f, 3.f, NAN, 1.f}, {.requires_grad = true});
    Tensor b = tensor({1.f, 4.f, 2.f, 1.f, NAN}, {.requires_grad = true});
    Tensor y = op(a, b);
    CHECK(std::isnan(y.to_vector()[3]));
    CHECK(std::isnan(y.to_vector()[4]));
    y.backward(full({5}, 2));
    CHECK(a.grad().to_vector()[0] == 1);
    CHECK(b.grad().to_vector()[0] == 1);
    CHECK(a.grad().to_vector()[1] + b.grad().to_vector()[1] == 2);
  }
}

TEST_CASE("tensors and numbers") {
  auto with_number = [](const std::string& name, Tensor (*f)(const Tensor&), double (*plain)(double)) {
    check_op({.name = name,
              .inputs = {{.shape = {2, 3, 4, 5}, .low = 0.5, .high = 2, .gap = 0.05, .kink = 0.75}},
              .run = [f](auto& in) { return f(in[0]); },
              .reference =
                  [plain](auto& in) {
                    auto y = in[0];
                    for (double& v : y) v = plain(v);
                    return y;
                  }});
  };
  with_number(
      "x + 1.5", [](const Tensor& x) { return x + 1.5; }, [](double x) { return x + 1.5; });
  with_number(
      "2 + x", [](const Tensor& x) { return 2 + x; }, [](double x) { return 2 + x; });
  with_number(
      "x - 3", [](const Tensor& x) { return x - 3; }, [](double x) { return x - 3; });
  with_number(
      "3 - x", [](const Tensor& x) { return 3 - x; }, [](double x) { return 3 - x; });
  with_number(
      "x * -0.25", [](const Tensor& x) { return x * -0.25; }, [](double x) { return x * -0.25; });
  with_number(
      "3 * x", [](const Tensor& x) { return 3 * x; }, [](double x) { return 3 * x; });
  with_number(
      "x / 4", [](const Tensor& x) { return x / 4; }, [](double x) { return x / 4; });
  with_number(
      "1.5 / x", [](const Tensor& x) { return 1.5 / x; }, [](double x) { return 1.5 / x; });
  with_number(
      "-x", [](const Tensor& x) { return -x; }, [](double x) { return -x; });
  with_number(
      "max(x, .75)", [](const Tensor& x) { return maximum(x, 0.75); }, [](double x) { return std::max(x, 0.75); });
  with_number(
      "min(x, .75)", [](const Tensor& x) { return minimum(x, 0.75); }, [](double x) { return std::min(x, 0.75); });
}

TEST_CASE("one tensor on both sides") {
  Tensor x = tensor({1.f, -2.f, 3.f}, {.requires_grad = true});
  (x * x + x - x / x).backward(ones({3}));
  CHECK(x.grad().to_vector() == std::vector<float>{3, -3, 7});
}

TEST_CASE("dtypes promote as in PyTorch") {
  Tensor f = ones({2}), d = ones({2}, {.dtype = Dtype::f64}), h = ones({2}, {.dtype = Dtype::f16}),
         l = ones({2}, {.dtype = Dtype::i64}), b = ones({2}, {.dtype = Dtype::u8}),
         t = ones({2}, {.dtype = Dtype::boolean});
  CHECK((f + d).dtype() == Dtype::f64);
  CHECK((f + l).dtype() == Dtype::f32);
  CHECK((h + l).dtype() == Dtype::f16);
  CHECK((h + ones({2}, {.dtype = Dtype::bf16})).dtype() == Dtype::f32);
  CHECK((b + l).dtype() == Dtype::i64);
  CHECK((t + t).dtype() == Dtype::boolean);
  CHECK((l / l).dtype() == Dtype::f32);
  CHECK((b / 2).dtype() == Dtype::f32);
  CHECK((l * 2).dtype() == Dtype::i64);
  CHECK((l * 2.5).dtype() == Dtype::f32);
  CHECK((l * 2.5).to_vector() == std::vector<float>{2.5, 2.5});
  CHECK((h * 2.5).dtype() == Dtype::f16);
  CHECK((t + 1).dtype() == Dtype::i64);
  // A scalar tensor's dtype counts only where its kind is the higher one.
  CHECK((f + full({}, 1, {.dtype = Dtype::f64})).dtype() == Dtype::f32);
  CHECK((l + full({}, 1, {.dtype = Dtype::f64})).dtype() == Dtype::f64);
  CHECK((b + full({}, 1, {.dtype = Dtype::i64})).dtype() == Dtype::u8);
  CHECK((t + full({}, 1, {.dtype = Dtype::u8})).dtype() == Dtype::u8);
}

TEST_CASE("integers and bools") {
  Tensor a = tensor<int64_t>({7, -3, 0}), b = tensor<int64_t>({2, 2, 5});
  CHECK((a - b).to_vector<int64_t>() == std::vector<int64_t>{5, -5, -5});
  CHECK((a * b).to_vector<int64_t>() == std::vector<int64_t>{14, -6, 0});
  CHECK(add(a, b, 3).to_vector<int64_t>() == std::vector<int64_t>{13, 3, 15});
  CHECK((a / b).to_vector() == std::vector<float>{3.5, -1.5, 0});
  CHECK(maximum(a, b).to_vector<int64_t>() == std::vector<int64_t>{7, 2, 5});
  Tensor u = tensor<uint8_t>({250, 3}), v = tensor<uint8_t>({10, 5});
  CHECK((u + v).to_vector<uint8_t>() == std::vector<uint8_t>{4, 8});
  CHECK((u - v).to_vector<uint8_t>() == std::vector<uint8_t>{240, 254});
  CHECK((-v).to_vector<uint8_t>() == std::vector<uint8_t>{246, 251});
  Tensor p = tensor({true, false, true}), q = tensor({true, false, false});
  CHECK((p + q).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK((p * q).to_vector<bool>() == std::vector<bool>{true, false, false});
  CHECK_THROWS_AS(p - q, DtypeError);
  CHECK_THROWS_AS(add(a, b, 0.5), DtypeError);
  CHECK_THROWS_AS(add(a, 1, 0.5), DtypeError);
}

TEST_CASE("gradients of operands of two dtypes keep each its own") {
  Tensor a = random_tensor({2, 3}, {.dtype = Dtype::f32, .requires_grad = true});
  Tensor b = random_tensor({3}, {.dtype = Dtype::f64, .requires_grad = true});
  for (auto op : {static_cast<Tensor (*)(const Tensor&, const Tensor&)>(mul), div, maximum, plus, minus_half}) {
    a.zero_grad();
    b.zero_grad();
    Tensor y = op(a, b);
    CHECK(y.dtype() == Dtype::f64);
    y.backward(ones({2, 3}, {.dtype = Dtype::f64}));
    CHECK(a.grad().dtype() == Dtype::f32);
    CHECK(b.grad().dtype() == Dtype::f64);
  }
}

TEST_CASE("the result is channels-last where an operand of its shape is") {
  const Dims shape{2, 3, 4, 5};
  Tensor x = random_tensor(shape, {.layout = Layout::channels_last}), r = random_tensor(shape),
         c = random_tensor({3, 1, 1}), one = random_tensor({1, 3, 4, 5}, {.layout = Layout::channels_last});
  CHECK((x + r).layout() == Layout::channels_last);
  CHECK((r + x).layout() == Layout::channels_last);
  CHECK((c * x).layout() == Layout::channels_last);
  CHECK((r + one).layout() == Layout::row_major);
  CHECK(same_bits(x + one, x.contiguous() + one.contiguous()));
}

TEST_CASE("add gives its gradient without a copy") {
  Tensor a = ones({3}).set_requires_grad(), y = a * 1;
  const void* memory = nullptr;
  y.register_hook([&](const Tensor& g) {
    memory = g.raw();
    return Tensor();
  });
  Tensor start = ones({3});
  (y + ones({3})).backward(start);
  CHECK(memory == start.raw());
}

TEST_CASE("what binary ops refuse") {
  CHECK_THROWS_AS(ones({2, 3}) + ones({2}), ShapeError);
  set_cpu_devices(2);
  CHECK_THROWS_AS(ones({2}) + ones({2}, {.device = cpu(1)}), DeviceError);
}
