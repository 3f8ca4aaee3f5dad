#include "tests/support/op_case.h"

#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/adam.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Case {
  double lr = 0.01, beta1 = 0.9, beta2 = 0.99, eps = 1e-3, weight_decay = 0;
  bool decoupled = false, amsgrad = false, maximize = false;
};

struct Plain {
  std::vector<double> p, m, v, largest;
};

// The formula, in double.
void reference(const Case& c, double t, Plain& s, const std::vector<double>& grad) {
  for (size_t i = 0; i < s.p.size(); ++i) {
    double g = c.maximize ? -grad[i] : grad[i];
    if (c.decoupled)
      s.p[i] *= 1 - c.lr * c.weight_decay;
    else
      g += c.weight_decay * s.p[i];
    s.m[i] = c.beta1 * s.m[i] + (1 - c.beta1) * g;
    s.v[i] = c.beta2 * s.v[i] + (1 - c.beta2) * g * g;
    s.largest[i] = std::max(s.largest[i], s.v[i]);
    double v = c.amsgrad ? s.largest[i] : s.v[i];
    s.p[i] -= c.lr / (1 - std::pow(c.beta1, t)) * s.m[i] / (std::sqrt(v) / std::sqrt(1 - std::pow(c.beta2, t)) + c.eps);
  }
}

struct Run {
  Tensor p;
  AdamState state;
};

Run run(const Case& c, Dtype dtype, const Tensor& value, const std::vector<Tensor>& grads) {
  Run r{value.clone(), {}};
  r.p.set_requires_grad();
  const TensorOptions o{.dtype = dtype};
  r.state.exp_avg = zeros(value.shape(), o);
  r.state.exp_avg_sq = zeros(value.shape(), o);
  if (c.amsgrad) r.state.max_exp_avg_sq = zeros(value.shape(), o);
  r.state.steps = zeros({1}, {.dtype = Dtype::f64});
  Tensor options = from_vector<double>(
      {c.lr, c.beta1, c.beta2, c.eps, c.weight_decay, double(c.decoupled), double(c.amsgrad), double(c.maximize)},
      {1, kAdamOptions});
  std::vector<ParamRow> rows{{.leaf = r.p.leaf()}};
  for (auto& g : grads) {
    rows[0].leaf->window = g;
    rows[0].leaf->written = true;
    adam_step(value.device(), rows, r.state, options);
    ++rows[0].step;
  }
  return r;
}

}  // namespace

TEST_CASE("adam_step is the formula, in every dtype, whatever the threads") {
  const Case cases[] = {{},
                        {.weight_decay = 0.1},
                        {.weight_decay = 0.1, .decoupled = true},
                        {.amsgrad = true},
                        {.weight_decay = 0.1, .amsgrad = true, .maximize = true}};
  for (auto& c : cases)
    for (Dtype t : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
      INFO("weight decay ", c.weight_decay, ", amsgrad ", c.amsgrad, ", ", to_string(t));
      const int64_t n = 20'003;
      Tensor value = random_tensor({n}, {.dtype = t});
      std::vector<Tensor> grads;
      for (double size : {1., 0.1, 0.5}) grads.push_back(random_tensor({n}, {.dtype = t}, -size, size));
      const std::vector<double> none(size_t(n), 0.);
      Plain want{value.to_vector<double>(), none, none, none};
      for (size_t k = 0; k < grads.size(); ++k) reference(c, double(k + 1), want, grads[k].to_vector<double>());
      set_num_threads(1);
      Run one = run(c, t, value, grads);
      set_num_threads(2);
      Run two = run(c, t, value, grads);
      set_num_threads(1);
      const double eps = t == Dtype::f64 ? 1e-15 : t == Dtype::f32 ? 1e-6 : t == Dtype::f16 ? 2e-3 : 2e-2;
      CHECK(max_difference(one.p, from_vector(want.p, {n})) <= 2 * eps);
      CHECK(max_difference(one.state.exp_avg, from_vector(want.m, {n})) <= eps);
      CHECK(max_difference(one.state.exp_avg_sq, from_vector(want.v, {n})) <= eps);
      CHECK(one.state.steps.item<double>() == 3);
      CHECK(same_bits(one.p, two.p));
    }
}

TEST_CASE("adam_step counts the rows of a run, and no row without gradient") {
  std::vector<Tensor> params;
  std::vector<Storage*> values, grads;
  std::vector<ParamRow> rows;
  for (int i = 0; i < 3; ++i) {
    params.push_back(ones({16}, {.requires_grad = true}));
    Leaf* l = params.back().leaf();
    rows.push_back({.leaf = l, .state_offset = 16 * i});
    values.push_back(l->value.get());
    grads.push_back(l->ensure_window().storage().get());
  }
  lay_out(values);
  lay_out(grads);
  for (auto& r : rows) {
    fill_into(r.leaf->window, 1);
    r.leaf->written = true;
  }
  rows[2].leaf->written = false;
  AdamState state{zeros({48}), zeros({48}), {}, zeros({3}, {.dtype = Dtype::f64})};
  Tensor options = from_vector<double>({1, 0.9, 0.999, 0, 0, 0, 0, 0}, {1, kAdamOptions});
  adam_step(options.device(), rows, state, options);
  CHECK(state.steps.to_vector<double>() == std::vector<double>{1, 1, 0});
  CHECK(params[1].to_vector()[15] == doctest::Approx(0));  // the first update is lr times the gradient's sign
  CHECK(params[2].to_vector()[0] == 1);
}
