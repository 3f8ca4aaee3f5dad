/// Not installed. CUDA's functions, for formulas that ops share with the CPU (ops/unary_formulas.h, where M is this).
#pragma once
#include <cuda_runtime.h>

namespace tandem::cuda_impl {

struct DeviceMath {
  __device__ static float exp(float x) { return ::expf(x); }
  __device__ static double exp(double x) { return ::exp(x); }
  __device__ static float tanh(float x) { return ::tanhf(x); }
  __device__ static double tanh(double x) { return ::tanh(x); }
  __device__ static float log1p(float x) { return ::log1pf(x); }
  __device__ static double log1p(double x) { return ::log1p(x); }
};

}  // namespace tandem::cuda_impl
