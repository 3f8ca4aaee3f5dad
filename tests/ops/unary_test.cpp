#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/unary.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("neg", [](GoldenCall& c) { return neg(c.in[0]); });
TANDEM_GOLDEN("exp", [](GoldenCall& c) { return exp(c.in[0]); });
TANDEM_GOLDEN("log", [](GoldenCall& c) { return log(c.in[0]); });
TANDEM_GOLDEN("sqrt", [](GoldenCall& c) { return sqrt(c.in[0]); });
TANDEM_GOLDEN("rsqrt", [](GoldenCall& c) { return rsqrt(c.in[0]); });
TANDEM_GOLDEN("reciprocal", [](GoldenCall& c) { return reciprocal(c.in[0]); });
TANDEM_GOLDEN("abs", [](GoldenCall& c) { return abs(c.in[0]); });
TANDEM_GOLDEN("square", [](GoldenCall& c) { return square(c.in[0]); });
TANDEM_GOLDEN("sigmoid", [](GoldenCall& c) { return sigmoid(c.in[0]); });
TANDEM_GOLDEN("tanh", [](GoldenCall& c) { return tanh(c.in[0]); });
TANDEM_GOLDEN("silu", [](GoldenCall& c) { return silu(c.in[0]); });
TANDEM_GOLDEN("gelu", [](GoldenCall& c) { return gelu(c.in[0], c.args.text("approximate", "none")); });
TANDEM_GOLDEN("leaky_relu", [](GoldenCall& c) { return leaky_relu(c.in[0], c.args.number("negative_slope", 0.01)); });
TANDEM_GOLDEN("clamp", [](GoldenCall& c) {
  std::optional<double> min, max;
  if (c.args.has("min")) min = c.args.number("min", 0);
  if (c.args.has("max")) max = c.args.number("max", 0);
  return clamp(c.in[0], min, max);
});
TANDEM_GOLDEN("pow", [](GoldenCall& c) { return pow(c.in[0], c.args.number("exponent", 1)); });

namespace {

using Op = Tensor (*)(const Tensor&);
using Plain = double (*)(double);

void check_unary(const std::string& name, Op op, Plain plain, Input input) {
  for (const Dims& shape : {Dims{2, 3, 4, 5}, Dims{}, Dims{0, 4}}) {
    input.shape = shape;
    check_op({.name = name + " " + to_string(shape),
              .inputs = {input},
              .run = [op](auto& in) { return op(in[0]); },
              .reference =
                  [plain](auto& in) {
                    auto y = in[0];
                    for (double& v : y) v = plain(v);
                    return y;
                  }});
  }
}

double plain_gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double plain_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TEST_CASE("unary ops against their formulas") {
  auto between = [](double low, double high, double gap = 0) {
    return Input{.shape = {}, .low = low, .high = high, .gap = gap};
  };
  const Input wide = between(-4, 4), narrow = between(-1.5, 1.5), positive = between(0.3, 3),
              nonzero = between(-3, 3, 0.3), away = between(-3, 3, 0.01);
  check_unary(
      "neg", [](auto& x) { return neg(x); }, [](double x) { return -x; }, wide);
  check_unary(
      "exp", [](auto& x) { return exp(x); }, [](double x) { return std::exp(x); }, wide);
  check_unary(
      "log", [](auto& x) { return log(x); }, [](double x) { return std::log(x); }, positive);
  check_unary(
      "sqrt", [](auto& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, positive);
  check_unary(
      "rsqrt", [](auto& x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, positive);
  check_unary(
      "reciprocal", [](auto& x) { return reciprocal(x); }, [](double x) { return 1 / x; }, nonzero);
  check_unary(
      "abs", [](auto& x) { return abs(x); }, [](double x) { return std::abs(x); }, away);
  check_unary(
      "square", [](auto& x) { return square(x); }, [](double x) { return x * x; }, wide);
  check_unary(
      "sigmoid", [](auto& x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, wide);
  check_unary(
      "tanh", [](auto& x) { return tanh(x); }, [](double x) { return std::tanh(x); }, narrow);
  check_unary(
      "silu", [](auto& x) { return silu(x); }, [](double x) { return x / (1 + std::exp(-x)); }, wide);
  check_unary(
      "gelu", [](auto& x) { return gelu(x); }, plain_gelu, wide);
  check_unary(
      "gelu tanh", [](auto& x) { return gelu(x, "tanh"); }, plain_gelu_tanh, wide);
  check_unary(
      "leaky_relu", [](auto& x) { return leaky_relu(x, 0.1); }, [](double x) { return x > 0 ? x : 0.1 * x; }, away);
  check_unary(
      "leaky_relu, negative slope", [](auto& x) { return leaky_relu(x, -0.5); },
      [](double x) { return x > 0 ? x : -0.5 * x; }, away);
  check_unary(
      "clamp below", [](auto& x) { return clamp(x, 0, {}); }, [](double x) { return std::max(x, 0.0); }, away);
  check_unary(
      "clamp above", [](auto& x) { return clamp(x, {}, 0); }, [](double x) { return std::min(x, 0.0); }, away);
  check_unary(
      "pow 2.5", [](auto& x) { return pow(x, 2.5); }, [](double x) { return std::pow(x, 2.5); }, positive);
  check_unary(
      "pow 3", [](auto& x) { return pow(x, 3); }, [](double x) { return x * x * x; }, wide);
  check_unary(
      "pow 2", [](auto& x) { return pow(x, 2); }, [](double x) { return x * x; }, wide);
  check_unary(
      "pow 0", [](auto& x) { return pow(x, 0); }, [](double) { return 1.0; }, wide);
  check_unary(
      "pow 1", [](auto& x) { return pow(x, 1); }, [](double x) { return x; }, wide);
  check_unary(
      "pow 0.5", [](auto& x) { return pow(x, 0.5); }, [](double x) { return std::sqrt(x); }, positive);
  check_unary(
      "pow -0.5", [](auto& x) { return pow(x, -0.5); }, [](double x) { return 1 / std::sqrt(x); }, positive);
  check_unary(
      "pow -1", [](auto& x) { return pow(x, -1); }, [](double x) { return 1 / x; }, nonzero);
}

TEST_CASE("tanh is close to the C library's, whatever its argument") {
  std::vector<float> x;
  for (float v = 1e-30f; v < 200; v *= 1.01f) x.push_back(v), x.push_back(-v);
  for (float v : {0.f, -0.f, 0.625f, INFINITY, -INFINITY}) x.push_back(v);
  auto y = tanh(from_vector(x, {int64_t(x.size())})).to_vector();
  for (size_t i = 0; i < x.size(); ++i) {
    INFO("tanh(", x[i], ")");
    CHECK(std::abs(y[i] - std::tanh(double(x[i]))) <= 3e-7 * std::abs(std::tanh(double(x[i]))));
    CHECK(std::signbit(y[i]) == std::signbit(x[i]));
  }
  CHECK(std::isnan(tanh(tensor({NAN})).item()));
}

TEST_CASE("gradients at the edges are PyTorch's") {
  auto gradient_at = [](float at, Op op) {
    Tensor x = tensor({at}, {.requires_grad = true});
    op(x).backward(ones({1}));
    return x.grad().item();
  };
  CHECK(gradient_at(0, [](auto& x) { return abs(x); }) == 0);
  CHECK(gradient_at(0, [](auto& x) { return leaky_relu(x, 0.25); }) == 0.25f);
  CHECK(gradient_at(0, [](auto& x) { return sqrt(x); }) == INFINITY);
  CHECK(gradient_at(0, [](auto& x) { return pow(x, 0); }) == 0);
  CHECK(gradient_at(0, [](auto& x) { return pow(x, 1); }) == 1);
  CHECK(gradient_at(0, [](auto& x) { return pow(x, 2); }) == 0);
  CHECK(gradient_at(0, [](auto& x) { return pow(x, 0.5); }) == INFINITY);
  auto clamped = [](auto& x) { return clamp(x, -0.5, 0.5); };
  CHECK(gradient_at(-0.5f, clamped) == 1);
  CHECK(gradient_at(0.5f, clamped) == 1);
  CHECK(gradient_at(0.75f, clamped) == 0);
  CHECK(gradient_at(NAN, clamped) == 0);
}

TEST_CASE("clamp: NaN stays, max wins over min") {
  CHECK(std::isnan(clamp(tensor({NAN}), 0, 1).item()));
  CHECK(clamp(tensor({5.f}), 3, 1).item() == 1);
  CHECK(clamp(tensor({-5.f}), 3, 1).item() == 1);
}

TEST_CASE("those that take their argument by value write over a temporary and over nothing else") {
  using ByValue = Tensor (*)(Tensor);
  for (ByValue op :
       {ByValue(exp), ByValue(sqrt), ByValue(rsqrt), ByValue(reciprocal), ByValue(sigmoid), ByValue(tanh)}) {
    Tensor a = random_tensor({100}, {}, 0.1, 1);
    auto before = a.to_vector();
    CHECK(op(a).to_vector() != before);
    CHECK(a.to_vector() == before);
    void* memory = a.raw();
    CHECK(op(std::move(a)).raw() == memory);
  }
  Tensor a = random_tensor({100}, {});
  void* memory = a.raw();
  CHECK(leaky_relu(std::move(a)).raw() == memory);
  // What an op before saved is not overwritten.
  Tensor x = random_tensor({3}, {.requires_grad = true});
  sigmoid(exp(x)).backward(ones({3}));
  for (int i = 0; i < 3; ++i) {
    const double e = std::exp(double(x.to_vector()[i])), s = 1 / (1 + std::exp(-e));
    CHECK(x.grad().to_vector()[i] == doctest::Approx(e * s * (1 - s)));
  }
}

TEST_CASE("integers") {
  Tensor n = tensor<int64_t>({-3, 0, 4});
  CHECK(abs(n).to_vector<int64_t>() == std::vector<int64_t>{3, 0, 4});
  CHECK(square(n).to_vector<int64_t>() == std::vector<int64_t>{9, 0, 16});
  CHECK(neg(n).to_vector<int64_t>() == std::vector<int64_t>{3, 0, -4});
  CHECK(clamp(n, -1, {}).to_vector<int64_t>() == std::vector<int64_t>{-1, 0, 4});
  CHECK(clamp(tensor<uint8_t>({3, 200}), -1, 1000).to_vector<uint8_t>() == std::vector<uint8_t>{3, 200});
  CHECK(exp(n).dtype() == Dtype::f32);
  CHECK(log(n).to_vector()[2] == doctest::Approx(std::log(4.0)));
  CHECK(tanh(tensor<int32_t>({0, 1})).to_vector()[1] == doctest::Approx(std::tanh(1.0)));
}

TEST_CASE("what unary ops refuse") {
  CHECK_THROWS_AS(pow(arange(0, 3), 2), DtypeError);
  CHECK_THROWS_AS(clamp(arange(0, 3), 0.5, {}), DtypeError);
  CHECK_THROWS_AS(clamp(ones({2}), {}, {}), Error);
  CHECK_THROWS_AS(gelu(ones({2}), "erf"), Error);
  CHECK_THROWS_AS(abs(tensor({true})), DtypeError);
  CHECK_THROWS_AS(neg(tensor({true})), DtypeError);
}
