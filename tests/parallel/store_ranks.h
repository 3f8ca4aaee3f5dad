/// Ranks that meet at a store and have no transport, for the tests of what its members are told.
#pragma once
#include "tests/support/ranks.h"

#include <tandem/parallel/join_group.h>
#include <tandem/parallel/transport.h>

#include <doctest/doctest.h>

#include <numeric>

namespace tandem::test {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{10'000};

inline Rendezvous at(int port, int rank, int size) {
  Rendezvous r;
  r.rank = rank;
  r.world_size = size;
  r.host = "127.0.0.1";
  r.port = port;
  return r;
}

/// A member with one channel of all ranks, whose collectives are made of the group's keys.
struct Rank {
  std::unique_ptr<StoreMembership> membership;
  std::shared_ptr<Channel> channel;

  explicit Rank(const Rendezvous& r, milliseconds timeout = kTimeout, milliseconds rendezvous = kTimeout)
      : membership(join_group(r, nullptr, timeout, rendezvous)) {
    std::vector<int> all(static_cast<size_t>(r.world_size));
    std::iota(all.begin(), all.end(), 0);
    channel = membership->open("world", all);
  }

  void barrier(milliseconds timeout = kTimeout) {
    Header h;
    h.sequence = channel->begin();
    const std::string label = "test";
    Wait wait(*membership, *channel, h, label, timeout);
    membership->look_for_absent(*channel);
    membership->check();
    membership->put(message(h.sequence, '/', membership->rank()), "here");
    for (int r : channel->members) {
      const std::string got = membership->get(message(h.sequence, '/', r), wait);
      CHECK(got == "here");
      wait.advance();
    }
    channel->end(true);
  }
};

/// Another process that takes this rank for its own, in the first group at this address.
inline void join_again(int port, int rank, int size) {
  StoreMembershipOptions o;
  o.rank = rank;
  o.size = size;
  o.locate = [port](std::string&) { return StoreAddress{"127.0.0.1", port}; };
  const StoreMembership second(o);
}

}  // namespace tandem::test
