#include <tandem/parallel/copy_bytes.h>
#include <tandem/parallel/list_ranks.h>
#include <tandem/parallel/shm_transport.h>
#include <tandem/parallel/swap_descriptors.h>

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tandem {
namespace {

// About 30 us. Where members share cores a spin takes the core from the one it waits for.
constexpr int kSpins = 2000, kSpinsOnSharedCores = 20;

bool reached(const std::atomic<uint32_t>& count, uint32_t value) {
  return int32_t(count.load(std::memory_order_acquire) - value) >= 0;
}

// The k-th piece of so many bytes; empty past the end.
template <class Byte>
std::span<Byte> piece(std::span<Byte> all, size_t bytes, size_t k) {
  const size_t at = std::min(all.size(), k * bytes);
  return all.subspan(at, std::min(bytes, all.size() - at));
}

}  // namespace

// What one pair of members exchanges, piece by piece.
struct ShmTransport::Stream {
  int peer = 0;
  std::span<const std::byte> send;
  std::byte* out[2] = {};  // in the own memory
  size_t out_bytes = 0;    // of a piece
  std::span<std::byte> recv;
  const std::byte* in[2] = {};  // in the peer's memory
  size_t in_bytes = 0;
};

ShmTransport::ShmTransport(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book)
    : membership_(membership),
      channel_(std::move(channel)),
      size_(int(channel_->members.size())),
      me_(channel_->rank),
      own_(SharedMemory::make(ShmRegion::bytes(size_))),
      regions_(size_t(size_), ShmRegion(own_.data(), size_)),
      transfers_(size_t(size_)),
      sources_(size_t(size_)) {
  mine().make();
  ShmControl& control = mine().control();
  control.process = ::getpid();
  ::sched_getaffinity(0, sizeof control.cpus, &control.cpus);
  life_.emplace(control.life);
  closing_.emplace(control);

  const Header none;
  const std::string what = message("connecting ", channel_->name, " by shared memory");
  Wait wait(membership_, *channel_, none, what, membership_.timeout());
  auto given = swap_descriptors(own_.descriptor(), *channel_, book, wait);
  own_.close_descriptor();
  others_.reserve(size_t(size_));
  for (int r = 0; r < size_; ++r) {
    if (r == me_) continue;
    others_.push_back(SharedMemory::open(std::move(given[size_t(r)]), own_.size()));
    regions_[size_t(r)] = ShmRegion(others_.back().data(), size_);
  }

  cpu_set_t together;
  CPU_ZERO(&together);
  for (auto& region : regions_) CPU_OR(&together, &together, &region.control().cpus);
  spins_ = size_ <= CPU_COUNT(&together) ? kSpins : kSpinsOnSharedCores;
}

ShmTransport::Closing::~Closing() {
  control.closed.store(1, std::memory_order_release);
  control.door.ring();
  control.door.wake();
}

void ShmTransport::exchange(const Header& header, std::span<const Part> parts, Wait& wait) {
  std::span<const std::byte> sent;  // the first there is
  bool alike = true;
  for (const Part& p : parts) {
    if (p.send.empty()) continue;
    if (sent.empty()) sent = p.send;
    alike &= p.send.data() == sent.data() && p.send.size() == sent.size();
  }
  ++collectives_;
  mine().control().alike[parity()] = alike;
  bool written = false;
  for (int r = 0; r < size_; ++r) {
    const auto send = parts[size_t(r)].send;
    if (r == me_ || send.size() > small_slot(alike) || (alike && written)) continue;
    copy_bytes(mine().small(parity()) + (alike ? 0 : place(r, me_) * small_slot(false)), send.data(), send.size());
    written = !send.empty();
  }
  begin(header, wait);

  std::vector<Stream> streams;
  for (int i = 1; i < size_; ++i) {
    const int r = (me_ + i) % size_;  // not all from the same one first
    const ShmRegion& theirs = regions_[size_t(r)];
    const bool all_alike = theirs.control().alike[parity()];
    const Part& part = parts[size_t(r)];
    Stream s;
    s.peer = r;
    s.out_bytes = window_slot(alike);
    s.in_bytes = window_slot(all_alike);
    if (part.send.size() > small_slot(alike)) s.send = part.send;
    if (part.recv.size() > small_slot(all_alike))
      s.recv = part.recv;
    else
      copy_bytes(part.recv.data(), theirs.small(parity()) + (all_alike ? 0 : place(me_, r) * small_slot(false)),
                 part.recv.size());
    for (unsigned w : {0u, 1u}) {
      s.out[w] = mine().window(w) + (alike ? 0 : place(r, me_) * s.out_bytes);
      s.in[w] = theirs.window(w) + (all_alike ? 0 : place(me_, r) * s.in_bytes);
    }
    if (!s.send.empty() || !s.recv.empty()) streams.push_back(s);
  }
  run(streams, alike, wait);
}

void ShmTransport::all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) {
  ++collectives_;
  const bool small = data.size() <= kShmSmallBytes;
  if (small && !header.skip) copy_bytes(mine().small(parity()), data.data(), data.size());
  begin(header, wait);
  for (int r = 0; r < size_; ++r) {
    const Header& h = regions_[size_t(r)].control().headers[parity()];
    sources_[size_t(r)] = {nullptr, h.weight, h.weighted != 0, h.skip != 0};
  }
  if (small) {
    reduce_small(data, reduction);
    return;
  }
  const size_t window_bytes = kShmWindowBytes / size_of(reduction.dtype) * size_of(reduction.dtype);
  auto window = [&](unsigned k) { return Window{piece(data, window_bytes, k), size_of(reduction.dtype), k & 1}; };
  auto fill_own = [&](const Window& w) {
    if (!header.skip) fill(w);
  };
  fill_own(window(0));
  for (unsigned k = 0; k * window_bytes < data.size(); ++k) {
    tell_step(wait);
    await_step(wait);
    reduce(window(k), reduction);
    tell_step(wait);
    // While the others are at their shares. The other window is free: they told this step after they had read it.
    fill_own(window(k + 1));
    await_step(wait);
    collect(window(k));
  }
}

void ShmTransport::transfer(const Header& header, int peer, std::span<const std::byte> send, std::span<std::byte> recv,
                            Wait& wait) {
  const ShmRegion& theirs = regions_[size_t(peer)];
  ShmLane& lane = mine().lane(peer);
  const ShmLane& their_lane = theirs.lane(me_);
  const uint32_t number = ++transfers_[size_t(peer)];
  partner_ = peer;
  lane.headers[number & 1] = header;
  lane.transfers.store(number, std::memory_order_release);
  ring(wait);
  await(peer, wait, [&] { return reached(their_lane.transfers, number); });
  wait.require_match(peer, their_lane.headers[number & 1]);

  const Stream s{peer,
                 send,
                 {mine().transfer_window(0), mine().transfer_window(1)},
                 kShmTransferBytes,
                 recv,
                 {theirs.transfer_window(0), theirs.transfer_window(1)},
                 kShmTransferBytes};
  run({&s, 1}, false, wait);
  // The next one may be with another member, and finds the windows free.
  await(peer, wait, [&] { return reached(their_lane.taken, lane.sent.load()); });
  partner_ = -1;
}

size_t ShmTransport::small_slot(bool alike) const {
  return alike ? kShmSmallBytes : kShmSmallBytes / size_t(size_ - 1) / 64 * 64;
}

size_t ShmTransport::window_slot(bool alike) const {
  return alike ? kShmWindowBytes : kShmWindowBytes / size_t(size_ - 1) / 64 * 64;
}

// Tells what is asked for here, and returns when all members ask for the same. They have then also left the collective
// before, and nobody reads this one's windows.
void ShmTransport::begin(const Header& header, Wait& wait) {
  ShmControl& control = mine().control();
  partner_ = -1;
  control.headers[parity()] = header;
  control.begun.store(collectives_, std::memory_order_release);
  ring(wait);
  for (int r = 0; r < size_; ++r)
    if (r != me_) await(r, wait, [&] { return reached(regions_[size_t(r)].control().begun, collectives_); });
  for (int r = 0; r < size_; ++r)
    if (r != me_) wait.require_match(r, regions_[size_t(r)].control().headers[parity()]);
}

void ShmTransport::reduce_small(std::span<std::byte> data, const Reduction& reduction) {
  for (int r = 0; r < size_; ++r)
    sources_[size_t(r)].values = r == me_ ? data.data() : regions_[size_t(r)].small(parity());
  reduce_slices(reduction, sources_, data.data(), data.size() / size_of(reduction.dtype));
}

// What others reduce goes into the own window.
void ShmTransport::fill(const Window& w) {
  for (int r = 0; r < size_; ++r)
    if (r != me_) copy_bytes(mine().window(w.parity) + begin_of(w, r), w.data.data() + begin_of(w, r), bytes_of(w, r));
}

void ShmTransport::reduce(const Window& w, const Reduction& reduction) {
  const size_t at = begin_of(w, me_), bytes = bytes_of(w, me_);
  std::byte* const own = mine().window(w.parity) + at;
  for (int r = 0; r < size_; ++r)
    sources_[size_t(r)].values = (r == me_ ? w.data.data() : regions_[size_t(r)].window(w.parity)) + at;
  reduce_slices(reduction, sources_, own, bytes / w.item);
  copy_bytes(w.data.data() + at, own, bytes);
}

void ShmTransport::collect(const Window& w) {
  for (int i = 1; i < size_; ++i) {
    const int r = (me_ + i) % size_;
    copy_bytes(w.data.data() + begin_of(w, r), regions_[size_t(r)].window(w.parity) + begin_of(w, r), bytes_of(w, r));
  }
}

void ShmTransport::tell_step(Wait& wait) {
  mine().control().steps.store(++steps_, std::memory_order_release);
  ring(wait);
}

// All members have come this far.
void ShmTransport::await_step(Wait& wait) {
  for (int r = 0; r < size_; ++r)
    if (r != me_) await(r, wait, [&] { return reached(regions_[size_t(r)].control().steps, steps_); });
}

// `alike`: all that is sent is the same and goes to one place.
void ShmTransport::run(std::span<const Stream> streams, bool alike, Wait& wait) {
  struct Counts {
    uint32_t sent, taken;
  };
  std::vector<Counts> before;
  for (const Stream& s : streams) before.push_back({mine().lane(s.peer).sent.load(), mine().lane(s.peer).taken.load()});
  for (uint32_t k = 0;; ++k) {
    bool over = true, written = false;
    for (size_t i = 0; i < streams.size(); ++i) {
      const Stream& s = streams[i];
      if (piece(s.send, s.out_bytes, k).empty()) continue;
      // Piece k - 2 was in the same window.
      const ShmLane& theirs = regions_[size_t(s.peer)].lane(me_);
      await(s.peer, wait, [&] { return reached(theirs.taken, before[i].sent + k - 1); });
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const Stream& s = streams[i];
      const auto p = piece(s.send, s.out_bytes, k);
      if (p.empty()) continue;
      if (!alike || !written) copy_bytes(s.out[k & 1], p.data(), p.size());
      written = true;
      mine().lane(s.peer).sent.store(before[i].sent + k + 1, std::memory_order_release);
    }
    if (written) ring(wait);
    for (size_t i = 0; i < streams.size(); ++i) {
      const Stream& s = streams[i];
      const auto p = piece(s.recv, s.in_bytes, k);
      if (p.empty()) continue;
      over = false;
      const ShmLane& theirs = regions_[size_t(s.peer)].lane(me_);
      await(s.peer, wait, [&] { return reached(theirs.sent, before[i].taken + k + 1); });
      copy_bytes(p.data(), s.in[k & 1], p.size());
      mine().lane(s.peer).taken.store(before[i].taken + k + 1, std::memory_order_release);
      ring(wait);
    }
    if (over && !written) return;
  }
}

// Everything stored before is seen by those who wake.
void ShmTransport::ring(Wait& wait) {
  wait.advance();
  const Door& door = mine().control().door;
  mine().control().door.ring();
  for (int r = 0; r < size_; ++r)
    if (r != me_ && regions_[size_t(r)].control().sleeper.sleeps_at(me_)) {
      door.wake();
      return;
    }
}

template <class Ready>
void ShmTransport::await(int member, Wait& wait, Ready ready) {
  const ShmControl& control = regions_[size_t(member)].control();
  wait_at(control.door, member, mine().control().sleeper, spins_, ready, [&] {
    // A member that has closed its end may have had a cause, and one that has gone on has done its part before: what
    // came first is looked at last.
    const bool closed = control.closed.load(std::memory_order_acquire);
    look_after_members();
    wait.check();
    const Header* other = elsewhere(member);
    if (ready()) return;
    if (other) wait.require_match(member, *other);
    if (closed) wait.broken(member, "it has closed its end");
  });
}

// What a member asks for that is here waited for in vain: in a collective its transfer with this one, in a transfer its
// collective. Null where that is not so.
const Header* ShmTransport::elsewhere(int member) const {
  const ShmRegion& theirs = regions_[size_t(member)];
  if (partner_ >= 0)
    return reached(theirs.control().begun, collectives_ + 1) ? &theirs.control().headers[(collectives_ + 1) & 1]
                                                             : nullptr;
  const uint32_t next = transfers_[size_t(member)] + 1;
  return reached(theirs.lane(me_).transfers, next) ? &theirs.lane(me_).headers[next & 1] : nullptr;
}

void ShmTransport::look_after_members() {
  auto process_of = [&](int member) { return regions_[size_t(member)].control().process; };
  int first = -1;
  bool several = false;  // processes
  for (int r = size_ - 1; r >= 0; --r)
    if (r != me_ && dead(r)) {
      several |= first >= 0 && process_of(r) != process_of(first);
      first = r;
    }
  if (first < 0) return;
  std::vector<int> ranks;  // of that process, whose threads end one after the other
  for (int r = 0; r < size_; ++r)
    if (process_of(r) == process_of(first)) ranks.push_back(channel_->members[size_t(r)]);
  if (several) {
    // The verdict knows whose death was the first, and the cause of the others'.
    const auto until = Clock::now() + std::chrono::milliseconds(300);
    while (!membership_.failed() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const int rank = channel_->members[size_t(first)];
  const std::string why = message(list_ranks(ranks), ranks.size() > 1 ? " have died: their" : " has died: its",
                                  " process has ended without leaving the group");
  membership_.fail(rank, why);
  // To those, too, who don't see it from here, and before this rank's own departure.
  membership_.report(rank, why);
}

}  // namespace tandem
