/// The little training that phases are parts of, with places where a rank may end.
#pragma once
#include "tests/deaths/part.h"

#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sgd.h>
#include <tandem/parallel/distributed_data_parallel.h>

#include <functional>

namespace tandem::deaths {

struct Net : nn::Module {
  nn::Conv2d conv{3, 4, {.kernel = 3}};
  nn::BatchNorm2d norm{4};
  nn::Linear wide, out;
  std::function<void()> in_forward, in_backward;  // before the norm; as the backward begins

  explicit Net(int64_t hidden = 2000);
  Tensor forward(const Tensor& x) override;
};

Tensor images(int64_t n);  // [n,3,8,8]

struct TrainingOptions {
  int64_t hidden = 2000;
  bool synchronise_norm = false;
  bool power_sgd = false;
};

class Training {
 public:
  explicit Training(Part& part, const TrainingOptions& options = {});

  void step();
  /// Each rank its share of the images; `halfway` is called in the middle.
  void evaluate(const std::function<void()>& halfway);

  struct HookCalls {
    std::function<void(int bucket)> starts = {}, started = {}, second = {};
  };
  /// What is called as buckets go out, on this rank.
  void hook(const HookCalls& calls) { *calls_ = calls; }

  std::function<void()> before_update;

 private:
  Part& part_;
  std::shared_ptr<HookCalls> calls_ = std::make_shared<HookCalls>();

 public:
  Net net;
  const int layers_synchronised;
  DistributedDataParallel ddp;
  nn::SGD optimizer;
};

}  // namespace tandem::deaths
