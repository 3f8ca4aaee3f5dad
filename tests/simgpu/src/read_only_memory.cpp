#include "read_only_memory.h"

#include <link.h>

#include <algorithm>
#include <vector>

namespace simgpu {
namespace {

struct Range {
  uintptr_t begin, end;
  bool holds(uintptr_t a) const { return a >= begin && a < end; }
};

int add_segments(dl_phdr_info* info, size_t, void* data) {
  auto& ranges = *static_cast<std::vector<Range>*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& h = info->dlpi_phdr[i];
    const bool constant = h.p_type == PT_LOAD && !(h.p_flags & PF_W);
    // Tables of addresses are written by the loader, and read-only afterwards.
    if (constant || h.p_type == PT_GNU_RELRO)
      ranges.push_back({info->dlpi_addr + h.p_vaddr, info->dlpi_addr + h.p_vaddr + h.p_memsz});
  }
  return 0;
}

std::vector<Range> all_ranges() {
  std::vector<Range> ranges;
  dl_iterate_phdr(add_segments, &ranges);
  return ranges;
}

}  // namespace

bool is_read_only(uintptr_t address) {
  static auto& ranges = *new std::vector<Range>;
  static Range last{0, 0};
  if (last.holds(address)) return true;
  for (int turn = 0; turn < 2; ++turn) {
    const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) { return r.holds(address); });
    if (found != ranges.end()) {
      last = *found;
      return true;
    }
    if (turn == 0) ranges = all_ranges();  // a library may have been loaded since
  }
  return false;
}

}  // namespace simgpu
