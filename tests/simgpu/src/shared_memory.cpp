#include "shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "operation.h"
#include "poison.h"
#include "symbols.h"

namespace {
constexpr size_t kGuardBytes = 1024;
}
alignas(128) thread_local unsigned char tandem_dynamic_smem[simgpu::kMostSharedMemory + kGuardBytes];

// The loader's own: where a module's storage for this thread lies, made where it wasn't yet.
struct tls_index {
  unsigned long module, offset;
};
extern "C" void* __tls_get_addr(tls_index*);

namespace simgpu {
namespace {

constexpr unsigned char kGuardByte = 0xa5;
constexpr size_t kLine = 64;  // what is refilled at once
constexpr int kLaunchesToLearn = 3;
constexpr int kBlocksToLearn = 4;  // of each

struct Search {
  const void* base;
  size_t module = 0, bytes = 0;
};

int compare(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  // An executable's address is 0 where it isn't moved; its base is that of its first segment.
  uintptr_t base = info->dlpi_addr;
  if (!base && info->dlpi_phnum)
    for (int i = 0; i < info->dlpi_phnum && !base; ++i)
      if (info->dlpi_phdr[i].p_type == PT_LOAD) base = info->dlpi_phdr[i].p_vaddr;
  if (reinterpret_cast<const void*>(base) != search.base) return 0;
  search.module = info->dlpi_tls_modid;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS) search.bytes = info->dlpi_phdr[i].p_memsz;
  return 1;
}

void fill(SharedRange r) { poison(reinterpret_cast<void*>(r.begin), r.end - r.begin); }

SharedPlaces places;

bool is_filled(SharedRange r) {
  const auto* p = reinterpret_cast<const unsigned char*>(r.begin);
  return std::all_of(p, p + (r.end - r.begin), [](unsigned char c) { return c == kPoison; });
}

}  // namespace

const SharedPlaces& shared_places() { return places; }

void SharedMemory::find_module() {
  Search search{module_of(kernel_).base};
  dl_iterate_phdr(compare, &search);
  if (!search.module || !search.bytes) return;
  tls_index first{search.module, 0};
  const auto begin = reinterpret_cast<uintptr_t>(__tls_get_addr(&first));
  module_ = {begin, begin + search.bytes};
  static auto& filled = *new std::set<uintptr_t>;
  if (filled.insert(begin).second) fill(module_);
}

void SharedMemory::begin_launch(size_t dynamic_bytes) {
  if (launches_++ == 0) find_module();
  dynamic_bytes_ = dynamic_bytes;
  blocks_ = 0;
  std::memset(tandem_dynamic_smem + dynamic_bytes, kGuardByte, kGuardBytes);
  const auto dynamic = reinterpret_cast<uintptr_t>(tandem_dynamic_smem);
  places = {{dynamic, dynamic + sizeof tandem_dynamic_smem}, dynamic_bytes, module_};
}

void SharedMemory::begin_block() {
  poison(tandem_dynamic_smem, dynamic_bytes_);
  for (const SharedRange& r : written_) fill(r);
}

void SharedMemory::end_block() {
  const unsigned char* guard = tandem_dynamic_smem + dynamic_bytes_;
  const auto* written = std::find_if(guard, guard + kGuardBytes, [](unsigned char c) { return c != kGuardByte; });
  if (written != guard + kGuardBytes)
    fail("dynamic shared memory was written at byte %td past the %zu that the launch asked for", written - guard,
         dynamic_bytes_);
  if (launches_ <= kLaunchesToLearn && blocks_++ < kBlocksToLearn) learn();
}

void SharedMemory::learn() {
  std::vector<SharedRange> now;
  for (uintptr_t line = module_.begin; line < module_.end; line += kLine) {
    const SharedRange r{line, std::min(line + kLine, module_.end)};
    const auto known = [&](const SharedRange& w) { return w.begin <= r.begin && r.end <= w.end; };
    if (is_filled(r) && std::none_of(written_.begin(), written_.end(), known)) continue;
    if (!now.empty() && now.back().end == r.begin)
      now.back().end = r.end;
    else
      now.push_back(r);
  }
  written_ = std::move(now);
}

}  // namespace simgpu
