/// Everything a training run needs to go on bit for bit, in one safetensors file.
///
/// The model's tensors stand under the bare keys of its state dict, so that the file is also what PyTorch loads; the
/// rest stands under `tandem.`: the optimizer's and the schedules' states as tensors, single values as metadata. Equal
/// states make equal files, byte for byte.
#pragma once
#include <tandem/core/context.h>
#include <tandem/core/generator.h>
#include <tandem/nn/lr_scheduler.h>
#include <tandem/nn/module.h>
#include <tandem/nn/optimizer.h>
#include <tandem/nn/reduce_lr_on_plateau.h>

#include <map>
#include <optional>
#include <string>

namespace tandem::nn {

/// How far a run is.
struct Progress {
  int64_t epoch = 0;
  int64_t global_step = 0;  // optimizer steps so far
  std::optional<double> best_metric;

  /// Where the data stand: the numbers of a data::DataLoaderState.
  struct Data {
    uint64_t seed = 0;  // of augmentation
    uint64_t sampler_seed = 0;
    int64_t sampler_epoch = 0;
    int64_t sampler_offset = 0;  // samples taken from this epoch
    bool operator==(const Data&) const = default;
  } data;

  bool operator==(const Progress&) const = default;
};

/// The parts of a run. What is null is neither saved nor loaded.
struct Checkpoint {
  Module* model = nullptr;
  Optimizer* optimizer = nullptr;
  LRScheduler* scheduler = nullptr;
  ReduceLROnPlateau* plateau = nullptr;
  Generator* generator = nullptr;  // usually &default_generator()
  RandomStep* random = nullptr;    // usually &context().random, for dropout
  Progress* progress = nullptr;
  std::map<std::string, std::string>* extra = nullptr;  // texts of the user's own
};

/// Writes the file, or leaves the one that is there as it was (see tandem::save). Throws Error for a model that has a
/// key beginning with "tandem."; IoError where the file can't be written.
TANDEM_API void save_checkpoint(const std::string& path, const Checkpoint& from);

/// Reads and checks the whole file before anything is changed: on an error everything is as it was.
///
/// A file that PyTorch's safetensors wrote loads too, with the `module.` prefixes of its wrappers; it has a model only.
/// With `strict`, whatever is missing, unexpected or misshapen, and any part asked for that the file does not have, is
/// an Error that lists all of it. With `strict = false` what fits is loaded, and the report says what did not; a part
/// that the file does not have ("tandem.optimizer") counts as missing and stays as it is. An optimizer's or scheduler's
/// state that does not fit is an Error either way. Throws IoError for a file that is damaged.
TANDEM_API LoadReport load_checkpoint(const std::string& path, const Checkpoint& into, LoadOptions options = {});

/// The progress of the run that saved this file, from its header alone; empty in a file that has none. Throws IoError.
TANDEM_API std::optional<Progress> load_progress(const std::string& path);

}  // namespace tandem::nn
