/// The bytes that an operand of a library's call occupies: a matrix or a tensor may have gaps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "operation.h"

namespace simgpu {

struct Dimension {
  int64_t size, stride;  // the stride in elements, 0 or more
};

class Footprint {
 public:
  Footprint(const void* data, size_t bytes);
  Footprint(const void* data, size_t element_bytes, std::vector<Dimension> dimensions);

  bool overlaps(const Footprint& other) const;
  /// Two of its elements share a byte: the same element in several places, for an operand that is only read.
  bool overlaps_itself() const;

  void read_by(Operation& o) const { add_to(o, false); }
  void written_by(Operation& o) const { add_to(o, true); }

 private:
  struct Run {
    uintptr_t begin, end;
  };
  void add_to(Operation& o, bool write) const;

  std::vector<Run> runs_;  // without gaps, in the order of addresses
};

}  // namespace simgpu
