#include "tests/deaths/training.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/generator.h>
#include <tandem/data/distributed_sampler.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/random.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/power_sgd_hook.h>
#include <tandem/parallel/sync_batch_norm.h>

namespace tandem::deaths {
namespace {

constexpr int64_t kClasses = 10, kBatch = 4;

class CallingHook final : public CommHook {
 public:
  CallingHook(std::unique_ptr<CommHook> real, std::shared_ptr<Training::HookCalls> calls)
      : real_(std::move(real)), calls_(std::move(calls)) {}

  Work start(GradBucket& b, Communicator& c) override {
    if (calls_->starts) calls_->starts(b.index);
    Work w = real_->start(b, c);
    if (calls_->started) calls_->started(b.index);
    return w;
  }
  Work start_second(GradBucket& b, Communicator& c) override {
    if (calls_->second) calls_->second(b.index);
    return real_->start_second(b, c);
  }
  void finish(GradBucket& b) override { real_->finish(b); }

 private:
  const std::unique_ptr<CommHook> real_;
  const std::shared_ptr<Training::HookCalls> calls_;
};

}  // namespace

Net::Net(int64_t hidden) : wide(4 * 6 * 6, hidden), out(hidden, kClasses) {
  add("conv", conv);
  add("norm", norm);
  add("wide", wide);
  add("out", out);
}

Tensor Net::forward(const Tensor& x) {
  Tensor h = conv(x);
  if (in_forward) in_forward();
  Tensor y = out(relu(wide(flatten(relu(norm(h)), 1))));
  if (in_backward && y.requires_grad())
    y.register_hook([this](const Tensor&) {
      in_backward();
      return Tensor();
    });
  return y;
}

Tensor images(int64_t n) { return randn({n, 3, 8, 8}); }

Training::Training(Part& part, const TrainingOptions& o)
    : part_(part),
      net(o.hidden),
      layers_synchronised(o.synchronise_norm ? convert_sync_batchnorm(net) : 0),
      ddp(net, {.bucket_cap_mb = 0.5, .first_bucket_cap_mb = 0.01}),
      optimizer(net.parameters(), {.lr = 0.01}) {
  ddp.register_comm_hook(std::make_unique<CallingHook>(
      o.power_sgd ? power_sgd_hook({.start_powerSGD_iter = 0}) : allreduce_hook(), calls_));
}

void Training::step() {
  optimizer.zero_grad();
  cross_entropy(ddp(images(kBatch)), zeros({kBatch}, {.dtype = Dtype::i64})).backward();
  if (before_update) before_update();
  optimizer.step();
}

void Training::evaluate(const std::function<void()>& halfway) {
  const data::DistributedSampler share(20, {.num_replicas = part_.trial().ranks, .rank = part_.rank(), .pad = false});
  NoGradGuard no_grad;
  net.eval();
  double right = 0;
  for (int64_t i = 0; i < share.size(); ++i) {
    if (i == share.size() / 2) halfway();
    right += net(images(1)).to_vector()[0] > 0;
  }
  net.train();
  Tensor sum = tensor({right}, {.device = cpu()});
  part_.communicator().all_reduce(sum, {.label = "right answers"});
}

}  // namespace tandem::deaths
