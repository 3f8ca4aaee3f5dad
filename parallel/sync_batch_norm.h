/// Synchronised batch norm: the ranks of a group normalise by the statistics of all their samples
/// (torch.nn.SyncBatchNorm). For batches so small that their own statistics are noise.
#pragma once
#include <tandem/nn/module.h>
#include <tandem/parallel/process_group.h>

namespace tandem {

struct SyncBatchNormOptions {
  /// The thread's group where null.
  ProcessGroup* process_group = nullptr;
  /// How the ranks' losses make one, of which gradients are: as the wrapper's option of that name. by_samples: by their
  /// rows in the layer, so that uneven batches have the gradients of one device; by_rank: alike, as PyTorch's.
  enum class Average { by_samples, by_rank } average = Average::by_samples;
};

/// Makes every BatchNorm2d of the module, itself included, use the statistics of all ranks in training
/// (torch.nn.SyncBatchNorm.convert_sync_batchnorm). They stay the modules that they are, with their names and state:
/// running statistics come out alike on all ranks, evaluation is as before. Uneven batches count by their samples, down
/// to a rank without any. Returns how many layers there are. Collective.
///
/// Each forward and each backward of a layer is one collective, on a communicator that these layers have to themselves:
/// all ranks have to run the same layers in the same order. Not for DataParallel, nor in DistributedDataParallel::join.
TANDEM_API int convert_sync_batchnorm(nn::Module& module, const SyncBatchNormOptions& options = {});

}  // namespace tandem
