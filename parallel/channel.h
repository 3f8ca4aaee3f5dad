/// Not installed. Channel: a communicator's place in its group, as one rank has it. It says what the rank is in, for
/// the comparison when somebody does not come, and what it has completed, for the others when it leaves.
#pragma once
#include <tandem/parallel/flight_record.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tandem {

/// What a rank is in just now, and of whom it needs something.
struct Need {
  enum class Of : uint8_t { nobody, all, receiver, sender } of = Of::nobody;
  uint64_t number = 0;  // of the collective, or of the transfer to that receiver or from that sender
  int partner = -1;     // its place among the members
};

/// What a rank has completed in a channel.
struct Completed {
  struct Transfers {
    uint64_t sent = 0, received = 0;
  };
  uint64_t collectives = 0;
  std::map<int, Transfers> transfers = {};  // with each member, by its place

  /// Whether it has done its part of what a member needs.
  bool covers(const Need& need, int of_member) const;
};
/// In all channels, by their ids.
using CompletedByChannel = std::map<uint32_t, Completed>;

struct TANDEM_API Channel {
  std::string name;                     // the same on all members: "world", "world/1"
  uint32_t id = 0;                      // of the name
  std::vector<int> members;             // ranks of the group, ascending
  int rank = 0;                         // this one's place among the members
  std::atomic<uint64_t> sequence{0};    // of the collective this rank is in, or was in last
  std::atomic<uint32_t> steps{0};       // what it has done so far of what it is in
  std::atomic<bool> connecting{false};  // its members are not all connected yet
  FlightRecord record;                  // of what this rank did here

  /// The next collective; its number.
  uint64_t begin();
  /// The next transfer: to that member if `sends`, else from it.
  uint64_t begin(int partner, bool sends);
  /// What began is over; `done` where this rank has done its part of it.
  void end(bool done);

  Need need() const;
  Completed completed() const;

 private:
  void start(const Need& need);
  mutable std::mutex mutex_;
  Need need_;
  Completed completed_;
};

}  // namespace tandem
