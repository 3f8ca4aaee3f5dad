#include "nccl_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <random>

#include "operation.h"

namespace simgpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHeaderBytes = (sizeof(SegmentHeader) + kPage - 1) / kPage * kPage;
constexpr size_t kWindows = size_t(kMaxNcclRanks) * 2 * kWindowBytes;
constexpr size_t kBoxes = size_t(kMaxNcclRanks) * kMaxNcclRanks * kBoxBytes;
// Pages that nobody touches take no memory.
constexpr size_t kSegmentBytes = kHeaderBytes + 2 * kWindows + kBoxes;

void* map(int descriptor) {
  void* memory = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Under the runtime's lock. The descriptors of segments that this process has created and others may still open, by way
// of /proc; with the segments' keys, since descriptors come again.
std::map<int, uint64_t>& open_descriptors() {
  static auto& all = *new std::map<int, uint64_t>;
  return all;
}

}  // namespace

SegmentName Segment::create() {
  const int descriptor = memfd_create("simgpu-nccl", MFD_CLOEXEC);
  void* memory = descriptor >= 0 && ftruncate(descriptor, off_t(kSegmentBytes)) == 0 ? map(descriptor) : nullptr;
  if (!memory) fail("no shared memory for a communicator: %m");
  std::random_device random;
  const uint64_t key = uint64_t(random()) << 32 | random();
  static_cast<SegmentHeader*>(memory)->key = key;
  munmap(memory, kSegmentBytes);
  open_descriptors()[descriptor] = key;
  return {getpid(), descriptor, key};
}

std::shared_ptr<Segment> Segment::open(const SegmentName& name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", int(name.creator), name.descriptor);
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  const bool whole = lseek(descriptor, 0, SEEK_END) == off_t(kSegmentBytes);
  void* memory = whole ? map(descriptor) : nullptr;
  ::close(descriptor);
  if (!memory) return nullptr;
  std::shared_ptr<Segment> s(new Segment(memory, name));
  return (*s)->key == name.key ? s : nullptr;
}

void Segment::close() const {
  if (name_.creator != getpid()) return;
  const auto known = open_descriptors().find(name_.descriptor);
  if (known == open_descriptors().end() || known->second != name_.key) return;  // another rank of this process has
  ::close(name_.descriptor);
  open_descriptors().erase(known);
}

Segment::~Segment() { munmap(header_, kSegmentBytes); }

char* Segment::window(int rank, uint64_t chunk) const {
  return reinterpret_cast<char*>(header_) + kHeaderBytes + (size_t(rank) * 2 + chunk % 2) * kWindowBytes;
}
char* Segment::result_window(int rank, uint64_t chunk) const { return window(rank, chunk) + kWindows; }
char* Segment::box_window(int from, int to) const {
  return reinterpret_cast<char*>(header_) + kHeaderBytes + 2 * kWindows +
         (size_t(from) * kMaxNcclRanks + size_t(to)) * kBoxBytes;
}

}  // namespace simgpu
