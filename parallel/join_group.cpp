#include <tandem/core/log.h>
#include <tandem/parallel/join_group.h>
#include <tandem/parallel/rendezvous_file.h>
#include <tandem/parallel/store_group.h>
#include <tandem/parallel/store_server.h>
#include <tandem/parallel/token.h>

#include <algorithm>
#include <set>
#include <thread>

namespace tandem {
namespace {

using std::chrono::milliseconds;

// How long a rank tries to reach a master on loopback where the ranks are on several nodes: long enough for "nodes"
// that are one machine, and for others the advice comes before the deadline does.
constexpr milliseconds kLoopbackPatience{30'000};
// For a name to become known.
constexpr milliseconds kFirstNotice{2000}, kNotice{5000}, kPause{100};

// Numbers the groups that one rank of this process forms at one address.
class GroupNumber {
 public:
  explicit GroupNumber(std::string place) : place_(std::move(place)) {
    std::lock_guard lock(mutex());
    Numbers& n = numbers()[place_];
    if (n.given_back.empty()) {
      value_ = n.next++;
    } else {
      value_ = *n.given_back.begin();
      n.given_back.erase(n.given_back.begin());
    }
  }
  ~GroupNumber() {
    if (used_) return;
    std::lock_guard lock(mutex());
    numbers()[place_].given_back.insert(value_);
  }
  int64_t value() const { return value_; }
  void use() { used_ = true; }

 private:
  struct Numbers {
    int64_t next = 0;
    std::set<int64_t> given_back;
  };
  // Never destroyed: a group may end after static objects have.
  static std::mutex& mutex() {
    static auto& m = *new std::mutex;
    return m;
  }
  static std::map<std::string, Numbers>& numbers() {
    static auto& n = *new std::map<std::string, Numbers>;
    return n;
  }

  const std::string place_;
  int64_t value_ = 0;
  bool used_ = false;
};

// Whence the master can be reached: from its own machine alone or from others; unknown where its name is not known yet.
enum class Reach { own_machine, others, unknown };

Reach reach_of_master(const Rendezvous& r) {
  if (!r.file.empty() && r.rank != 0) return Reach::unknown;  // the file will tell
  try {
    return is_loopback(resolve(r.host, r.port)[0]) ? Reach::own_machine : Reach::others;
  } catch (const CommError&) {
    return Reach::unknown;
  }
}

// Returns when rank 0 knows its own address: a cluster's pods have their names a moment after they have started.
void await_own_name(const Rendezvous& r, Deadline deadline) {
  for (auto next_notice = Clock::now() + kFirstNotice;;) try {
      resolve(r.host, r.port);
      return;
    } catch (const CommError& e) {
      if (Clock::now() >= deadline) throw;
      if (Clock::now() >= next_notice) {
        next_notice = Clock::now() + kNotice;
        log(LogLevel::warning, message("[rendezvous] rank 0 waits for its own name: ", e.what()));
      }
      std::this_thread::sleep_for(std::min<Clock::duration>(kPause, deadline - Clock::now()));
    }
}

// What must be so where the ranks are, or may be, on several nodes. Said at once on each rank, not at the deadline.
void check_nodes(const Rendezvous& r, const std::string& token, Deadline deadline) {
  const Reach reach = reach_of_master(r);
  check<CommError>(
      !token.empty() || !(r.several_nodes || reach == Reach::others),
      "[rendezvous] the ranks may be on several nodes, and there is no token to keep strangers out: export "
      "TANDEM_TOKEN, any long random text, the same for all ranks");
  if (!r.several_nodes || reach != Reach::own_machine) return;
  log(LogLevel::warning, message("[rendezvous] the ranks are on several nodes, and the master's address, ", r.host,
                                 ", is loopback, each machine's own: only ranks of rank 0's machine can reach it. Set "
                                 "MASTER_ADDR to an address that all can"));
  if (r.rank == 0) return;
  const StoreAddress a{r.host, r.port};
  connect_to_store([&](std::string&) { return a; }, token, std::min(deadline, Clock::now() + kLoopbackPatience),
                   message("rank ", r.rank));
}

}  // namespace

std::unique_ptr<StoreMembership> join_group(const Rendezvous& r, TransportFactory transport, milliseconds timeout,
                                            milliseconds rendezvous_timeout) {
  const auto deadline = Clock::now() + rendezvous_timeout;
  StoreMembershipOptions o;
  o.rank = r.rank;
  o.size = r.world_size;
  o.ranks_of_process = r.ranks_of_process;
  o.token = token_from_environment();
  o.timeout = timeout;
  o.transport = std::move(transport);
  if (r.rank == 0) await_own_name(r, deadline);
  check_nodes(r, o.token, deadline);
  const std::string place = r.file.empty() ? message(r.host, ':', r.port) : r.file;
  GroupNumber number(message(place, " rank ", r.rank));
  o.group = group_number(r.restarts, number.value());

  if (r.rank == 0) {
    o.server = StoreServer::at(r.host, r.port, o.token);
    const StoreAddress here{o.server->host(), o.server->port(), o.server->identity()};
    if (!r.file.empty()) o.keep = std::make_shared<RendezvousFile>(r.file, here);
    o.locate = [here](std::string&) { return here; };
  } else if (r.file.empty()) {
    o.locate = [a = StoreAddress{r.host, r.port}](std::string&) { return a; };
  } else {
    o.locate = [file = r.file](std::string& why) { return RendezvousFile::read(file, why); };
  }
  o.rendezvous_timeout = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0));
  auto membership = std::make_unique<StoreMembership>(std::move(o));
  number.use();
  return membership;
}

}  // namespace tandem
