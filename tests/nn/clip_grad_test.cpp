#include "tests/nn/support.h"

#include <tandem/nn/clip_grad.h>
#include <tandem/nn/sgd.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

// Gradients 3 and 4, and a parameter without one.
struct Params {
  std::vector<Tensor> all{zeros({1, 1}, {.requires_grad = true}), zeros({1}, {.requires_grad = true}),
                          zeros({5}, {.requires_grad = true})};
  Params() {
    all[0].backward(full({1, 1}, 3));
    all[1].backward(full({1}, 4));
  }
  float grad(size_t i) const { return all[i].grad().item(); }
};

}  // namespace

TEST_CASE("clip_grad_norm_ scales all gradients by one factor and returns the norm before") {
  Params p;
  const uint32_t version = p.all[0].grad().storage()->version;
  Tensor norm = nn::clip_grad_norm_(p.all, 1);
  CHECK(norm.dim() == 0);
  CHECK(norm.dtype() == Dtype::f32);
  CHECK(norm.item() == 5);
  CHECK(p.grad(0) == doctest::Approx(0.6));
  CHECK(p.grad(1) == doctest::Approx(0.8));
  CHECK(p.all[0].grad().storage()->version > version);
  CHECK(nn::clip_grad_norm_(p.all, 1, 1).item() == doctest::Approx(1.4));
  CHECK(nn::clip_grad_norm_(Params().all, 10, INFINITY).item() == 4);
  CHECK(!p.all[2].grad().defined());
}

TEST_CASE("clip_grad_norm_ leaves small gradients alone, flat or not") {
  Params p;
  nn::SGD optimizer(p.all);
  CHECK(nn::clip_grad_norm_(p.all, 6).item() == 5);
  CHECK(p.grad(0) == 3);
  CHECK(nn::clip_grad_norm_({zeros({3}, {.requires_grad = true})}, 1).item() == 0);
}

TEST_CASE("a norm that is not finite is an error if asked for, and else what PyTorch makes of it") {
  Params p;
  p.all[0].backward(full({1, 1}, INFINITY));
  CHECK(says(error_of([&] { nn::clip_grad_norm_(p.all, 1, 2, true); }), "is not finite"));
  CHECK(p.grad(1) == 4);
  CHECK(std::isinf(nn::clip_grad_norm_(p.all, 1).item()));
  CHECK(std::isnan(p.grad(0)));
  CHECK(p.grad(1) == 0);
  CHECK_THROWS_AS(nn::clip_grad_norm_(p.all, 1, 0), Error);
}

TEST_CASE("clip_grad_value_ clips each element") {
  Params p;
  nn::clip_grad_value_(p.all, 3.5);
  CHECK(p.grad(0) == 3);
  CHECK(p.grad(1) == 3.5);
  CHECK_THROWS_AS(nn::clip_grad_value_(p.all, -1), Error);
}

TEST_CASE("gradients on two devices are not clipped together") {
  set_cpu_devices(2);
  Params p;
  Tensor other = zeros({2}, {.device = cpu(1), .requires_grad = true});
  other.backward(ones({2}, {.device = cpu(1)}));
  p.all.push_back(other);
  CHECK_THROWS_AS(nn::clip_grad_norm_(p.all, 1), DeviceError);
}
