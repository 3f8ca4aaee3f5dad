#include "tests/support/op_case.h"

#include <tandem/core/parallel_for.h>
#include <tandem/ops/grad_norm.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

double norm_of(const std::vector<Tensor>& grads, double p) {
  Tensor norm = full({}, NAN, {.dtype = Dtype::f64});
  grad_norm(norm.device(), norm, grads, p);
  return norm.item<double>();
}

std::vector<Tensor> some_gradients(Dtype t) {
  std::vector<Tensor> grads{random_tensor({40'000}, {.dtype = t}), random_tensor({3, 5}, {.dtype = t}),
                            random_tensor({0}, {.dtype = t}),
                            random_tensor({2, 3, 4, 5}, {.dtype = t, .layout = Layout::channels_last})};
  return grads;
}

}  // namespace

TEST_CASE("grad_norm is the norm of everything, whatever the threads") {
  for (Dtype t : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16})
    for (double p : {1., 2., 3., double(INFINITY)}) {
      INFO(to_string(t), ", p ", p);
      auto grads = some_gradients(t);
      double sum = 0, most = 0;
      for (auto& g : grads)
        for (double v : g.to_vector<double>()) {
          sum += std::pow(std::abs(v), p);
          most = std::max(most, std::abs(v));
        }
      set_num_threads(1);
      const double one = norm_of(grads, p);
      set_num_threads(2);
      const double two = norm_of(grads, p);
      set_num_threads(1);
      CHECK(one == two);
      if (std::isinf(p))
        CHECK(one == most);
      else
        CHECK(one == doctest::Approx(std::pow(sum, 1 / p)).epsilon(1e-12));
    }
}

TEST_CASE("grad_norm finds NaN and infinity") {
  CHECK(std::isnan(norm_of({tensor<double>({1, NAN, 2})}, 2)));
  CHECK(std::isnan(norm_of({tensor<double>({1, NAN, 2}), tensor({5.})}, INFINITY)));
  CHECK(std::isinf(norm_of({tensor({1., double(INFINITY)})}, 2)));
  CHECK(norm_of({tensor({1e30f, 1e30f})}, 2) == doctest::Approx(std::sqrt(2) * 1e30));
  CHECK(norm_of({}, 2) == 0);
}

TEST_CASE("grad_scale scales down, never up, and lets NaN through") {
  auto scaled = [](std::vector<double> g, double norm, double max_norm) {
    Tensor t = from_vector(g, {int64_t(g.size())});
    grad_scale(t.device(), std::vector{t}, tensor({norm}), max_norm);
    return t.to_vector<double>();
  };
  CHECK(scaled({3, 4}, 5, 10) == std::vector<double>{3, 4});
  CHECK(scaled({3, 4}, 5, 1) == std::vector<double>{3 * (1 / (5 + 1e-6)), 4 * (1 / (5 + 1e-6))});
  auto v = scaled({3, INFINITY}, INFINITY, 1);
  CHECK(v[0] == 0);
  CHECK(std::isnan(v[1]));
  CHECK(std::isnan(scaled({3}, NAN, 1)[0]));
}

TEST_CASE("grad_scale and grad_clamp take every dtype") {
  for (Dtype t : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    Tensor g = from_vector<double>({-4, 0.5, NAN, 4}, {4}).to(t);
    grad_clamp(g.device(), std::vector{g}, 2);
    auto v = g.to_vector<double>();
    CHECK(v[0] == -2);
    CHECK(v[1] == 0.5);
    CHECK(std::isnan(v[2]));
    CHECK(v[3] == 2);
    Tensor h = full({3}, 8, {.dtype = t});
    grad_scale(h.device(), std::vector{h}, tensor({4. - 1e-6}), 1);
    CHECK(h.to_vector() == std::vector<float>{2, 2, 2});
  }
}
