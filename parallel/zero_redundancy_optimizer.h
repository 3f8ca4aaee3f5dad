/// ZeroRedundancyOptimizer: an optimizer whose state is spread over the ranks of a group, so that each keeps one n-th
/// of it (torch.distributed.optim.ZeroRedundancyOptimizer; stage 1 of ZeRO, Rajbhandari et al. 2020). Each rank updates
/// its part of the parameters, from gradients that all ranks have, and hands it to the others.
///
///     DistributedDataParallel ddp(net);
///     ZeroRedundancyOptimizer<nn::AdamW> optimizer(net.parameters(), {.lr = 1e-3});
///     ...
///     optimizer.zero_grad();
///     cross_entropy(ddp(x), y).backward();
///     optimizer.step();
///
/// Parameters lie one after the other and are cut into n parts of the same size wherever that falls, not at their
/// borders as PyTorch's: a network that is one large matrix is spread as well. Its optimizers update each number by
/// itself, so the parameters are those of the optimizer alone, bit for bit.
#pragma once
#include <tandem/nn/optimizer.h>
#include <tandem/parallel/process_group.h>

namespace tandem {

struct ZeroRedundancyOptions {
  /// The thread's group where null.
  ProcessGroup* process_group = nullptr;
};

/// What is the same for all optimizers.
class TANDEM_API ZeroRedundancyBase {
 public:
  ZeroRedundancyBase(const ZeroRedundancyBase&) = delete;
  ZeroRedundancyBase& operator=(const ZeroRedundancyBase&) = delete;

  /// Marks every gradient as absent; the next backward overwrites it.
  void zero_grad() const;
  /// Updates every parameter that has a gradient, on all ranks. Collective. Throws Error where a parameter has been
  /// moved or converted since the optimizer was made.
  void step();

  /// The state that the optimizer alone would have, under its names: for checkpoints, which it, and this at any number
  /// of ranks, can load. On rank `to`, or on all for none; empty on the others. Collective.
  nn::NamedTensors consolidate_state_dict(std::optional<int> to = 0);
  /// Takes this rank's part of such a state; to be called on all ranks with the same. Throws Error as
  /// Optimizer::load_state_dict does.
  void load_state_dict(const nn::NamedTensors& state);

 protected:
  explicit ZeroRedundancyBase(const ZeroRedundancyOptions& options);
  ~ZeroRedundancyBase();
  /// Puts these parameters side by side, and returns this rank's part of them.
  std::vector<Tensor> add_shard(const std::vector<Tensor>& params);
  void set_optimizer(nn::Optimizer& optimizer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <class Optimizer>
class ZeroRedundancyOptimizer final : public ZeroRedundancyBase {
 public:
  using Options = typename Optimizer::Options;

  /// Collective. Throws what the optimizer throws for parameters and options that it does not take.
  explicit ZeroRedundancyOptimizer(std::vector<Tensor> params, Options options = {}, ZeroRedundancyOptions zero = {})
      : ZeroRedundancyBase(zero), optimizer_(add_shard(params), options) {
    set_optimizer(optimizer_);
  }
  /// One more group, with options of its own; it is cut into parts by itself.
  void add_param_group(std::vector<Tensor> params, Options options) {
    optimizer_.add_param_group(add_shard(params), options);
  }

  /// What updates this rank's part: for schedules, which each rank has to step. Its parameters are stretches of the
  /// model's.
  Optimizer& optimizer() { return optimizer_; }
  auto param_groups() { return optimizer_.param_groups(); }

 private:
  Optimizer optimizer_;
};

}  // namespace tandem
