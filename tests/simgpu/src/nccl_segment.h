/// The memory that the ranks of an NCCL communicator share, whether they are threads or processes: who has joined, how
/// far each has come, and the windows through which values pass.
#pragma once
#include <nccl.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace simgpu {

inline constexpr int kMaxNcclRanks = 16;
inline constexpr size_t kWindowBytes = 4 << 20, kBoxBytes = 256 << 10;

/// Where a segment can be opened, by any process of the user, while its creator lives.
struct SegmentName {
  pid_t creator = 0;
  int descriptor = -1;
  uint64_t key = 0;  // tells it from another that came to have the same descriptor
};

/// What a rank calls; the same on all ranks, or they would exchange other things than they mean.
struct CollectiveSignature {
  uint64_t sequence = 0;  // of the communicator's collectives
  uint64_t count = 0;
  int32_t kind = 0, type = 0, op = 0, root = 0;
};

/// claimed: its rank is writing down who it is.
enum class Seat : uint32_t { empty, claimed, taken, left, gone };

/// One rank's part. Counters count chunks, over all collectives: chunk i goes through the windows i % 2.
struct RankRecord {
  std::atomic<Seat> seat;
  int device;
  pid_t process;
  std::atomic<uint64_t> posted;   // its input is in its window
  std::atomic<uint64_t> reduced;  // its slice of the result is in its result window
  std::atomic<uint64_t> taken;    // it has copied what it wants; the windows may be written again
  CollectiveSignature signature[2];
  // A split of the communicator: what the rank wants, and the name of the new segment if it is the one to create it.
  std::atomic<uint64_t> split_posted, split_named, split_done;
  int split_color, split_key;
  SegmentName split_child;
};

/// From one rank to another, a message after the other, in chunks.
struct Mailbox {
  std::atomic<uint64_t> posted, taken;
  uint64_t count;
  int32_t type;
};

struct SegmentHeader {
  uint64_t key;
  std::atomic<int> ranks;  // 0 until the first has joined
  RankRecord record[kMaxNcclRanks];
  Mailbox box[kMaxNcclRanks][kMaxNcclRanks];  // [from][to]
};

class Segment {
 public:
  /// Fails loudly where the system has no memory to share.
  static SegmentName create();
  /// nullptr where its creator is gone, or it is no segment.
  static std::shared_ptr<Segment> open(const SegmentName& name);
  /// Nobody will open it any more: all ranks have joined.
  void close() const;
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentHeader* operator->() const { return header_; }
  char* window(int rank, uint64_t chunk) const;
  char* result_window(int rank, uint64_t chunk) const;
  char* box_window(int from, int to) const;

 private:
  Segment(void* memory, const SegmentName& name) : header_(static_cast<SegmentHeader*>(memory)), name_(name) {}
  SegmentHeader* header_;
  SegmentName name_;
};

}  // namespace simgpu
