// libtandem_mpi: collectives by MPI's messages between pairs. Each rank reduces its share in the order of the ranks, as
// with the other transports: MPI_Iallreduce promises no order, and so not the same bits. Requests are polled, under the
// deadline and the verdict of a Wait.
//
// MPI sees no memory but this transport's. A request that is under way when a collective fails may never end, and needs
// its memory until it does: that is then kept for good.
#include <tandem/parallel/copy_bytes.h>
#include <tandem/parallel/mpi/mpi_process.h>
#include <tandem/parallel/mpi_plugin.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <thread>

namespace tandem {
namespace {

constexpr size_t kSmallBytes = 4096;  // that travel with the header
constexpr size_t kSlots = 4;          // for pieces of what does not, to a member and from it
// A piece's size: with many members less, so that one of each takes so much at most.
constexpr size_t kMostBytes = 256 << 10, kLeastBytes = 16 << 10, kAllPieces = 8 << 20;
// A wait that moves nothing gives its core away so often before it sleeps.
constexpr int kYields = 2000;
constexpr std::chrono::microseconds kSleep{50};

// How data is cut.
struct Cut {
  size_t bytes;  // of a piece
  explicit Cut(int members) : bytes(std::clamp(kAllPieces / size_t(members), kLeastBytes, kMostBytes) / 4096 * 4096) {}

  size_t pieces_of(size_t all) const { return (all + bytes - 1) / bytes; }
  template <class Byte>
  std::span<Byte> piece(std::span<Byte> all, size_t k) const {
    const size_t at = std::min(all.size(), k * bytes);
    return all.subspan(at, std::min(bytes, all.size() - at));
  }
};

// Pieces on their way to a member, or from it, in their order.
struct Flow {
  size_t begun = 0;  // requests
  size_t over = 0;   // of them
  size_t taken = 0;  // of those that came, used: their slots are free
  std::vector<std::byte> memory;
  std::array<MpiRequest, kSlots> requests;

  MpiRequest& request(size_t k) { return requests[k % kSlots]; }
  std::byte* slot(size_t k, const Cut& cut) {
    memory.resize(kSlots * cut.bytes);  // at the first use
    return memory.data() + k % kSlots * cut.bytes;
  }
};

struct Greeting {
  Header header;
  std::byte data[kSmallBytes];
};

struct Peer {
  int process = 0;  // its MPI rank
  int to_tag = 0, from_tag = 0;
  Greeting sent, received;
  MpiRequest sending, receiving;
  Flow out, in;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book)
      : membership_(membership),
        channel_(std::move(channel)),
        size_(int(channel_->members.size())),
        me_(channel_->rank),
        cut_(size_),
        peers_(static_cast<size_t>(size_)) {
    const Header none;
    const std::string what = message("connecting ", channel_->name, " by MPI");
    Wait wait(membership_, *channel_, none, what, membership_.timeout());
    mpi_ = &MpiProcess::get(wait);
    find_members(book, wait);
    mpi_->transport_begins();
  }
  ~MpiTransport() override;

  void exchange(const Header& header, std::span<const Part> parts, Wait& wait) override {
    all_take_part();
    swap(header, parts, wait);
  }
  void transfer(const Header& header, int other, std::span<const std::byte> send, std::span<std::byte> recv,
                Wait& wait) override {
    active_ = {other};
    std::vector<Part> parts(peers_.size());
    parts[size_t(other)] = {send, recv};
    swap(header, parts, wait);
  }
  void all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) override;

 private:
  enum class Step { none, some, all };

  void find_members(AddressBook& book, Wait& wait);
  void all_take_part();
  void swap(const Header& header, std::span<const Part> parts, Wait& wait);
  void reduce_shares(std::span<std::byte> data, const Reduction& reduction, std::vector<Source>& sources, Wait& wait);
  void post(int member, const Header& header, std::span<const std::byte> data, Wait& wait);
  void begin(Wait& wait);
  template <class Outgoing, class Incoming, class Take>
  void pump(Wait& wait, Outgoing outgoing, Incoming incoming, Take take);
  template <class Incoming>
  bool receive(int member, Incoming incoming, Wait& wait);
  template <class Outgoing>
  bool send(int member, Outgoing outgoing, Wait& wait);
  void finish(Wait& wait);
  template <class F>
  static void poll(Wait& wait, F step);
  template <class F>
  static auto attempt(int member, Wait& wait, F call) {
    try {
      return call();
    } catch (const CommError& e) {
      wait.broken(member, e.what());
    }
  }
  bool over(int member, MpiRequest& request, Wait& wait) const {
    return attempt(member, wait, [&] { return mpi_->over(request); });
  }
  Peer& peer(int member) { return peers_[size_t(member)]; }

  Membership& membership_;
  const std::shared_ptr<Channel> channel_;
  const int size_, me_;
  const Cut cut_;
  std::vector<Peer> peers_;  // by member
  std::vector<int> active_;  // who takes part in this collective, but for this one
  MpiProcess* mpi_ = nullptr;
};

MpiTransport::~MpiTransport() {
  auto over = [&](MpiRequest& r) {
    try {
      return mpi_->over(r);
    } catch (const CommError&) {
      return false;
    }
  };
  const bool idle = std::all_of(peers_.begin(), peers_.end(), [&](Peer& p) {
    return over(p.sending) && over(p.receiving) && std::all_of(p.in.requests.begin(), p.in.requests.end(), over) &&
           std::all_of(p.out.requests.begin(), p.out.requests.end(), over);
  });
  if (!idle) new std::vector<Peer>(std::move(peers_));
  mpi_->transport_ends(idle && !membership_.failed() && std::uncaught_exceptions() == 0, membership_.timeout());
}

// Each says which job it is of, its MPI rank, and the first of the tags at which it receives, one for each member.
void MpiTransport::find_members(AddressBook& book, Wait& wait) {
  auto key = [&](int member) { return message("mpi/", channel_->name, '/', member); };
  const int own_tags = mpi_->take_tags(peers_.size());
  book.put(key(me_), message(mpi_->job(), ' ', mpi_->rank(), ' ', own_tags));
  for (int r = 0; r < size_; ++r) {
    if (r == me_) continue;
    std::istringstream text(book.get(key(r), wait));
    const int rank = channel_->members[size_t(r)];
    std::string job;
    int tags = 0;
    check<CommError>(bool(text >> job >> peer(r).process >> tags), "[mpi] rank ", rank, " does not say where it is: '",
                     text.str(), "'");
    check<CommError>(job == mpi_->job(), "[mpi] rank ", rank, " is not of the MPI job of rank ", membership_.rank(),
                     ": start all ranks by one mpirun");
    peer(r).to_tag = tags + me_;
    peer(r).from_tag = own_tags + r;
  }
}

void MpiTransport::all_take_part() {
  active_.clear();
  for (int i = 1; i < size_; ++i) active_.push_back((me_ + i) % size_);
}

// With all who are active.
void MpiTransport::swap(const Header& header, std::span<const Part> parts, Wait& wait) {
  auto large = [](auto data) { return data.size() > kSmallBytes ? data : data.first(0); };
  for (int r : active_) {
    const auto send = parts[size_t(r)].send;
    post(r, header, send.size() > kSmallBytes ? send.first(0) : send, wait);
  }
  begin(wait);
  for (int r : active_)
    if (const auto recv = parts[size_t(r)].recv; !recv.empty() && recv.size() <= kSmallBytes)
      std::memcpy(recv.data(), peer(r).received.data, recv.size());
  pump(
      wait, [&](int r, size_t k) { return cut_.piece(large(parts[size_t(r)].send), k); },
      [&](int r, size_t k) { return cut_.piece(large(parts[size_t(r)].recv), k).size(); },
      [&] {
        for (int r : active_)
          for (Flow& in = peer(r).in; in.taken < in.over; ++in.taken) {
            const auto to = cut_.piece(parts[size_t(r)].recv, in.taken);
            copy_bytes(to.data(), in.slot(in.taken, cut_), to.size());
            wait.advance();
          }
      });
  finish(wait);
}

void MpiTransport::all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) {
  all_take_part();
  const bool small = data.size() <= kSmallBytes;
  for (int r : active_) post(r, header, small ? data : data.first(0), wait);
  begin(wait);
  std::vector<Source> sources(peers_.size());
  for (int r = 0; r < size_; ++r) {
    const Header& h = r == me_ ? header : peer(r).received.header;
    sources[size_t(r)] = {r == me_ ? data.data() : peer(r).received.data, h.weight, h.weighted != 0, h.skip != 0};
  }
  if (small)
    reduce_slices(reduction, sources, data.data(), data.size() / size_of(reduction.dtype));
  else
    reduce_shares(data, reduction, sources, wait);
  finish(wait);
}

// To each member go its share of the values, and then the results of this one's.
void MpiTransport::reduce_shares(std::span<std::byte> data, const Reduction& reduction, std::vector<Source>& sources,
                                 Wait& wait) {
  const size_t item = size_of(reduction.dtype), elements = data.size() / item;
  auto share = [&](int r) {
    const size_t from = share_begin(elements, size_, r) * item, to = share_begin(elements, size_, r + 1) * item;
    return data.subspan(from, to - from);
  };
  const auto mine = share(me_);
  const size_t pieces = cut_.pieces_of(mine.size());
  size_t reduced = 0;
  auto reduce = [&] {  // the pieces that all have sent
    auto come = [&](int r) { return peer(r).in.over > reduced; };
    for (; reduced < pieces && std::all_of(active_.begin(), active_.end(), come); ++reduced) {
      const auto own = cut_.piece(mine, reduced);
      for (int r = 0; r < size_; ++r)
        sources[size_t(r)].values = r == me_ ? own.data() : peer(r).in.slot(reduced, cut_);
      reduce_slices(reduction, sources, own.data(), own.size() / item);
      for (int r : active_) ++peer(r).in.taken;
      wait.advance();
    }
  };
  auto collect = [&] {  // the results of the others' shares, which follow their values
    for (int r : active_)
      for (Flow& in = peer(r).in; in.taken >= pieces && in.taken < in.over; ++in.taken) {
        const auto to = cut_.piece(share(r), in.taken - pieces);
        copy_bytes(to.data(), in.slot(in.taken, cut_), to.size());
        wait.advance();
      }
  };
  reduce();  // alone, there is nothing to wait for
  pump(
      wait,
      [&](int r, size_t k) -> std::span<const std::byte> {
        const size_t values = cut_.pieces_of(share(r).size());
        if (k < values) return cut_.piece(share(r), k);
        if (k - values < reduced) return cut_.piece(mine, k - values);
        return {};
      },
      [&](int r, size_t k) {
        return k < pieces ? cut_.piece(mine, k).size() : cut_.piece(share(r), k - pieces).size();
      },
      [&] {
        reduce();
        collect();
      });
}

// This collective's header goes to a member, with its small data.
void MpiTransport::post(int member, const Header& header, std::span<const std::byte> data, Wait& wait) {
  Peer& p = peer(member);
  p.sent.header = header;
  p.in.begun = p.in.over = p.in.taken = p.out.begun = p.out.over = 0;
  if (!data.empty()) std::memcpy(p.sent.data, data.data(), data.size());
  attempt(member, wait, [&] {
    mpi_->receive(std::as_writable_bytes(std::span(&p.received, 1)), p.process, p.from_tag, p.receiving);
    mpi_->send(std::as_bytes(std::span(&p.sent, 1)).first(sizeof(Header) + data.size()), p.process, p.to_tag,
               p.sending);
  });
}

// Returns when the headers of all who are active have come, and are this one's.
void MpiTransport::begin(Wait& wait) {
  wait.advance();
  std::vector<int> awaited = active_;
  poll(wait, [&] {
    const size_t come = std::erase_if(awaited, [&](int r) {
      if (!over(r, peer(r).receiving, wait)) return false;
      wait.require_match(r, peer(r).received.header);
      return true;
    });
    return awaited.empty() ? Step::all : come > 0 ? Step::some : Step::none;
  });
  wait.advance();
}

// Moves pieces both ways until all are over. outgoing(r, k) is the k-th to a member, empty where it is not there yet,
// or there are no more; incoming(r, k) is how long the k-th from it is, 0 past the last. take() uses what has come;
// when all has been used, there is no more to be sent than what outgoing gives then.
template <class Outgoing, class Incoming, class Take>
void MpiTransport::pump(Wait& wait, Outgoing outgoing, Incoming incoming, Take take) {
  poll(wait, [&] {
    bool moved = false, all = true;
    for (int r : active_) moved |= receive(r, incoming, wait);
    if (moved) take();
    for (int r : active_) {
      moved |= send(r, outgoing, wait);
      const Flow &in = peer(r).in, &out = peer(r).out;
      all &= in.taken == in.begun && incoming(r, in.begun) == 0 && out.over == out.begun;
    }
    return all ? Step::all : moved ? Step::some : Step::none;
  });
}

template <class Incoming>
bool MpiTransport::receive(int member, Incoming incoming, Wait& wait) {
  Peer& p = peer(member);
  Flow& in = p.in;
  while (in.begun < in.taken + kSlots) {
    const size_t bytes = incoming(member, in.begun);
    if (bytes == 0) break;
    attempt(member, wait, [&] {
      mpi_->receive({in.slot(in.begun, cut_), bytes}, p.process, p.from_tag, in.request(in.begun));
    });
    ++in.begun;
  }
  const size_t before = in.over;
  while (in.over < in.begun && over(member, in.request(in.over), wait)) ++in.over;
  return in.over > before;
}

template <class Outgoing>
bool MpiTransport::send(int member, Outgoing outgoing, Wait& wait) {
  Peer& p = peer(member);
  Flow& out = p.out;
  bool moved = false;
  for (; out.over < out.begun && over(member, out.request(out.over), wait); ++out.over) moved = true;
  while (out.begun < out.over + kSlots) {
    const std::span<const std::byte> next = outgoing(member, out.begun);
    if (next.empty()) break;
    copy_bytes(out.slot(out.begun, cut_), next.data(), next.size());
    attempt(member, wait, [&] {
      mpi_->send({out.slot(out.begun, cut_), next.size()}, p.process, p.to_tag, out.request(out.begun));
    });
    ++out.begun;
    moved = true;
  }
  return moved;
}

// Returns when this one's headers have gone.
void MpiTransport::finish(Wait& wait) {
  poll(wait, [&] {
    auto gone = [&](int r) { return over(r, peer(r).sending, wait); };
    return std::all_of(active_.begin(), active_.end(), gone) ? Step::all : Step::none;
  });
}

template <class F>
void MpiTransport::poll(Wait& wait, F step) {
  int idle = 0;
  for (Step s; (s = step()) != Step::all;) {
    if (s == Step::some) {
      idle = 0;
      continue;
    }
    wait.check();
    if (++idle < kYields)
      ::sched_yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace
}  // namespace tandem

extern "C" std::unique_ptr<tandem::Transport> tandem_connect_by_mpi(tandem::Membership& membership,
                                                                    std::shared_ptr<tandem::Channel> channel,
                                                                    tandem::AddressBook& book) {
  return std::make_unique<tandem::MpiTransport>(membership, std::move(channel), book);
}
