#include "footprint.h"

#include <algorithm>

namespace simgpu {

Footprint::Footprint(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (bytes) runs_.push_back({begin, begin + bytes});
}

Footprint::Footprint(const void* data, size_t element_bytes, std::vector<Dimension> dimensions) {
  std::erase_if(dimensions, [](const Dimension& d) { return d.size == 1; });
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  // The inner dimensions that follow each other without gaps are one run; the outer ones say where its copies begin.
  int64_t run = 1;
  size_t inner = 0;
  for (; inner < dimensions.size() && dimensions[inner].stride == run; ++inner) run *= dimensions[inner].size;
  std::vector<int64_t> begins{0};
  for (size_t d = inner; d < dimensions.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(begins.size() * size_t(dimensions[d].size));
    for (int64_t i = 0; i < dimensions[d].size; ++i)
      for (const int64_t b : begins) next.push_back(b + i * dimensions[d].stride);
    begins = std::move(next);
  }
  std::sort(begins.begin(), begins.end());
  const auto base = reinterpret_cast<uintptr_t>(data);
  for (const int64_t b : begins)
    runs_.push_back({base + uintptr_t(b) * element_bytes, base + uintptr_t(b + run) * element_bytes});
}

bool Footprint::overlaps(const Footprint& other) const {
  for (size_t i = 0, j = 0; i < runs_.size() && j < other.runs_.size();) {
    const Run &a = runs_[i], &b = other.runs_[j];
    if (a.begin < b.end && b.begin < a.end) return true;
    a.end <= b.begin ? ++i : ++j;
  }
  return false;
}

bool Footprint::overlaps_itself() const {
  for (size_t i = 1; i < runs_.size(); ++i)
    if (runs_[i].begin < runs_[i - 1].end) return true;
  return false;
}

void Footprint::add_to(Operation& o, bool write) const {
  for (const Run& r : runs_) o.accesses.push_back({reinterpret_cast<const void*>(r.begin), r.end - r.begin, write});
}

}  // namespace simgpu
