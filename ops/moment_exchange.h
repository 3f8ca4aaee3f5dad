/// MomentExchange: how batch norm on several ranks normalises their batches as one. The op asks for it; the ranks'
/// communicator answers (parallel/sync_batch_norm.h).
#pragma once
#include <tandem/core/tensor.h>

#include <memory>

namespace tandem {

/// Every rank calls the same functions in the same order.
class MomentExchange {
 public:
  virtual ~MomentExchange() = default;
  /// moments f64 [k] of this rank's batch: those of all, f64 [ranks, k].
  virtual Tensor gather(const Tensor& moments) = 0;
  /// sums f64 [2,c] over this rank's rows become what those of all ranks are for its own gradient: divided by share[0],
  /// its rows, that is what each of its rows takes back. share f64 [2]: rows here, rows of all.
  virtual void reduce(Tensor& sums, const Tensor& share) = 0;
};

}  // namespace tandem
