/// Lies over the toolkit's cuda_runtime.h, found before it on the include path: types and declarations stay the
/// toolkit's, the language of kernels is the simulator's.
#pragma once

#define SIMGPU 1

// Static shared arrays are the executor thread's own: one block runs at a time. (The toolkit's header keeps a
// definition that it finds; another of its headers, included before this one, may have made its own.)
#undef __shared__
#define __shared__ thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)

// Its template passes arguments as addresses without types, from which no call can be made.
#define cudaLaunchKernelEx simgpu_hidden_cudaLaunchKernelEx
#include_next <cuda_runtime.h>
#undef cudaLaunchKernelEx

#include <simgpu/device.h>
