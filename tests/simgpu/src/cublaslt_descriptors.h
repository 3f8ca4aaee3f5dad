/// What cuBLASLt's descriptors hold. As in the library, setting an attribute checks its size alone; values are checked
/// where the descriptors are used.
#pragma once
#include <cublasLt.h>

#include "live_objects.h"

namespace simgpu {

struct LtHandle {
  int device;
};

struct MatmulDescription {
  int32_t compute_type, scale_type;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  int32_t fill_mode = CUBLAS_FILL_MODE_FULL;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_batch_stride = 0;
  int32_t bias_type = -1;  // -1: that of D
};

struct MatrixLayout {
  uint32_t type;
  uint64_t rows, columns;
  int64_t leading_dimension;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;
};

struct MatmulPreference {
  uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  uint64_t most_workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;  // bytes
};

LiveObjects<cublasLtHandle_t, LtHandle>& lt_handles();
LiveObjects<cublasLtMatmulDesc_t, MatmulDescription>& matmul_descriptions();
LiveObjects<cublasLtMatrixLayout_t, MatrixLayout>& matrix_layouts();
LiveObjects<cublasLtMatmulPreference_t, MatmulPreference>& matmul_preferences();

}  // namespace simgpu
