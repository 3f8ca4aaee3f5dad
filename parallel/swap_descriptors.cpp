#include <tandem/parallel/log_limiter.h>
#include <tandem/parallel/swap_descriptors.h>
#include <tandem/parallel/token.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>

namespace tandem {
namespace {

constexpr size_t kNameBytes = 32, kMaxCalls = 64;
constexpr int kRetryMs = 5;

// What a member puts into the address book. The name of its listener can be seen by every process of the machine, the
// secret by members alone.
struct Card {
  std::string name;  // hexadecimal
  Nonce secret{};
};

// What travels with a descriptor.
struct Greeting {
  Nonce secret;
  int32_t member;
};

// A connection on which a greeting is awaited.
struct Call {
  Descriptor socket;
  int expected = -1;  // the member that was called; -1 where somebody has called here
};

struct Address {
  sockaddr_un value{};
  socklen_t size;
  // Abstract: no file that could be left behind.
  explicit Address(const std::string& name) : size(socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), name.size());
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&value); }
};

Descriptor unix_socket() {
  Descriptor s(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check<CommError>(bool(s), "[shared memory] a unix socket: ", std::strerror(errno));
  return s;
}

bool same_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

union Control {
  char bytes[CMSG_SPACE(sizeof(int))] = {};
  cmsghdr aligned;
};

bool send(const Descriptor& socket, Greeting greeting, const Descriptor& given) {
  Control control;
  iovec data{&greeting, sizeof greeting};
  msghdr m{};
  m.msg_iov = &data;
  m.msg_iovlen = 1;
  m.msg_control = control.bytes;
  m.msg_controllen = sizeof control.bytes;
  cmsghdr* h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = given.get();
  std::memcpy(CMSG_DATA(h), &fd, sizeof fd);
  return ::sendmsg(socket.get(), &m, MSG_NOSIGNAL) == ssize_t(sizeof greeting);
}

struct Received {
  Greeting greeting{};
  Descriptor given;
  bool whole = false;
};

Received receive(const Descriptor& socket) {
  Received r;
  Control control;
  iovec data{&r.greeting, sizeof r.greeting};
  msghdr m{};
  m.msg_iov = &data;
  m.msg_iovlen = 1;
  m.msg_control = control.bytes;
  m.msg_controllen = sizeof control.bytes;
  const ssize_t got = ::recvmsg(socket.get(), &m, MSG_CMSG_CLOEXEC);
  const cmsghdr* h = got > 0 ? CMSG_FIRSTHDR(&m) : nullptr;
  if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(h), sizeof fd);
    r.given = Descriptor(fd);
  }
  r.whole = got == ssize_t(sizeof r.greeting) && r.given && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  return r;
}

class Swap {
 public:
  Swap(const Descriptor& own, const Channel& channel, Wait& wait)
      : own_(own),
        channel_(channel),
        wait_(wait),
        size_(int(channel.members.size())),
        missing_(size_ - 1),
        given_(size_t(size_)) {}

  std::vector<Descriptor> run(AddressBook& book) {
    auto key = [&](int member) { return message("memory/", channel_.name, "/", member); };
    const Card mine{to_hex(make_nonce()).substr(0, kNameBytes), make_nonce()};
    listener_ = unix_socket();
    Address address(mine.name);
    check<CommError>(::bind(listener_.get(), address.get(), address.size) == 0 && ::listen(listener_.get(), 256) == 0,
                     "[shared memory] a unix socket: ", std::strerror(errno));
    book.put(key(channel_.rank), mine.name + std::string(mine.secret.begin(), mine.secret.end()));
    cards_.resize(size_t(size_));
    cards_[size_t(channel_.rank)] = mine;
    for (int r = 0; r < size_; ++r) {
      if (r == channel_.rank) continue;
      const std::string text = book.get(key(r), wait_);
      check<CommError>(text.size() == kNameBytes + sizeof(Nonce), "[shared memory] member ", r, " of ", channel_.name,
                       " has put ", text.size(), " bytes into the address book, expected ", kNameBytes + sizeof(Nonce));
      Card& card = cards_[size_t(r)];
      card.name = text.substr(0, kNameBytes);
      std::copy(text.begin() + kNameBytes, text.end(), card.secret.begin());
    }
    for (int r = 0; r < channel_.rank; ++r) call(r);  // the higher one calls
    while (missing_ > 0) answer();
    return std::move(given_);
  }

 private:
  Greeting greeting() const { return {cards_[size_t(channel_.rank)].secret, channel_.rank}; }

  void call(int member) {
    Call c{unix_socket(), member};
    Address address(cards_[size_t(member)].name);
    while (::connect(c.socket.get(), address.get(), address.size) != 0) {
      if (errno != EAGAIN && errno != EINTR) wait_.broken(member, message("a unix socket: ", std::strerror(errno)));
      ::poll(nullptr, 0, kRetryMs);  // its queue is full
      wait_.check();
    }
    if (!same_user(c.socket)) wait_.broken(member, "its unix socket is another user's");
    if (!send(c.socket, greeting(), own_)) wait_.broken(member, message("a unix socket: ", std::strerror(errno)));
    calls_.push_back(std::move(c));
  }

  // One round of whatever has come.
  void answer() {
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
    for (auto& c : calls_) events.push_back({c.socket.get(), POLLIN, 0});
    ::poll(events.data(), events.size(), int(std::min<int64_t>(wait_.nap().count(), 100)));
    wait_.check();
    auto event = events.begin() + 1;
    for (auto c = calls_.begin(); c != calls_.end(); ++event)
      if (event->revents) {
        take(*c);
        c = calls_.erase(c);
      } else {
        ++c;
      }
    if (events[0].revents) accept();
  }

  void accept() {
    Descriptor s(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!s) return;
    if (!same_user(s)) {
      log_.warn("[shared memory] another user's process was turned away");
      return;
    }
    // Of those who call and say nothing the oldest goes.
    auto silent = [](const Call& c) { return c.expected < 0; };
    if (size_t(std::count_if(calls_.begin(), calls_.end(), silent)) >= std::max(kMaxCalls, 2 * given_.size()))
      calls_.erase(std::find_if(calls_.begin(), calls_.end(), silent));
    calls_.push_back({std::move(s), -1});
  }

  void take(const Call& c) {
    Received r = receive(c.socket);
    const int member = r.greeting.member;
    const bool known = r.whole && member >= 0 && member < size_ && member != channel_.rank &&
                       (c.expected < 0 ? member > channel_.rank : member == c.expected) && !given_[size_t(member)] &&
                       same_proof(cards_[size_t(member)].secret, r.greeting.secret);
    if (c.expected >= 0 && !known) wait_.broken(c.expected, "it has closed its unix socket");
    if (!known) {
      log_.warn("[shared memory] a process that is no member was turned away");
      return;
    }
    if (c.expected < 0 && !send(c.socket, greeting(), own_))
      wait_.broken(member, message("a unix socket: ", std::strerror(errno)));
    given_[size_t(member)] = std::move(r.given);
    --missing_;
  }

  const Descriptor& own_;
  const Channel& channel_;
  Wait& wait_;
  const int size_;
  int missing_;
  Descriptor listener_;
  LogLimiter log_;
  std::vector<Card> cards_;
  std::list<Call> calls_;
  std::vector<Descriptor> given_;
};

}  // namespace

std::vector<Descriptor> swap_descriptors(const Descriptor& own, const Channel& channel, AddressBook& book, Wait& wait) {
  return Swap(own, channel, wait).run(book);
}

}  // namespace tandem
