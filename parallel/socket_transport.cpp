#include <tandem/parallel/connect_members.h>
#include <tandem/parallel/socket_transport.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem {
namespace {

constexpr size_t kPieceBytes = 256 << 10, kPiecesInRing = 4;

std::shared_ptr<Descriptor> make_wake() {
  auto wake = std::make_shared<Descriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  check<CommError>(bool(*wake), "[sockets] an eventfd: ", std::strerror(errno));
  return wake;
}

std::span<const std::byte> bytes_of(const auto& value, size_t bytes) {
  return {reinterpret_cast<const std::byte*>(&value), bytes};
}

}  // namespace

SocketTransport::SocketTransport(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book,
                                 const std::string& address, const std::string& token)
    : membership_(membership),
      channel_(std::move(channel)),
      size_(int(channel_->members.size())),
      me_(channel_->rank),
      wake_(make_wake()),
      on_failure_(membership_.on_failure([wake = wake_] { ::eventfd_write(wake->get(), 1); })),
      peers_(size_t(size_)) {
  const Header none;
  const std::string what = message("connecting ", channel_->name, " by sockets at ", address);
  Wait wait(membership_, *channel_, none, what, membership_.timeout());
  try {
    auto sockets = connect_members(*channel_, book, address, token, wake_->get(), wait);
    for (int r = 0; r < size_; ++r) peer(r).socket = std::move(sockets[size_t(r)]);
  } catch (...) {
    membership_.remove_on_failure(on_failure_);
    throw;
  }
}

SocketTransport::~SocketTransport() { membership_.remove_on_failure(on_failure_); }

SocketTransport::Cleaner::~Cleaner() {
  for (Peer& p : transport.peers_) p.out.clear();
}

void SocketTransport::exchange(const Header& header, std::span<const Part> parts, Wait& wait) {
  active_.clear();
  for (int i = 1; i < size_; ++i) active_.push_back((me_ + i) % size_);
  swap(header, parts, wait);
}

void SocketTransport::transfer(const Header& header, int other, std::span<const std::byte> send,
                               std::span<std::byte> recv, Wait& wait) {
  active_ = {other};
  std::vector<Part> parts(static_cast<size_t>(size_));
  parts[size_t(other)] = {send, recv};
  swap(header, parts, wait);
}

// With all who are active.
void SocketTransport::swap(const Header& header, std::span<const Part> parts, Wait& wait) {
  Cleaner cleaner{*this};
  for (int r : active_) post(r, header, parts[size_t(r)].send, parts[size_t(r)].recv.size());
  begin(wait);
  for (int r : active_) {
    const auto recv = parts[size_t(r)].recv;
    peer(r).in = peer(r).expected;  // what came with the header
    if (peer(r).expected > 0) std::memcpy(recv.data(), peer(r).received.data, recv.size());
  }
  pump(
      wait, [&](int r) { return parts[size_t(r)].recv.subspan(peer(r).in); }, [](int) {},
      [&] {
        return std::all_of(active_.begin(), active_.end(),
                           [&](int r) { return peer(r).in == parts[size_t(r)].recv.size(); });
      });
}

// The large all_reduce: where the next bytes from a member go, and what to do when they are there.
class SocketTransport::Reducing {
 public:
  Reducing(SocketTransport& t, std::span<std::byte> data, const Reduction& reduction)
      : t_(t),
        data_(data),
        reduction_(reduction),
        item_(size_of(reduction.dtype)),
        mine_(share(t.me_)),
        pieces_((mine_.size() + kPieceBytes - 1) / kPieceBytes),
        sources_(size_t(t.size_)) {
    t_.ring_.resize(size_t(t_.size_) * kPiecesInRing * kPieceBytes);
  }

  std::span<std::byte> share(int member) const {
    const size_t n = data_.size() / item_;
    const size_t begin = share_begin(n, t_.size_, member), end = share_begin(n, t_.size_, member + 1);
    return data_.subspan(begin * item_, (end - begin) * item_);
  }

  void set_source(int member, const Header& h) {
    sources_[size_t(member)] = {nullptr, h.weight, h.weighted != 0, h.skip != 0};
  }

  // First come a member's values of this one's share, then the result of its own.
  std::span<std::byte> place(int r) const {
    const size_t in = t_.peer(r).in;
    if (in >= mine_.size()) return share(r).subspan(in - mine_.size());
    const size_t piece = in / kPieceBytes;
    if (piece >= reduced_ + kPiecesInRing) return {};
    const size_t at = in % kPieceBytes;
    return {in_ring(r, piece) + at, std::min(kPieceBytes - at, mine_.size() - in)};
  }

  // Reduces the pieces that all have sent, and sends them.
  void taken(Wait& wait) {
    while (reduced_ < pieces_) {
      const size_t at = reduced_ * kPieceBytes, bytes = std::min(kPieceBytes, mine_.size() - at);
      for (int r : t_.active_)
        if (t_.peer(r).in < at + bytes) return;
      std::byte* const own = mine_.data() + at;
      for (int r = 0; r < t_.size_; ++r) sources_[size_t(r)].values = r == t_.me_ ? own : in_ring(r, reduced_);
      reduce_slices(reduction_, sources_, own, bytes / item_);
      for (int r : t_.active_) {
        auto& out = t_.peer(r).out;
        // One span with the piece before it, if that has not gone yet.
        if (!out.empty() && out.back().data() + out.back().size() == own)
          out.back() = {out.back().data(), out.back().size() + bytes};
        else
          out.push_back({own, bytes});
      }
      ++reduced_;
      wait.advance();
    }
  }

  bool done() const {
    return reduced_ == pieces_ && std::all_of(t_.active_.begin(), t_.active_.end(),
                                              [&](int r) { return t_.peer(r).in == mine_.size() + share(r).size(); });
  }

 private:
  std::byte* in_ring(int member, size_t piece) const {
    return t_.ring_.data() + (size_t(member) * kPiecesInRing + piece % kPiecesInRing) * kPieceBytes;
  }

  SocketTransport& t_;
  const std::span<std::byte> data_;
  const Reduction& reduction_;
  const size_t item_;
  const std::span<std::byte> mine_;
  const size_t pieces_;
  size_t reduced_ = 0;
  std::vector<Source> sources_;
};

void SocketTransport::all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction,
                                 Wait& wait) {
  Cleaner cleaner{*this};
  active_.clear();
  for (int i = 1; i < size_; ++i) active_.push_back((me_ + i) % size_);
  if (data.size() <= kSmallBytes) {
    for (int r : active_) post(r, header, data, data.size());
    begin(wait);
    std::vector<Source> sources(static_cast<size_t>(size_));
    for (int r = 0; r < size_; ++r) {
      const Header& h = r == me_ ? header : peer(r).received.header;
      sources[size_t(r)] = {r == me_ ? data.data() : peer(r).received.data, h.weight, h.weighted != 0, h.skip != 0};
    }
    reduce_slices(reduction, sources, data.data(), data.size() / size_of(reduction.dtype));
    pump(
        wait, [](int) { return std::span<std::byte>(); }, [](int) {}, [] { return true; });
    return;
  }
  Reducing work(*this, data, reduction);
  for (int r : active_) post(r, header, work.share(r), 0);
  begin(wait);
  for (int r = 0; r < size_; ++r) work.set_source(r, r == me_ ? header : peer(r).received.header);
  for (int r : active_) peer(r).in = 0;
  work.taken(wait);  // alone, there is nothing to wait for
  pump(
      wait, [&](int r) { return work.place(r); }, [&](int) { work.taken(wait); }, [&] { return work.done(); });
}

// Queues this collective's header with its data; `expected` bytes will come from there.
void SocketTransport::post(int member, const Header& header, std::span<const std::byte> data, size_t expected) {
  Peer& p = peer(member);
  p.in = 0;
  p.expected = expected <= kSmallBytes ? expected : 0;
  p.sent.header = header;
  const bool small = data.size() <= kSmallBytes;
  if (small && !data.empty()) std::memcpy(p.sent.data, data.data(), data.size());
  p.out.push_back(bytes_of(p.sent, sizeof(Header) + (small ? data.size() : 0)));
  if (!small) p.out.push_back(data);
}

// Returns when the headers of all who are active have come, with what small data there is, and are this one's.
void SocketTransport::begin(Wait& wait) {
  wait.advance();
  auto awaited = [&](int r) { return sizeof(Header) + peer(r).expected - peer(r).in; };
  auto come = [&](int r) { return awaited(r) == 0; };
  for (;;) {
    bool moved = false;
    for (int r : active_) {
      moved |= push(r, wait);
      peer(r).wanted = !come(r);
      if (come(r)) continue;
      const size_t before = peer(r).in;
      std::byte* const message = reinterpret_cast<std::byte*>(&peer(r).received);
      moved |= pull(r, {message + before, awaited(r)}, wait) > 0;
      if (before < sizeof(Header) && peer(r).in >= sizeof(Header)) wait.require_match(r, peer(r).received.header);
    }
    if (std::all_of(active_.begin(), active_.end(), come)) break;
    if (!moved) idle(wait);
  }
  wait.advance();
}

// Sends what is queued and receives to where `place` says until both are done.
template <class Place, class Taken, class Done>
void SocketTransport::pump(Wait& wait, Place place, Taken taken, Done done) {
  for (;;) {
    bool moved = false, sent = true;
    for (int r : active_) {
      moved |= push(r, wait);
      const std::span<std::byte> to = place(r);
      peer(r).wanted = !to.empty();
      if (!to.empty() && pull(r, to, wait) > 0) {
        moved = true;
        taken(r);
      }
      sent &= peer(r).out.empty();
    }
    if (sent && done()) return;
    if (!moved) idle(wait);
  }
}

bool SocketTransport::push(int member, Wait& wait) {
  auto& out = peer(member).out;
  bool moved = false;
  while (!out.empty()) {
    const ssize_t n = ::send(peer(member).socket.get(), out.front().data(), out.front().size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) wait.broken(member, std::strerror(errno));
    moved = true;
    out.front() = out.front().subspan(size_t(n));
    if (!out.front().empty()) break;  // no more room
    out.pop_front();
  }
  return moved;
}

size_t SocketTransport::pull(int member, std::span<std::byte> to, Wait& wait) {
  Peer& p = peer(member);
  const ssize_t n = ::recv(p.socket.get(), to.data(), to.size(), 0);
  if (n == 0) wait.broken(member, "closed by the other side");
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) wait.broken(member, std::strerror(errno));
    return 0;
  }
  if (p.in / kPieceBytes != (p.in + size_t(n)) / kPieceBytes) wait.advance();
  p.in += size_t(n);
  return size_t(n);
}

// Sleeps until something can go on. Connections of which nothing is wanted are left out: their ends would wake it again
// and again.
void SocketTransport::idle(Wait& wait) {
  std::vector<pollfd> events{{wake_->get(), POLLIN, 0}};
  for (int r : active_) {
    const short e = short((peer(r).wanted ? POLLIN : 0) | (peer(r).out.empty() ? 0 : POLLOUT));
    if (e) events.push_back({peer(r).socket.get(), e, 0});
  }
  ::poll(events.data(), events.size(), int(wait.nap().count()));
  wait.check();
}

}  // namespace tandem
