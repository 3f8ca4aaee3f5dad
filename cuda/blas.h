/// Not installed. Matrix products by cuBLASLt, the one door to it.
#pragma once
#include <tandem/cuda/runtime.h>

namespace tandem::cuda_impl {

/// A matrix as it enters a product: element (i, j) is data[i * stride + j], or data[j * stride + i] where transposed.
/// In a batch the next one starts `step` elements on; 0 is the same one for all.
struct BlasMatrix {
  const void* data;
  int64_t stride;
  bool transposed = false;
  int64_t step = 0;
};

/// c[m,n] = a[m,k] b[k,n], plus bias[n] where there is one, plus what c held where `add` (else c is not read): `batch`
/// times. f16 and bf16 are summed in f32 and rounded once; f32 is computed in TF32 where the context allows it. Neither
/// m nor n, k or batch is 0.
struct BlasProduct {
  Dtype dtype;  // of a, b and bias
  int64_t m, n, k;
  BlasMatrix a, b;
  void* c;
  int64_t c_stride, c_step = 0;
  const void* bias = nullptr;
  bool add = false;
  int64_t batch = 1;
  Dtype c_dtype = dtype;  // or f32, where a and b are f16 or bf16
};

/// Queues it on the stream. Throws DeviceError naming the sizes where the library refuses.
void blas_multiply(const On& on, const BlasProduct& p);

}  // namespace tandem::cuda_impl
