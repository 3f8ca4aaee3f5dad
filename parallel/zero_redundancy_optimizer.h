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
/// It is the optimizer that it is made of, for schedules and checkpoints too: its groups are this rank's stretches of
/// the parameters, with the options of the whole. To save it, all ranks first bring the state together:
///
///     optimizer.consolidate_state_dict();
///     group.rank0_only([&] { nn::save_checkpoint(path, {.model = &net, .optimizer = &optimizer}); });
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

/// What is the same for all optimizers: the parameters of the whole, and their parts.
class TANDEM_API ZeroRedundancyBase {
 public:
  ZeroRedundancyBase(const ZeroRedundancyBase&) = delete;
  ZeroRedundancyBase& operator=(const ZeroRedundancyBase&) = delete;

 protected:
  explicit ZeroRedundancyBase(const ZeroRedundancyOptions& options);
  ~ZeroRedundancyBase();
  /// Puts these parameters side by side, and returns this rank's part of them.
  std::vector<Tensor> add_shard(const std::vector<Tensor>& params);
  void zero_gradients() const;
  /// Around the update of this rank's part: takes the gradients, and hands out the parameters.
  void begin_step() const;
  void end_step();
  /// From the state of this rank's part that of the whole, kept until the next step; and that with the groups' options
  /// as they are now.
  nn::NamedTensors consolidate(const nn::NamedTensors& mine, std::optional<int> to);
  nn::NamedTensors consolidated(const nn::NamedTensors& mine);
  /// This rank's part of a state of the whole.
  nn::NamedTensors part_of(const nn::NamedTensors& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <class Optimizer>
class ZeroRedundancyOptimizer final : public ZeroRedundancyBase, public Optimizer {
 public:
  using Options = typename Optimizer::Options;

  /// Collective. Throws what the optimizer throws for parameters and options that it does not take.
  explicit ZeroRedundancyOptimizer(std::vector<Tensor> params, Options options = {}, ZeroRedundancyOptions zero = {})
      : ZeroRedundancyBase(zero), Optimizer(add_shard(params), options) {}
  /// One more group, with options of its own; it is cut into parts by itself.
  void add_param_group(std::vector<Tensor> params, Options options) {
    Optimizer::add_param_group(add_shard(params), options);
  }

  /// Marks every gradient as absent; the next backward overwrites it.
  void zero_grad() const override { zero_gradients(); }
  /// Updates every parameter that has a gradient, on all ranks. Collective. Throws Error where a parameter has been
  /// moved or converted since the optimizer was made.
  void step() override {
    begin_step();
    Optimizer::step();
    end_step();
  }

  /// The state that the optimizer alone would have, under its names, which it, and this at any number of ranks, can
  /// load: brought together on rank `to`, or on all for none; empty on the others. Collective. There `state_dict()` has
  /// it until the next step.
  nn::NamedTensors consolidate_state_dict(std::optional<int> to = 0) {
    return consolidate(Optimizer::state_dict(), to);
  }
  /// What `consolidate_state_dict` has brought together. Throws Error where it has not, on this rank and since the last
  /// step.
  nn::NamedTensors state_dict() override { return consolidated(Optimizer::state_dict()); }
  /// Takes this rank's part of such a state; to be called on all ranks with the same. Throws Error as
  /// Optimizer::load_state_dict does.
  void load_state_dict(const nn::NamedTensors& state) override { Optimizer::load_state_dict(part_of(state)); }
};

}  // namespace tandem
