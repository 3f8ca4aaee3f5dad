/// Where a thread stands. Plain globals: the executor is the only thread that runs kernels.
#pragma once
#include <cstddef>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

/// The one array of dynamic shared memory, under the name by which the launch header knows it.
extern __shared__ __align__(16) unsigned char tandem_dynamic_smem[];

/// For code that stands between a kernel and the simulator: its accesses are not the kernel's.
#define SIMGPU_UNCHECKED __attribute__((no_sanitize("thread")))
