/// A run's folder of checkpoints: the last few by step, and the best one by a metric.
#pragma once
#include <tandem/nn/checkpoint.h>

namespace tandem::nn {

/// What a run does about checkpoints that are there already.
enum class Existing : uint8_t {
  refuse,   // it does not start
  keep,     // it goes on from that of resumed_step: its first save removes those of later steps
  replace,  // its first save removes them all
};

/// Writes `step-00001200.safetensors` and `best.safetensors`. One process writes to a folder.
class TANDEM_API CheckpointDirectory {
 public:
  struct Options {
    int keep_last = 3;  // 0 keeps all
    bool keep_best = true;
    bool higher_is_better = true;
    Existing existing = Existing::refuse;
    std::optional<int64_t> resumed_step = {};  // with Existing::keep: what came later is not this run's past
  };

  /// Makes the folder, and clears away what a killed run left half written. Throws IoError where that can't be done,
  /// and with Existing::refuse where checkpoints are there; Error where Existing::keep comes without a resumed_step.
  explicit CheckpointDirectory(std::string folder) : CheckpointDirectory(std::move(folder), Options()) {}
  CheckpointDirectory(std::string folder, Options options);

  /// Saves under the number of `from.progress->global_step`. A metric better than `progress->best_metric` (a NaN never
  /// is) becomes it, and the same state is also the best checkpoint. What is no longer to be kept is removed once the
  /// new files are on the disk. Throws as save_checkpoint does, and Error without a progress.
  void save(const Checkpoint& from, std::optional<double> metric = {});

  const std::string& folder() const { return folder_; }

 private:
  void remove_superseded(int64_t step, bool best_is_new);

  std::string folder_;
  Options options_;
  int64_t own_until_ = -1;  // what is there of later steps is of another history
};

/// The checkpoint of the latest step that can be read; those that are damaged are passed over with a warning in the
/// log. Empty where there is none, or no such folder.
TANDEM_API std::optional<std::string> latest_checkpoint(const std::string& folder);
/// The best one, by the same rules.
TANDEM_API std::optional<std::string> best_checkpoint(const std::string& folder);

}  // namespace tandem::nn
