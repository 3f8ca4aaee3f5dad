/// A training run: the network, what trains it, what it is trained on, and where it stands. All of the state that must
/// outlive the process goes through save and load.
#pragma once
#include "apps/cifar10/datasets.h"
#include "apps/cifar10/options.h"

#include <tandem/tandem.h>

#include <map>
#include <memory>

namespace tandem::cifar10 {

class Run {
 public:
  Run(const TrainOptions& o, const Datasets& sets);

  /// Batches of an epoch, and where this run stands in it: `batch` of them are done.
  int64_t batches() const { return loader_.size(); }
  int64_t batch() const;
  /// Trains on the next batch and returns how many images that were; 0 at the end of the epoch.
  int64_t step();
  /// Mean training loss of this epoch so far. Waits for the device, as step does not.
  double loss() const { return images_ ? loss_sum_.item<double>() / double(images_) : 0; }
  int64_t images() const { return images_; }
  /// Images in an epoch.
  int64_t train_size() const { return loader_.dataset().size(); }
  /// From 0 to 1, on the test images.
  double test();
  /// After the last batch: on to the next epoch.
  void end_epoch();

  /// Everything, as nn::save_checkpoint and nn::load_checkpoint take it. Before saving: `note`. After loading:
  /// `resume`.
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
  const TrainOptions options_;
  const Device device_;
  std::unique_ptr<nn::Module> net_;
  nn::SGD optimizer_;
  data::DataLoader loader_, test_loader_;
  std::unique_ptr<nn::LRScheduler> schedule_;
  bool schedule_by_step_ = false;
  Tensor loss_sum_;  // f64 [], on the device: over this epoch's images
  int64_t images_ = 0;
  std::map<std::string, std::string> extra_;  // what a checkpoint says beside that
};

}  // namespace tandem::cifar10
