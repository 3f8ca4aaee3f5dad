#include <tandem/parallel/communicator.h>
#include <tandem/parallel/thread_transport.h>

#include <algorithm>
#include <cstring>

namespace tandem {
namespace {

// A wait begins by looking this often: most are short, but whoever is waited for may need this core.
constexpr int kLooks = 200;
constexpr std::chrono::milliseconds kNapAfterFailure{1};

void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

ThreadTransport::ThreadTransport(Membership& membership, const Channel& channel, std::shared_ptr<ThreadHub> hub)
    : membership_(membership),
      me_(size_t(channel.rank)),
      size_(channel.members.size()),
      hub_(std::move(hub)),
      on_failure_(membership.on_failure([h = hub_] {
        std::lock_guard lock(h->mutex);
        h->changed.notify_all();
      })) {}

ThreadTransport::~ThreadTransport() { membership_.remove_on_failure(on_failure_); }

void ThreadTransport::announce(std::atomic<uint64_t>& mark, uint64_t value) {
  mark.store(value);
  wake();
}

void ThreadTransport::wake() {
  if (hub_->sleepers.load() == 0) return;  // a sleeper counts itself before it looks at the mark for the last time
  std::lock_guard lock(hub_->mutex);
  hub_->changed.notify_all();
}

template <class Ready, class Check>
void ThreadTransport::sleep_until(Ready ready, Check check, Wait& wait) {
  for (int i = 0; i < kLooks; ++i)
    if (ready()) return;
  for (;;) {
    check();
    std::unique_lock lock(hub_->mutex);
    ++hub_->sleepers;
    const bool over = ready();
    // After a failure nobody need wake this one any more.
    if (!over) hub_->changed.wait_for(lock, membership_.failed() ? kNapAfterFailure : wait.nap());
    --hub_->sleepers;
    if (over || ready()) return;
  }
}

template <class Ready, class Look>
void ThreadTransport::await(Ready ready, Look elsewhere, Wait& wait) {
  auto check = [&] {
    wait.check();
    // A member may have done its part and gone on in between: what it did first is looked at last.
    if (const Elsewhere e = elsewhere(); e.asks_for && !ready()) wait.require_match(int(e.member), *e.asks_for);
  };
  sleep_until(ready, check, wait);
}

ThreadTransport::Elsewhere ThreadTransport::in_transfer() const {
  for (size_t r = 0; r < size_; ++r) {
    if (r == me_) continue;
    if (const auto& m = hub_->mail(r, me_); m.waits_for_receiver()) return {r, &m.header};
    if (const auto& m = hub_->mail(me_, r); m.waits_for_sender()) return {r, &m.wanted_header};
  }
  return {};
}

ThreadTransport::Elsewhere ThreadTransport::in_collective(size_t other) const {
  const ThreadHub::Slot& theirs = hub_->slots[other];
  if (theirs.come.load() <= meeting_) return {};
  return {other, &theirs.offers[(meeting_ + 1) & 1].header};
}

bool ThreadTransport::withdraw(uint64_t begins) {
  uint64_t n = hub_->arrivals.load();
  do {
    if (n & ThreadHub::kWithdrawn) return true;
    if (n >= begins) return false;
  } while (!hub_->arrivals.compare_exchange_weak(n, n | ThreadHub::kWithdrawn));
  wake();
  return true;
}

void ThreadTransport::meet(Wait& wait) {
  const uint64_t begins = meeting_ * size_;
  uint64_t n = hub_->arrivals.load();
  do {
    if (n & ThreadHub::kWithdrawn) wait.withdrawn();
  } while (!hub_->arrivals.compare_exchange_weak(n, n + 1));
  announce(hub_->slots[me_].come, meeting_);
  try {
    await([&] { return hub_->arrivals.load() >= begins; }, [&] { return in_transfer(); }, wait);
  } catch (...) {
    if (withdraw(begins)) throw;
  }
  if ((hub_->arrivals.load() & ~ThreadHub::kWithdrawn) < begins) wait.withdrawn();
  for (size_t r = 0; r < size_; ++r) wait.require_match(int(r), offer(r).header);
  wait.advance();
}

// Everyone who has arrived gets here without anybody's help, so neither verdict nor deadline need end this wait; ending
// it would let go of memory that another still reads.
void ThreadTransport::pass(Mark mark, Wait& wait) {
  announce(hub_->slots[me_].*mark, meeting_);
  for (size_t r = 0; r < size_; ++r)
    sleep_until([&] { return (hub_->slots[r].*mark).load() >= meeting_; }, [] {}, wait);
  wait.advance();
}

void ThreadTransport::exchange(const Header& header, std::span<const Part> parts, Wait& wait) {
  ++meeting_;
  offer(me_).header = header;
  offer(me_).parts = parts.data();
  meet(wait);
  for (size_t k = 1; k < size_; ++k) {
    const size_t r = (me_ + k) % size_;
    copy(parts[r].recv, offer(r).parts[me_].send);
  }
  pass(&ThreadHub::Slot::done, wait);
}

void ThreadTransport::all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction,
                                 Wait& wait) {
  ++meeting_;
  const bool small = data.size() <= ThreadHub::kSmall;
  ThreadHub::Offer& mine = offer(me_);
  mine.header = header;
  mine.data = small ? mine.small.data() : data.data();
  if (small) copy(mine.small, data);
  meet(wait);

  const size_t width = size_of(reduction.dtype), n = header.elements;
  auto sources = [&](size_t from) {
    std::vector<Source> s(size_);
    for (size_t r = 0; r < size_; ++r) {
      const Header& h = offer(r).header;
      s[r] = {offer(r).data + from * width, h.weight, h.weighted != 0, h.skip != 0};
    }
    return s;
  };
  if (small) {  // the others may be a meeting ahead by now, and leave theirs in the other place
    reduce_slices(reduction, sources(0), data.data(), n);
    return;
  }
  auto share = [&](size_t r) {
    const size_t begin = share_begin(n, int(size_), int(r)), end = share_begin(n, int(size_), int(r) + 1);
    return std::pair(begin * width, (end - begin) * width);
  };
  const auto [begin, bytes] = share(me_);
  reduce_slices(reduction, sources(begin / width), data.data() + begin, bytes / width);
  pass(&ThreadHub::Slot::reduced, wait);
  for (size_t k = 1; k < size_; ++k) {
    const size_t r = (me_ + k) % size_;
    const auto [at, length] = share(r);
    copy(data.subspan(at, length), {offer(r).data + at, length});
  }
  pass(&ThreadHub::Slot::done, wait);
}

void ThreadTransport::transfer(const Header& header, int peer, std::span<const std::byte> data, std::span<std::byte> to,
                               Wait& wait) {
  if (Collective::Kind(header.kind) == Collective::Kind::send)
    send(header, size_t(peer), data, wait);
  else
    recv(header, size_t(peer), to, wait);
}

void ThreadTransport::send(const Header& header, size_t to, std::span<const std::byte> data, Wait& wait) {
  const uint64_t posted = 3 * header.sequence, taken = posted + 2;
  ThreadHub::Mail& m = hub_->mail(me_, to);
  m.header = header;
  m.data = data;
  announce(m.state, posted);
  auto elsewhere = [&] {
    const ThreadHub::Mail& back = hub_->mail(to, me_);
    return back.waits_for_receiver() ? Elsewhere{to, &back.header} : in_collective(to);
  };
  try {
    await([&] { return m.state.load() == taken; }, elsewhere, wait);
  } catch (...) {
    uint64_t unclaimed = posted;
    if (!m.state.compare_exchange_strong(unclaimed, posted | ThreadHub::kWithdrawn))
      sleep_until([&] { return m.state.load() == taken; }, [] {}, wait);  // being read: it won't take long
    throw;
  }
}

void ThreadTransport::recv(const Header& header, size_t from, std::span<std::byte> data, Wait& wait) {
  const uint64_t posted = 3 * header.sequence, claimed = posted + 1, taken = posted + 2;
  ThreadHub::Mail& m = hub_->mail(from, me_);
  m.wanted_header = header;
  announce(m.wanted, header.sequence);
  auto elsewhere = [&] {
    const ThreadHub::Mail& back = hub_->mail(me_, from);
    return back.waits_for_sender() ? Elsewhere{from, &back.wanted_header} : in_collective(from);
  };
  await([&] { return (m.state.load() & ~ThreadHub::kWithdrawn) >= posted; }, elsewhere, wait);
  wait.require_match(int(from), m.header);
  uint64_t offered = posted;
  if (!m.state.compare_exchange_strong(offered, claimed)) wait.withdrawn();
  copy(data, m.data);
  announce(m.state, taken);
}

}  // namespace tandem
