/// Not installed. StoreMembership: membership of a group of processes, by a store that rank 0's process serves. Each
/// rank holds a connection to it for as long as the group lives, a lifeline: its end without a goodbye is a death, for
/// which the store issues the one verdict. Heartbeats go along it, and serve the blame at a deadline alone.
#pragma once
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/store_connection.h>

namespace tandem {

class FrameReader;
class StoreClient;
class StoreMembership;
class StoreServer;
enum class StoreOp : uint8_t;

/// Makes the way to a channel's other members. Collective among them.
using TransportFactory = std::function<std::unique_ptr<Transport>(StoreMembership&, const std::shared_ptr<Channel>&)>;

struct StoreMembershipOptions {
  int rank = 0;
  int size = 1;
  int ranks_of_process = 1;  // neighbours, all of them threads of it
  int64_t group = 0;         // its number among those at this address
  LocateStore locate;
  std::shared_ptr<StoreServer> server = nullptr;  // on rank 0
  std::string token = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(5);             // of collectives
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5);  // until all have joined
  TransportFactory transport = nullptr;
  std::shared_ptr<void> keep = nullptr;  // what must last as long as the group
};

class TANDEM_API StoreMembership : public Membership, public AddressBook {
 public:
  /// Returns when all ranks have joined. Throws CommError naming those who have not come by the deadline, or what the
  /// ranks contradict each other in.
  explicit StoreMembership(StoreMembershipOptions options);
  /// Says goodbye, unless `leave` has. Rank 0 then keeps the store up for a second at most, for those who still need
  /// it.
  ~StoreMembership() override;

  std::unique_ptr<Transport> connect(const std::shared_ptr<Channel>& channel) override;
  bool has_judge() const override;
  void expired(const Channel& channel, const std::string& what) override { ask(channel, what, false); }
  void require_alive(const Channel& channel, const std::string& what) override { ask(channel, what, true); }

  /// The group's own keys.
  void put(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Wait& wait) override;

  /// Says goodbye: the others may go on without this rank as long as they don't need it, and are told the reason where
  /// they do.
  void leave(const std::string& reason) override;

  /// The number of this machine's address by which it reaches the master.
  const std::string& local_host() const { return local_host_; }

 private:
  void on_verdict(int culprit, const std::string& why) override;
  void tell_all(int culprit, const std::string& why) override;
  void ask(const Channel& channel, const std::string& what, bool only_for_silence);
  void join();
  void begin();
  void check_rendezvous() const;
  void interrupt_client();
  void told(StoreOp op, FrameReader& body);
  void connection_ended(const std::string& why);
  void beat();
  [[noreturn]] static void store_is_gone();
  void shut_down(const std::string& reason);

  const StoreMembershipOptions options_;
  const int exceptions_;  // under way when it was made
  std::string local_host_;
  std::unique_ptr<StoreClient> client_;

  mutable std::mutex state_mutex_;
  bool joined_ = false, left_ = false, master_left_ = false;
  std::string why_ended_;                   // the connection, where it has
  std::optional<Clock::time_point> asked_;  // the store, which has not answered yet
  std::string asked_for_;
  std::map<uint32_t, std::pair<uint64_t, uint32_t>>
      told_;  // what the last beat of each channel said; the client's thread's own
};

}  // namespace tandem
