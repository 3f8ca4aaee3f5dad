/// GradBucket and CommHook: what DistributedDataParallel does with a stretch of gradients that is complete.
#pragma once
#include <tandem/parallel/communicator.h>

#include <memory>
#include <string_view>

namespace tandem {

/// Gradients side by side, of one device and dtype, on their way to the other ranks.
struct GradBucket {
  int index = 0;
  bool is_last = false;
  Tensor flat;                    // [elements]; the gradients themselves, in the order in which they became ready
  std::vector<Tensor> gradients;  // each parameter's, in `flat`
  Tensor weight;  // f64 [2]: this rank's share of the mean, its samples and those of all ranks; the latter readable
                  // once a collective that was started before it has run, so it is handed on as `premultiply`
  std::string label;
};

/// Replaces the all-reduce of buckets (torch's register_comm_hook). It is called on every rank alike.
class TANDEM_API CommHook {
 public:
  virtual ~CommHook() = default;
  /// The bucket is complete here: starts what brings it together and returns at once. The gradients may not be touched
  /// before the Work is done.
  virtual Work start(GradBucket& bucket, Communicator& communicator) = 0;
  /// A second round, for hooks that need one: called at the end of the backward, when the first Work is done, for the
  /// buckets in their order; starts it and returns at once.
  virtual Work start_second(GradBucket& bucket, Communicator& communicator) {
    (void)bucket, (void)communicator;
    return {};
  }
  /// After all that is done, at the end of the backward: puts the mean into `bucket.flat`, if it is not there.
  virtual void finish(GradBucket& bucket) { (void)bucket; }
};

/// The mean over all samples, as without a hook.
TANDEM_API std::unique_ptr<CommHook> allreduce_hook();
/// The gradients travel as f16 (torch's fp16_compress_hook): half the bytes. Each rank's share is multiplied in f32 as
/// it is read, and sums are rounded to f16.
TANDEM_API std::unique_ptr<CommHook> fp16_compress_hook();
/// The same as bf16.
TANDEM_API std::unique_ptr<CommHook> bf16_compress_hook();

}  // namespace tandem
