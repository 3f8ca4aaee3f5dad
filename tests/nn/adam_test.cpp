#include "tests/nn/support.h"

#include <tandem/nn/adam.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor parameter(const Dims& shape, Dtype t = Dtype::f64) {
  Tensor p = random_tensor(shape, {.dtype = t});
  return p.set_requires_grad();
}

// torch.optim.Adam or AdamW on plain numbers.
struct Plain {
  nn::Adam::Options o;
  bool decoupled = false;
  std::vector<double> p;
  std::vector<double> m = {}, v = {}, largest = {};
  int t = 0;
  void step(const std::vector<double>& grad) {
    m.resize(p.size());
    v.resize(p.size());
    largest.resize(p.size());
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      double g = o.maximize ? -grad[i] : grad[i];
      if (decoupled)
        p[i] *= 1 - o.lr * o.weight_decay;
      else
        g += o.weight_decay * p[i];
      m[i] = o.betas[0] * m[i] + (1 - o.betas[0]) * g;
      v[i] = o.betas[1] * v[i] + (1 - o.betas[1]) * g * g;
      largest[i] = std::max(largest[i], v[i]);
      double root = std::sqrt(o.amsgrad ? largest[i] : v[i]) / std::sqrt(1 - std::pow(o.betas[1], t)) + o.eps;
      p[i] -= o.lr / (1 - std::pow(o.betas[0], t)) * m[i] / root;
    }
  }
};

template <class Optimizer, class Options>
void compare(const Options& o, bool decoupled) {
  const nn::Adam::Options plain_options{.lr = o.lr,
                                        .betas = o.betas,
                                        .eps = o.eps,
                                        .weight_decay = o.weight_decay,
                                        .amsgrad = o.amsgrad,
                                        .maximize = o.maximize};
  std::vector<Tensor> params{parameter({3, 4}), parameter({5}), parameter({2, 3, 2, 2})};
  std::vector<Plain> plain;
  for (auto& p : params) plain.push_back({.o = plain_options, .decoupled = decoupled, .p = p.to_vector<double>()});
  Optimizer optimizer(params, o);
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    for (size_t i = 0; i < params.size(); ++i) {
      if ((step == 0 && i == 1) || (step == 3 && i != 1)) continue;  // ages differ from here on
      Tensor g = random_tensor(params[i].shape());
      params[i].backward(g);
      plain[i].step(g.to_vector<double>());
    }
    optimizer.step();
  }
  for (size_t i = 0; i < params.size(); ++i)
    CHECK(max_difference(params[i], from_vector(plain[i].p, params[i].shape())) < 1e-14);
}

}  // namespace

TEST_CASE("Adam is torch.optim.Adam") {
  compare<nn::Adam>(nn::Adam::Options{.lr = 0.1}, false);
  compare<nn::Adam>(nn::Adam::Options{.lr = 0.1, .betas = {0.5, 0.9}, .eps = 0.1, .weight_decay = 0.1}, false);
  compare<nn::Adam>(nn::Adam::Options{.lr = 0.1, .amsgrad = true}, false);
  compare<nn::Adam>(nn::Adam::Options{.lr = 0.1, .weight_decay = 0.1, .maximize = true}, false);
}

TEST_CASE("AdamW is torch.optim.AdamW") {
  compare<nn::AdamW>(nn::AdamW::Options{.lr = 0.1}, true);
  compare<nn::AdamW>(nn::AdamW::Options{.lr = 0.1, .weight_decay = 0.5, .amsgrad = true}, true);
}

TEST_CASE("Adam's state resumes bit for bit, counts of updates included") {
  Tensor a = parameter({3, 2}, Dtype::f32), b = parameter({4}, Dtype::f32);
  nn::Adam optimizer({a}, {.lr = 0.1, .amsgrad = true});
  optimizer.add_param_group({b}, {.lr = 0.2, .betas = {0.8, 0.99}});
  auto step = [](nn::Adam& o, Tensor& x, Tensor& y, bool both) {
    o.zero_grad();
    x.backward(full(x.shape(), 0.5));
    if (both) y.backward(full(y.shape(), 0.25));
    o.step();
  };
  step(optimizer, a, b, true);
  step(optimizer, a, b, false);
  nn::NamedTensors saved;
  std::vector<std::string> keys;
  for (auto& [key, t] : optimizer.state_dict()) {
    saved.emplace_back(key, t.clone());
    if (!key.starts_with("group")) keys.push_back(key);
  }
  CHECK(keys == std::vector<std::string>{"step.0", "exp_avg.0", "exp_avg_sq.0", "max_exp_avg_sq.0", "step.1",
                                         "exp_avg.1", "exp_avg_sq.1"});
  Tensor c = a.clone().detach().set_requires_grad(), d = b.clone().detach().set_requires_grad();
  nn::Adam resumed({c}, {.amsgrad = true});
  resumed.add_param_group({d}, {});
  resumed.load_state_dict(saved);
  CHECK(resumed.param_groups()[1].betas[0] == 0.8);
  step(optimizer, a, b, true);
  step(resumed, c, d, true);
  CHECK(same_bits(a, c));
  CHECK(same_bits(b, d));

  saved.erase(saved.begin() + 1);
  CHECK(says(error_of([&] { resumed.load_state_dict(saved); }), "\n  missing: exp_avg.0"));
}

TEST_CASE("Adam refuses options that torch.optim.Adam refuses") {
  Tensor p = parameter({1});
  auto message_of = [&](nn::Adam::Options o) { return error_of([&] { nn::Adam({p}, o); }); };
  CHECK(message_of({.lr = -1}) == "[Adam] lr is -1, and may not be negative");
  CHECK(says(message_of({.betas = {1, 0.9}}), "betas are 1 and 0.9"));
  CHECK(says(message_of({.betas = {0.9, -1}}), "betas are 0.9 and -1"));
  CHECK(says(message_of({.eps = -1}), "eps is -1"));
  CHECK(says(error_of([&] { nn::AdamW({p}, {.weight_decay = -1}); }), "[AdamW] weight_decay is -1"));
}
