#include "tests/nn/support.h"

#include <tandem/nn/dropout.h>
#include <tandem/nn/embedding.h>
#include <tandem/nn/flatten.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>
#include <tandem/ops/embedding.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("Sequential runs its modules in order and names them by number") {
  nn::Sequential net;
  net.append<nn::Flatten>().append<nn::Linear>(6, 4, {.bias = false}).append<nn::Linear>(4, 2);
  auto& first = dynamic_cast<nn::Linear&>(net[1]);
  auto& second = dynamic_cast<nn::Linear&>(net[2]);
  Tensor x = random_tensor({5, 2, 3}, {});
  CHECK(same_bits(net(x), second(first(x.reshape({5, 6})))));
  CHECK(same_bits(net(x.clone()), net(x)));
  CHECK(net.size() == 3);
  std::vector<std::string> keys;
  for (auto& [key, t] : net.state_dict()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"1.weight", "2.weight", "2.bias"});
  CHECK(to_string(net) ==
        "Sequential(  # 34\n"
        "  (0): Flatten(start_dim=1, end_dim=-1)  # 0\n"
        "  (1): Linear(in_features=6, out_features=4, bias=False)  # 24\n"
        "  (2): Linear(in_features=4, out_features=2, bias=True)  # 10\n"
        ")\n34 parameters");
  CHECK(says(error_of([&] { net[3]; }), "module 3 of 3"));
  CHECK_THROWS_AS(net.append(nullptr), Error);
}

TEST_CASE("an empty Sequential hands its input on") {
  nn::Sequential net;
  Tensor x = zeros({2});
  CHECK(net(x).is_same(x));
  net.append(std::make_unique<nn::Identity>());
  CHECK(net(x).is_same(x));
}

TEST_CASE("Sequential hands temporaries on to be written over, and never its input") {
  struct Same : nn::Module {
    bool may_write = false;
    Tensor forward(const Tensor& x) override { return x.clone(); }
    Tensor consume(Tensor x) override {
      may_write = x.unique();
      return x;
    }
  };
  nn::Sequential net;
  net.append<nn::Linear>(3, 3).append<Same>();
  NoGradGuard no_grad;
  net(random_tensor({2, 3}, {}));
  CHECK(dynamic_cast<Same&>(net[1]).may_write);
  nn::Sequential alone;
  alone.append<Same>();
  Tensor x = zeros({2});
  CHECK(!alone(x).is_same(x));
}

TEST_CASE("Flatten keeps the batch") {
  nn::Flatten flat, some{0, 1};
  CHECK(flat(zeros({2, 3, 4})).shape() == Dims{2, 12});
  CHECK(some(zeros({2, 3, 4})).shape() == Dims{6, 4});
}

TEST_CASE("Dropout drops in training only") {
  nn::Dropout drop{0.5};
  Tensor x = ones({1000});
  int zeros_seen = 0;
  for (float v : drop(x).to_vector()) {
    CHECK((v == 0 || v == 2));
    zeros_seen += v == 0;
  }
  CHECK(zeros_seen > 350);
  CHECK(zeros_seen < 650);
  drop.eval();
  CHECK(drop(x).to_vector() == x.to_vector());
  CHECK(x.to_vector() == std::vector<float>(1000, 1));
  CHECK_THROWS_AS(nn::Dropout(1.5), Error);
  CHECK(drop.extra_repr() == "p=0.5");
}

TEST_CASE("Embedding looks its rows up") {
  nn::Embedding words{10, 3};
  Tensor i = tensor<int64_t>({1, 7, 1, 0}).reshape({2, 2});
  CHECK(same_bits(words(i), embedding(i, words.weight)));
  CHECK(words(i).shape() == Dims{2, 2, 3});
  CHECK(words.extra_repr() == "10, 3");
}
