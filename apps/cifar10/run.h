/// A training run as one rank of its team has it: the network, what trains it, what it is trained on, and where it
/// stands. All of the state that must outlive the process goes through save and load, and does not depend on how many
/// ranks there are.
#pragma once
#include "apps/cifar10/datasets.h"
#include "apps/cifar10/options.h"
#include "apps/cifar10/team.h"

#include <tandem/tandem.h>

#include <map>
#include <memory>
#include <optional>

namespace tandem::cifar10 {

class Run {
 public:
  Run(const TrainOptions& o, const Datasets& sets, const Team& team);

  /// Batches of an epoch, and where this run stands in it: `batch` of them are done.
  int64_t batches() const { return share_.batches(); }
  int64_t batch() const { return (images_ + options_.batch_size - 1) / options_.batch_size; }
  /// Trains on the next batch and returns how many images that were, on all ranks; 0 at the end of the epoch.
  int64_t step();
  /// Mean training loss of this epoch so far, on all ranks. Waits for the device, as step does not.
  double loss() const;
  /// Of this rank's images alone: the others need not be asked.
  double own_loss() const { return own_images_ ? loss_sum_.item<double>() / double(own_images_) : 0; }
  int64_t images() const { return images_; }
  /// Images in an epoch.
  int64_t train_size() const { return loader_.dataset().size(); }
  /// From 0 to 1, on the test images, each counted once.
  double test();
  /// After the last batch: on to the next epoch.
  void end_epoch();

  /// Everything, as nn::save_checkpoint and nn::load_checkpoint take it. Before saving: `note`, on all ranks. After
  /// loading: `resume`.
  nn::Checkpoint state();
  void note();
  void resume();
  /// Throws Error, listing them, where a checkpoint's options (its extra texts) are not this run's: going on with other
  /// data, weights or steps would be a run that nobody can repeat.
  void require_same_options(const std::map<std::string, std::string>& checkpoint) const;

  nn::Progress progress;
  nn::Module& net() { return *net_; }
  double lr() { return optimizer_.param_groups()[0].lr; }

 private:
  Tensor backward(const Tensor& images, const Tensor& labels, int64_t samples);
  void train(int64_t samples);

  const TrainOptions options_;
  const Team team_;
  std::unique_ptr<nn::Module> net_;
  nn::SGD optimizer_;
  std::optional<DataParallel> dp_;
  std::optional<DistributedDataParallel> ddp_;
  data::BatchShareSampler share_;
  data::DataLoader loader_, test_loader_;
  std::unique_ptr<nn::LRScheduler> schedule_;
  bool schedule_by_step_ = false;
  Tensor loss_sum_;                           // f64 [], on the device: over this epoch's own images
  std::optional<StepGraph> graph_;            // of a step on a whole batch
  int64_t own_images_ = 0;                    // of this epoch so far, this rank's
  int64_t images_ = 0;                        // all ranks'
  std::map<std::string, std::string> extra_;  // what a checkpoint says beside that
};

}  // namespace tandem::cifar10
