/// What the environment chooses, read once.
#pragma once
#include <cstddef>
#include <cstdint>

namespace simgpu {

struct Settings {
  uint64_t seed;           // SIMGPU_SEED, 0: the order of all that may run in several
  int devices;             // SIMGPU_DEVICES, 2
  size_t device_bytes;     // SIMGPU_MEMORY_MB, 4096: memory of each device
  bool runs_nothing;       // SIMGPU_MODE=host: kernels and library calls are skipped, for the thread sanitizer
  double peer_timeout_s;   // SIMGPU_PEER_TIMEOUT, 60: how long a host wait may depend on a peer that does not come
  const char* trace_path;  // SIMGPU_TRACE: the estimated timeline is written there at exit
};

inline constexpr int kMaxDevices = 16;

const Settings& settings();

/// A number below n, by the seed. Under the runtime's lock or on the executor.
uint32_t random_below(uint32_t n);

}  // namespace simgpu
