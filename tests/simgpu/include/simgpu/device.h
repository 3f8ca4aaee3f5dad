/// The language of kernels, as ordinary C++ over the simulator's runtime. What is missing here is not part of the
/// dialect that nvcc and the simulator share.
#pragma once
#include <simgpu/atomics.h>
#include <simgpu/barriers.h>
#include <simgpu/builtins.h>
#include <simgpu/intrinsics.h>
#include <simgpu/kernel_call.h>
