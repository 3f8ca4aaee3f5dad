/// Caching memory pools: one per CPU device, one per stream elsewhere. What is freed stays and is handed out again, so
/// that a warm training step allocates nothing from the system.
#pragma once
#include <tandem/core/device.h>

#include <cstddef>

namespace tandem {

/// Memory of a pool: `capacity` may exceed what was asked for, and goes back with it.
struct Block {
  void* data = nullptr;
  size_t capacity = 0;
};

struct PoolStats {
  size_t allocated = 0;      // bytes handed out now
  size_t max_allocated = 0;  // its peak since start or reset
  size_t reserved = 0;       // bytes taken from the system
  size_t system_calls = 0;   // how often the pool grew
};

class TANDEM_API Pool {
 public:
  virtual ~Pool() = default;
  /// Throws OutOfMemoryError with the figures.
  virtual Block allocate(size_t bytes) = 0;
  virtual void free(Block) noexcept = 0;
  virtual PoolStats stats() const = 0;
  virtual void reset_peak() = 0;
  /// Gives blocks nobody holds back to the system.
  virtual void release_cached() = 0;
  /// Bytes the pool may take from the system; 0 for no limit.
  virtual void set_limit(size_t bytes) = 0;
};

/// Where new tensors of the device get their memory on this thread. Throws DeviceError where there is no such device.
TANDEM_API Pool& pool(Device d);

/// PyTorch's names, in bytes, for one device.
TANDEM_API size_t memory_allocated(Device d = {});
TANDEM_API size_t max_memory_allocated(Device d = {});
TANDEM_API size_t memory_reserved(Device d = {});
TANDEM_API void reset_peak_memory_stats(Device d = {});
TANDEM_API void empty_cache(Device d = {});
/// From now on the device's pool holds at most this many bytes (0: no limit); beyond it, OutOfMemoryError.
TANDEM_API void set_memory_limit(size_t bytes, Device d = {});

}  // namespace tandem
