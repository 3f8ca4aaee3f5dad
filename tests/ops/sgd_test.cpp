#include "tests/support/op_case.h"

#include <tandem/core/parallel_for.h>
#include <tandem/ops/sgd.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Case {
  double lr = 0.1, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};

// The formula, in double.
void reference(const Case& c, bool first, std::vector<double>& p, const std::vector<double>& grad,
               std::vector<double>& buffer) {
  for (size_t i = 0; i < p.size(); ++i) {
    double g = (c.maximize ? -grad[i] : grad[i]) + c.weight_decay * p[i];
    if (c.momentum != 0) {
      buffer[i] = first ? g : c.momentum * buffer[i] + (1 - c.dampening) * g;
      g = c.nesterov ? g + c.momentum * buffer[i] : buffer[i];
    }
    p[i] -= c.lr * g;
  }
}

// Two steps of the kernel; what the first finds in the buffer it may not read.
std::vector<Tensor> two_steps(const Case& c, Dtype dtype, const Tensor& value, const Tensor& grad) {
  Tensor p = value.clone(), buffer;
  p.set_requires_grad();
  Leaf* l = p.leaf();
  l->window = grad;
  l->written = true;
  if (c.momentum != 0) buffer = full(p.shape(), NAN, {.dtype = dtype});
  Tensor options = from_vector<double>(
      {9, 9, 9, 9, 9, 9, c.lr, c.momentum, c.dampening, c.weight_decay, double(c.nesterov), double(c.maximize)},
      {2, kSgdOptions});
  std::vector<ParamRow> rows{{.leaf = l, .group = 1}};
  sgd_step(p.device(), rows, buffer, options);
  rows[0].step = 1;
  sgd_step(p.device(), rows, buffer, options);
  return {p, buffer};
}

}  // namespace

TEST_CASE("sgd_step is the formula, in every dtype, whatever the threads") {
  const Case cases[] = {{},
                        {.weight_decay = 0.1},
                        {.momentum = 0.9},
                        {.momentum = 0.9, .weight_decay = 0.1},
                        {.momentum = 0.9, .dampening = 0.5},
                        {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
                        {.momentum = 0.9, .weight_decay = 0.1, .maximize = true}};
  for (auto& c : cases)
    for (Dtype t : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
      INFO("momentum ", c.momentum, ", dampening ", c.dampening, ", ", to_string(t));
      const int64_t n = 40'003;
      Tensor value = random_tensor({n}, {.dtype = t}), grad = random_tensor({n}, {.dtype = t});
      auto p = value.to_vector<double>(), g = grad.to_vector<double>(), buffer = std::vector<double>(p.size());
      reference(c, true, p, g, buffer);
      reference(c, false, p, g, buffer);
      set_num_threads(1);
      auto one = two_steps(c, t, value, grad);
      set_num_threads(2);
      auto two = two_steps(c, t, value, grad);
      set_num_threads(1);
      const double eps = t == Dtype::f64 ? 1e-15 : t == Dtype::f32 ? 1e-6 : t == Dtype::f16 ? 2e-3 : 2e-2;
      CHECK(max_difference(one[0], from_vector(p, {n})) <= 2 * eps);
      if (one[1]) CHECK(max_difference(one[1], from_vector(buffer, {n})) <= 4 * eps);
      CHECK(same_bits(one[0], two[0]));
    }
}
