#include <tandem/parallel/connect_members.h>
#include <tandem/parallel/log_limiter.h>
#include <tandem/parallel/tcp_socket.h>
#include <tandem/parallel/token.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>

namespace tandem {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMagic = 0x61746144'6d646e54;  // "TndmData"
constexpr size_t kMaxStrangers = 64;
constexpr milliseconds kGreetingTime{3000}, kAttempt{1000}, kPause{20};

// Of both directions. Only loopback has larger ones, as large as a new connection's window: a window that is not quite
// free then holds the sender up until it asks again, for 200 ms.
constexpr int kSegmentBytes = 16 << 10;

// What both ends send first. The proof follows when the other's has come.
struct Hello {
  uint64_t magic = kMagic;
  Nonce nonce{};
  int32_t member = 0;
  uint32_t channel = 0;
};

struct Call {
  Descriptor socket;
  int member = -1;  // the one that was called; -1 where somebody calls, until it has said who it is
  bool outgoing = false;
  Hello mine;
  char in[sizeof(Hello) + sizeof(Proof)] = {};
  size_t received = 0;
  bool proof_sent = false;
  Clock::time_point until;
};

bool send_whole(const Descriptor& socket, const void* data, size_t bytes) {
  // A new connection has room for it.
  return ::send(socket.get(), data, bytes, MSG_NOSIGNAL) == ssize_t(bytes);
}

// Within a machine there is no congestion to control, and BBR, where that is the system's choice, takes waiting for a
// core for a slow line.
void suit_to_path(const Descriptor& socket) {
  constexpr std::string_view kControl = "reno";  // always there
  if (host_of(local_address(socket.get())) == host_of(remote_address(socket.get())))
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, kControl.data(), socklen_t(kControl.size()));
}

class Connector {
 public:
  Connector(const Channel& channel, AddressBook& book, const std::string& token, int wake, Wait& wait)
      : channel_(channel), book_(book), token_(token), wake_(wake), wait_(wait), me_(channel.rank) {
    found_.resize(channel.members.size());
    addresses_.resize(found_.size());
    next_attempt_.resize(found_.size());
  }

  std::vector<Descriptor> run(const std::string& address) {
    listener_ = listen_at(resolve(address, 0).front());
    ::setsockopt(listener_.get(), IPPROTO_TCP, TCP_MAXSEG, &kSegmentBytes, sizeof kSegmentBytes);
    const SocketAddress own = local_address(listener_.get());
    book_.put(key(me_), message(host_of(own), ' ', port_of(own)));
    for (int r = 0; r < me_; ++r) addresses_[size_t(r)] = look_up(r);
    while (missing()) {
      for (int r = 0; r < me_; ++r) call(r);
      answer();
    }
    return std::move(found_);
  }

 private:
  std::string key(int member) const { return message("data/", channel_.name, '/', member); }

  SocketAddress look_up(int member) {
    const std::string text = book_.get(key(member), wait_);
    const size_t space = text.find(' ');
    check<CommError>(space != text.npos, "[sockets] member ", member, " of ", channel_.name,
                     " has put no address into the address book: '", text, "'");
    return resolve(text.substr(0, space), std::stoi(text.substr(space + 1))).front();
  }

  bool missing() const {
    for (size_t r = 0; r < found_.size(); ++r)
      if (int(r) != me_ && !found_[r]) return true;
    return false;
  }

  void call(int member) {
    auto& next = next_attempt_[size_t(member)];
    if (found_[size_t(member)] || Clock::now() < next) return;
    if (std::any_of(calls_.begin(), calls_.end(), [&](const Call& c) { return c.outgoing && c.member == member; }))
      return;
    std::string why;
    Call c;
    c.socket = connect_to(addresses_[size_t(member)], Clock::now() + std::min(kAttempt, wait_.nap()), why);
    next = Clock::now() + kPause;
    wait_.check();
    if (!c.socket) return;
    c.member = member;
    c.outgoing = true;
    greet(std::move(c));
  }

  void greet(Call c) {
    c.mine.nonce = make_nonce();
    c.mine.member = me_;
    c.mine.channel = channel_.id;
    c.until = Clock::now() + kGreetingTime;
    if (send_whole(c.socket, &c.mine, sizeof c.mine)) calls_.push_back(std::move(c));
  }

  // One round of whatever has come.
  void answer() {
    std::vector<pollfd> events{{wake_, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (auto& c : calls_) events.push_back({c.socket.get(), POLLIN, 0});
    ::poll(events.data(), events.size(), int(std::min(wait_.nap(), kPause).count()));
    wait_.check();
    const auto now = Clock::now();
    auto event = events.begin() + 2;
    for (auto c = calls_.begin(); c != calls_.end(); ++event) {
      const bool goes_on = event->revents ? take(*c) : now < c->until;
      if (!goes_on && c->member < 0)
        log_.warn(message("[sockets] a connection that proved no token was closed by ", channel_.name));
      c = goes_on ? std::next(c) : calls_.erase(c);
    }
    if (events[1].revents) accept();
  }

  void accept() {
    auto stranger = [](const Call& c) { return !c.outgoing; };
    const auto strangers = size_t(std::count_if(calls_.begin(), calls_.end(), stranger));
    if (strangers >= std::max(kMaxStrangers, 2 * found_.size()))
      calls_.erase(std::find_if(calls_.begin(), calls_.end(), stranger));
    Call c;
    c.socket = accept_at(listener_.get());
    if (c.socket) {
      greet(std::move(c));
    } else if ((errno == EMFILE || errno == ENFILE) && strangers > 0) {
      calls_.erase(std::find_if(calls_.begin(), calls_.end(), stranger));
    }
  }

  Proof proof(bool of_caller, int caller, int listener, const Nonce& challenge, const Nonce& own) const {
    return prove(token_,
                 message(of_caller ? "data caller " : "data listener ", caller, ' ', listener, ' ', channel_.name),
                 challenge, own);
  }

  // Reads what has come on a call. False where the call is over: turned away, cut off, or become a connection.
  bool take(Call& c) {
    const ssize_t got = ::recv(c.socket.get(), c.in + c.received, sizeof c.in - c.received, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    c.received += size_t(got);
    if (c.received < sizeof(Hello)) return true;
    Hello theirs;
    std::memcpy(&theirs, c.in, sizeof theirs);
    const bool plausible =
        theirs.magic == kMagic && theirs.channel == channel_.id &&
        (c.outgoing ? theirs.member == c.member : theirs.member > me_ && theirs.member < int(found_.size()));
    if (!plausible) return false;
    const int caller = c.outgoing ? me_ : theirs.member, listener = c.outgoing ? theirs.member : me_;
    auto mine = [&] { return proof(c.outgoing, caller, listener, theirs.nonce, c.mine.nonce); };
    // The caller proves first.
    if (c.outgoing && !c.proof_sent && !send_proof(c, mine())) return false;
    if (c.received < sizeof c.in) return true;
    Proof given;
    std::memcpy(&given, c.in + sizeof(Hello), sizeof given);
    if (!same_proof(given, proof(!c.outgoing, caller, listener, c.mine.nonce, theirs.nonce))) return false;
    if (!c.proof_sent && !send_proof(c, mine())) return false;
    // Where there is one already, it was cut off on the other side.
    c.member = theirs.member;
    suit_to_path(c.socket);
    found_[size_t(c.member)] = std::move(c.socket);
    return false;
  }

  static bool send_proof(Call& c, const Proof& proof) {
    c.proof_sent = true;
    return send_whole(c.socket, &proof, sizeof proof);
  }

  const Channel& channel_;
  AddressBook& book_;
  const std::string& token_;
  const int wake_;
  Wait& wait_;
  const int me_;
  Descriptor listener_;
  std::list<Call> calls_;
  LogLimiter log_;
  std::vector<Descriptor> found_;
  std::vector<SocketAddress> addresses_;
  std::vector<Clock::time_point> next_attempt_;
};

}  // namespace

std::vector<Descriptor> connect_members(const Channel& channel, AddressBook& book, const std::string& address,
                                        const std::string& token, int wake, Wait& wait) {
  return Connector(channel, book, token, wake, wait).run(address);
}

}  // namespace tandem
