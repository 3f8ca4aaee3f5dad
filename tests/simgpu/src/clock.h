/// Vector clocks: what had happened before an operation was submitted. A lane is a stream, or a branch of a graph.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu {

class VectorClock {
 public:
  uint32_t operator[](uint32_t lane) const { return lane < times_.size() ? times_[lane] : 0; }

  void set(uint32_t lane, uint32_t time) {
    if (times_.size() <= lane) times_.resize(lane + 1);
    times_[lane] = time;
  }

  /// Afterwards all that had happened before either has happened before this.
  void join(const VectorClock& other) {
    if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

 private:
  std::vector<uint32_t> times_;
};

}  // namespace simgpu
