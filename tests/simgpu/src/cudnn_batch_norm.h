/// What cuDNN's calls of batch normalisation have in common.
#pragma once
#include "batch_norm.h"
#include "cudnn_operands.h"

namespace simgpu {

/// SUCCESS where the mode, the tensor and the parameters' descriptor go together. Spatial modes alone, and tensors
/// without gaps.
cudnnStatus_t check_normalization(const char* function, cudnnBatchNormMode_t mode, const TensorDescription& x,
                                  const TensorDescription* parameters, double epsilon);

/// What can be fused with a ReLU, and with an addition before it.
struct BatchNormFusion {
  cudnnBatchNormOps_t ops = CUDNN_BATCHNORM_OPS_BN;
  bool activates() const { return ops != CUDNN_BATCHNORM_OPS_BN; }
  bool adds() const { return ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION; }
};

/// The library fuses in one mode and layout: SPATIAL_PERSISTENT, NHWC, channels in multiples of 4, ReLU.
cudnnStatus_t check_fusion(const char* function, cudnnBatchNormMode_t mode, BatchNormFusion fusion,
                           const TensorDescription& x, cudnnActivationDescriptor_t activation);

/// The forward pass leaves there which elements the ReLU let through, a bit for each.
size_t reserve_bytes(const BatchNormFusion& fusion, const TensorDescription& x);
size_t workspace_bytes(const BatchNormFusion& fusion, const TensorDescription& x);

/// The workspace and the reserve that a call was given.
struct BatchNormBuffers {
  void* workspace;
  size_t workspace_bytes;
  void* reserve;
  size_t reserve_bytes;
};
cudnnStatus_t check_buffers(const char* function, const BatchNormFusion& fusion, const TensorDescription& x,
                            const BatchNormBuffers& buffers);

std::vector<double> inverse_roots(const std::vector<double>& variance, double epsilon);

}  // namespace simgpu
