/// Not installed. StoreKeys: the keys and values of one group, or of those who belong to none, on the store's side, and
/// who waits for one.
#pragma once
#include <tandem/parallel/store_protocol.h>

#include <map>
#include <memory>
#include <vector>

namespace tandem {

class TANDEM_API StoreKeys {
 public:
  using Clock = std::chrono::steady_clock;

  /// Carries out set, get, add or compare_set; others return false.
  bool handle(const std::shared_ptr<StorePeer>& peer, StoreOp op, uint64_t id, FrameReader& body);
  /// Refuses those whose time is over.
  void tick(Clock::time_point now);
  /// Its connection has ended.
  void forget(const StorePeer* peer);

 private:
  struct Waiter {
    std::shared_ptr<StorePeer> peer;
    uint64_t id;
    std::string key;
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
  };
  void put(const std::string& key, std::string value);

  std::map<std::string, std::string> values_;
  std::vector<Waiter> waiters_;
};

}  // namespace tandem
