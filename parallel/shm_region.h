/// Not installed. ShmRegion: how one member's memory of a shared-memory channel is divided. The member writes it, the
/// others read it.
#pragma once
#include <tandem/parallel/door.h>
#include <tandem/parallel/header.h>
#include <tandem/parallel/life_line.h>

#include <sched.h>

#include <atomic>
#include <cstddef>

namespace tandem {

constexpr size_t kShmWindowBytes = 256 << 10;
constexpr size_t kShmTransferBytes = 128 << 10;
constexpr size_t kShmSmallBytes = 4096;  // what travels with a header

/// All counts only grow, and wrap around.
struct alignas(64) ShmControl {
  Door door;
  std::atomic<uint32_t> begun{0};  // collectives
  std::atomic<uint32_t> steps{0};  // of all_reduce
  std::atomic<uint32_t> closed{0};
  alignas(64) Sleeper sleeper;
  alignas(64) LifeMark life;
  cpu_set_t cpus{};  // this member may run on
  pid_t process = 0;
  /// Of the collectives with even and odd numbers: one can be written while the other is still read.
  alignas(64) Header headers[2];
  /// Whether everyone is sent the same bytes, which then stand there once.
  bool alike[2] = {};
};

/// What concerns one other member.
struct alignas(64) ShmLane {
  std::atomic<uint32_t> sent{0}, taken{0};  // pieces to and from it
  std::atomic<uint32_t> transfers{0};
  alignas(64) Header headers[2];  // of transfers
};

class ShmRegion {
 public:
  ShmRegion(std::byte* memory, int members) : memory_(memory), members_(size_t(members)) {}
  static size_t bytes(int members) { return ShmRegion(nullptr, members).end(); }
  /// In the owner's, once.
  void make() const {
    new (memory_) ShmControl;
    for (size_t r = 0; r < members_; ++r) new (&lane(int(r))) ShmLane;
  }

  ShmControl& control() const { return *reinterpret_cast<ShmControl*>(memory_); }
  ShmLane& lane(int member) const { return reinterpret_cast<ShmLane*>(memory_ + sizeof(ShmControl))[size_t(member)]; }
  std::byte* small(unsigned parity) const { return memory_ + small_begin() + parity * kShmSmallBytes; }
  std::byte* window(unsigned parity) const { return memory_ + windows_begin() + parity * kShmWindowBytes; }
  std::byte* transfer_window(unsigned parity) const {
    return memory_ + windows_begin() + 2 * kShmWindowBytes + parity * kShmTransferBytes;
  }

 private:
  static constexpr size_t kPage = 4096;
  size_t small_begin() const { return (sizeof(ShmControl) + members_ * sizeof(ShmLane) + kPage - 1) / kPage * kPage; }
  size_t windows_begin() const { return small_begin() + 2 * kShmSmallBytes; }
  size_t end() const { return windows_begin() + 2 * kShmWindowBytes + 2 * kShmTransferBytes; }

  std::byte* memory_;
  size_t members_;
};

}  // namespace tandem
