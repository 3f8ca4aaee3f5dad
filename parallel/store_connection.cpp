#include <tandem/core/error.h>
#include <tandem/core/log.h>
#include <tandem/parallel/store_connection.h>
#include <tandem/parallel/store_protocol.h>

#include <algorithm>
#include <thread>

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAttemptPause{1}, kLongestPause{100};
// Of one attempt to connect and be greeted; twice as long at each one, for a store that is far away or busy. Not long
// at first: where a listener is being closed, as one group's store is before the next one's, the system forgets a
// connection silently, and asks again after a whole second.
constexpr milliseconds kFirstAttempt{200}, kLongestAttempt{3000};
constexpr milliseconds kFirstNotice{2000}, kNotice{5000};

// Proves the token on a new connection. False, with the reason in `why`, where it is worth another try.
bool greet(int fd, const StoreAddress& a, const std::string& token, Deadline deadline, std::string& why) {
  StoreChallenge challenge;
  if (!recv_all(fd, &challenge, sizeof challenge, deadline)) {
    why = "no greeting: " + socket_error();
    return false;
  }
  const bool stale_is_possible = !a.identity.empty();
  if (challenge.magic != kStoreMagic) {
    why = "what listens there is not a store of Tandem";
    check<CommError>(stale_is_possible, "[store] ", a.host, ":", a.port, ": ", why);
    return false;
  }
  StoreAnswer answer;
  answer.nonce = make_nonce();
  answer.proof = prove(token, kClientRole, challenge.nonce, answer.nonce);
  StoreWelcome welcome;
  if (!send_all(fd, &answer, sizeof answer, deadline) || !recv_all(fd, &welcome, sizeof welcome, deadline)) {
    why = "no welcome: " + socket_error();
    return false;
  }
  const bool proved =
      welcome.accepted && same_proof(welcome.proof, prove(token, kServerRole, answer.nonce, challenge.nonce));
  if (!proved) {
    why = "its token is another one than ours: TANDEM_TOKEN must be the same for all ranks";
    check<CommError>(stale_is_possible, "[store] ", a.host, ":", a.port, ": ", why);
    return false;
  }
  if (stale_is_possible && to_hex(welcome.identity) != a.identity) {
    why = "another store has taken the place of the one that was announced";
    return false;
  }
  return true;
}

// One attempt at all of the host's addresses.
Descriptor attempt(const StoreAddress& a, const std::string& token, Deadline deadline, milliseconds time,
                   std::string& why) try {
  for (const SocketAddress& address : resolve(a.host, a.port)) {
    const Deadline until = std::min(deadline, Clock::now() + time);
    Descriptor fd = connect_to(address, until, why);
    if (fd && greet(fd.get(), a, token, until, why)) return fd;
  }
  return {};
} catch (const CommError& e) {
  // A name may become known later, as those of a cluster's pods do.
  if (std::string_view(e.what()).starts_with("[store]")) throw;
  why = e.what();
  return {};
}

// Advice for an address that only its own machine can reach.
std::string advice(const StoreAddress& a) try {
  if (!is_loopback(resolve(a.host, a.port)[0])) return {};
  return "; this address is each machine's own: if the ranks run on several, give one that all can reach";
} catch (const CommError&) {
  return {};
}

}  // namespace

Descriptor connect_to_store(const LocateStore& locate, const std::string& token, Deadline deadline,
                            const std::string& who) {
  const auto begin = Clock::now();
  auto next_notice = begin + kFirstNotice;
  auto pause = kAttemptPause, time = kFirstAttempt;
  for (;;) {
    std::string why;
    const auto tried_at = Clock::now();
    const std::optional<StoreAddress> a = locate(why);
    if (a)
      if (Descriptor fd = attempt(*a, token, deadline, time, why)) return fd;
    const std::string where = a ? message(" at ", a->host, ":", a->port) : "";
    const auto now = Clock::now();
    if (now >= deadline)
      throw CommError(message("[rendezvous] ", who, ": rank 0's store", where, " could not be reached within ",
                              double(std::chrono::duration_cast<milliseconds>(now - begin).count()) / 1000, " s (", why,
                              ")", a ? advice(*a) : ""),
                      0);
    if (now >= next_notice) {
      next_notice = now + kNotice;
      log(LogLevel::warning, message("[rendezvous] ", who, " waits for rank 0's store", where, " (", why, ")"));
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
    pause = std::min(pause * 2, kLongestPause);
    if (now - tried_at >= time) time = std::min(time * 2, kLongestAttempt);
  }
}

}  // namespace tandem
