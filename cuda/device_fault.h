/// Not installed. Values on a device that an op can't take, an index beyond its dimension say, as the host learns of
/// them: a kernel notes the first that it finds in pinned memory and goes on without using it (cuda/range_check.h);
/// where the host next waits for the device (a copy to the host, synchronize()) it finds the note and throws. So a
/// check costs no wait, and nothing is read or written out of bounds.
#pragma once
#include <tandem/core/device.h>

#include <cstdint>
#include <string>

namespace tandem::cuda_impl {

enum class RangeOf : int { dimension, classes, images };

/// A device's note.
struct DeviceFault {
  static constexpr unsigned kNone = 0, kTaken = 1, kNoted = 2;

  unsigned state;  // kTaken by the kernel that fills in the rest
  RangeOf what;
  int dim;
  const char* op;  // a literal of the host's
  int64_t value, place, size;
};

/// The device's note, in pinned memory; it stays where it is.
DeviceFault* fault_of(Device d);

/// A collective of the device's was ended before it was done: its results, which nobody may use, are not there.
void note_lost_collective(Device d, const std::string& why);
void forget_lost_collectives(Device d);

/// Throws the Error that the CPU's kernel throws, or CommError for a lost collective, for what is noted for the device,
/// which is then forgotten.
void throw_fault(Device d);

}  // namespace tandem::cuda_impl
