#include "tests/nn/support.h"

#include <tandem/nn/sgd.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor parameter(const Dims& shape, Dtype t = Dtype::f64) {
  Tensor p = random_tensor(shape, {.dtype = t});
  return p.set_requires_grad();
}

// torch.optim.SGD on plain numbers. A parameter without gradient is skipped.
struct PlainSgd {
  nn::SGD::Options o;
  std::vector<double> p, buffer = {};
  bool has_buffer = false;
  void step(const std::vector<double>& grad) {
    if (o.momentum != 0 && !has_buffer) buffer.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      double g = (o.maximize ? -grad[i] : grad[i]) + o.weight_decay * p[i];
      if (o.momentum != 0) {
        buffer[i] = has_buffer ? o.momentum * buffer[i] + (1 - o.dampening) * g : g;
        g = o.nesterov ? g + o.momentum * buffer[i] : buffer[i];
      }
      p[i] -= o.lr * g;
    }
    has_buffer = o.momentum != 0;
  }
};

}  // namespace

TEST_CASE("SGD is torch.optim.SGD, step after step, also where some gradients are absent") {
  const nn::SGD::Options all[] = {{.lr = 0.1},
                                  {.lr = 0.1, .weight_decay = 0.01},
                                  {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                                  {.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
                                  {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
                                  {.lr = 0.1, .momentum = 0.9, .maximize = true}};
  for (auto& o : all) {
    std::vector<Tensor> params{parameter({3, 4}), parameter({5}), parameter({2, 3, 2, 2})};
    std::vector<PlainSgd> plain;
    for (auto& p : params) plain.push_back({.o = o, .p = p.to_vector<double>()});
    nn::SGD optimizer(params, o);
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      for (size_t i = 0; i < params.size(); ++i) {
        if ((step == 0 && i == 1) || (step == 3 && i != 1)) continue;
        Tensor g = random_tensor(params[i].shape());
        params[i].backward(g);
        plain[i].step(g.to_vector<double>());
      }
      optimizer.step();
    }
    for (size_t i = 0; i < params.size(); ++i)
      CHECK(max_difference(params[i], from_vector(plain[i].p, params[i].shape())) < 1e-14);
  }
}

TEST_CASE("SGD updates parameters of several dtypes") {
  Tensor a = parameter({4}, Dtype::f32), b = parameter({4}), c = parameter({4}, Dtype::bf16);
  std::vector<float> before_a = a.to_vector(), before_c = c.to_vector();
  auto before_b = b.to_vector<double>();
  nn::SGD optimizer({a, b, c}, {.lr = 0.5, .momentum = 0.9});
  for (auto& p : {a, b, c}) p.backward(ones({4}, {.dtype = p.dtype()}));
  optimizer.step();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(a.to_vector()[i] == before_a[i] - 0.5f);
    CHECK(b.to_vector<double>()[i] == before_b[i] - 0.5);
    CHECK(c.to_vector()[i] == float(bf16(before_c[i] - 0.5f)));
  }
}

TEST_CASE("groups have their own options, which may change between steps") {
  Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({2}, {.requires_grad = true});
  nn::SGD optimizer({a}, {.lr = 1});
  optimizer.add_param_group({b}, {.lr = 10});
  REQUIRE(optimizer.param_groups().size() == 2);
  auto step = [&] {
    set_grad(a, ones({2}));
    set_grad(b, ones({2}));
    optimizer.step();
  };
  step();
  CHECK(a.to_vector() == std::vector<float>{-1, -1});
  CHECK(b.to_vector() == std::vector<float>{-10, -10});
  optimizer.param_groups()[1].lr = 100;
  optimizer.param_groups()[0].momentum = 0.5;
  step();
  step();
  CHECK(a.to_vector() == std::vector<float>{-3.5, -3.5});  // the buffer began when momentum did
  CHECK(b.to_vector() == std::vector<float>{-210, -210});
}

TEST_CASE("SGD refuses options that torch.optim.SGD refuses") {
  Tensor p = parameter({1});
  auto message_of = [&](nn::SGD::Options o) { return error_of([&] { nn::SGD({p}, o); }); };
  CHECK(message_of({.lr = -1}) == "[SGD] lr is -1, and may not be negative");
  CHECK(says(message_of({.momentum = -0.5}), "momentum is -0.5"));
  CHECK(says(message_of({.weight_decay = -0.5}), "weight_decay is -0.5"));
  CHECK(says(message_of({.nesterov = true}), "nesterov wants momentum"));
  CHECK(says(message_of({.momentum = 0.9, .dampening = 0.1, .nesterov = true}), "no dampening"));
  CHECK(message_of({.lr = 0}).empty());
}
