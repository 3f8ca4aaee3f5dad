/// The one thread that runs kernels and all other work of devices, while the thread that gave it the job waits.
#pragma once
#include <functional>

namespace simgpu {

/// Runs the job on the executor, with device memory open, and returns when it is done. Under the runtime's lock.
void run_on_executor(const std::function<void()>& job);

bool on_executor();

void start_executor();

/// Runs a host function of a stream on a thread of its own, and waits for it. It may not call CUDA: see api.
void run_host_function(const std::function<void()>& function);
bool in_host_function();

}  // namespace simgpu
