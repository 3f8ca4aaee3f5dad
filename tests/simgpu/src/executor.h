/// The one thread that runs kernels and all other work of devices, while the thread that gave it the job waits.
#pragma once
#include <functional>

namespace simgpu {

/// Runs the job on the executor, with device memory open, and returns when it is done. Under the runtime's lock.
void run_on_executor(const std::function<void()>& job);

bool on_executor();

/// Starts the thread, and that which looks after work that waits for peers (scheduler.h) while no host thread does.
void start_executor();

}  // namespace simgpu
