#include "tests/nn/support.h"

#include <tandem/nn/loss.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("losses call the functions of their names") {
  Tensor x = random_tensor({4, 3}, {}), y = random_tensor({4, 3}, {}, 0, 1), classes = tensor<int64_t>({0, 2, 1, 1});
  CHECK(same_bits(nn::CrossEntropyLoss()(x, classes), cross_entropy(x, classes)));
  CHECK(same_bits(nn::CrossEntropyLoss{{.label_smoothing = 0.1}}(x, classes),
                  cross_entropy(x, classes, {.label_smoothing = 0.1})));
  CHECK(same_bits(nn::NLLLoss{{.reduction = Reduction::sum}}(x, classes),
                  nll_loss(x, classes, {.reduction = Reduction::sum})));
  CHECK(same_bits(nn::MSELoss()(x, y), mse_loss(x, y)));
  CHECK(same_bits(nn::MSELoss{Reduction::sum}(x, y), mse_loss(x, y, Reduction::sum)));
  CHECK(same_bits(nn::L1Loss()(x, y), l1_loss(x, y)));
  CHECK(same_bits(nn::SmoothL1Loss{{.beta = 0.5}}(x, y), smooth_l1_loss(x, y, {.beta = 0.5})));
  CHECK(same_bits(nn::BCEWithLogitsLoss()(x, y), binary_cross_entropy_with_logits(x, y)));
}

TEST_CASE("one loss stands for another") {
  nn::MSELoss square;
  nn::L1Loss line;
  Tensor x = full({2}, 3), y = full({2}, 1);
  std::vector<float> values;
  for (nn::Loss* loss : {static_cast<nn::Loss*>(&square), static_cast<nn::Loss*>(&line)})
    values.push_back((*loss)(x, y).item());
  CHECK(values == std::vector<float>{4, 2});
}

TEST_CASE("class weights are a buffer, and move with the loss") {
  nn::CrossEntropyLoss loss{{.weight = tensor({1.f, 2.f, 3.f})}};
  CHECK(loss.named_buffers()[0].first == "weight");
  CHECK(loss.parameters().empty());
  loss.to(Dtype::f64);
  Tensor x = random_tensor({2, 3}), classes = tensor<int64_t>({0, 2});
  CHECK(loss(x, classes).item<double>() ==
        doctest::Approx(cross_entropy(x, classes, {.weight = tensor({1., 2., 3.})}).item<double>()));
}
