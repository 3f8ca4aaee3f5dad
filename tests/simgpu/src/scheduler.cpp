#include "scheduler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include "executor.h"
#include "running.h"
#include "settings.h"
#include "timeline.h"

namespace simgpu {
namespace {

using Clock = std::chrono::steady_clock;

enum class Order { lazy, highest, lowest, shuffled };
enum class Eagerness { none, all, some };

// Seeds 0 to 3 show the four orders, nothing run before it is asked for, or all, or some; twelve show all pairs.
Order order() { return Order(settings().seed % 4); }
Eagerness eagerness() {
  constexpr uint64_t first[] = {0, 0, 1, 2};
  return Eagerness((first[size_t(order())] + settings().seed / 4) % 3);
}

// The stream whose work the target waits for, following its events: so nothing runs that nobody asked for.
Stream* needed_by(const Stream* target) {
  const auto& all = streams();
  const auto found = std::find(all.begin(), all.end(), target);  // else it has been forgotten since
  Stream* s = found == all.end() ? nullptr : *found;
  for (size_t hops = 0; s && hops <= all.size(); ++hops) {
    if (s->queue.empty()) return nullptr;
    const Recording& awaited = s->queue.front()->waits_for;
    if (awaited.reached()) return s;
    s = recorder_of(awaited);
  }
  return nullptr;
}

bool before(const Stream* a, const Stream* b) {
  switch (order()) {
    case Order::highest: return a->lane > b->lane;
    case Order::lazy:
    case Order::lowest: return a->lane < b->lane;
    case Order::shuffled: break;
  }
  return a->rank < b->rank;
}

void finish(Stream& s, const Item& item) {
  s.ready_us = item.end_us;
  if (Event* e = item.records.event.get()) {
    e->completed = std::max(e->completed, item.records.count);
    e->time_us = item.end_us;
  }
}

// One step of one stream; false where none can go on.
bool step(const Stream* target) {
  std::vector<Stream*> candidates;
  for (Stream* s : streams())
    if (!s->queue.empty() && s->queue.front()->waits_for.reached()) candidates.push_back(s);
  std::sort(candidates.begin(), candidates.end(), before);
  if (order() == Order::shuffled && !candidates.empty() && random_below(4) == 0)
    std::swap(candidates.front(), candidates[random_below(uint32_t(candidates.size()))]);
  if (order() == Order::lazy)
    if (const auto first = std::find(candidates.begin(), candidates.end(), needed_by(target));
        first != candidates.end())
      std::rotate(candidates.begin(), first, first + 1);
  for (Stream* s : candidates) {
    const auto item = s->queue.front();
    item->begin_us = std::max(item->begin_us, s->ready_us);
    if (const Event* e = item->waits_for.event.get()) item->begin_us = std::max(item->begin_us, e->time_us);
    const Step step = run_item(*item);
    if (step == Step::blocked) continue;
    if (step == Step::done) {
      finish(*s, *item);
      s->queue.pop_front();
    }
    return true;
  }
  return false;
}

bool some_wait_for_peers() {
  const auto& all = streams();
  return std::any_of(all.begin(), all.end(), [](const Stream* s) {
    return std::any_of(s->queue.begin(), s->queue.end(), [](const auto& i) { return i->operation.waits_for_peers; });
  });
}

// Peers in other threads signal what they queue; those in other processes have to be asked.
std::condition_variable_any& queued() {
  static auto& c = *new std::condition_variable_any;
  return c;
}

// A rank that has queued a collective, and does something else, must not keep its peers waiting: a device would not.
std::atomic<bool> peers_wait{false};
constexpr auto kLookAfterPeers = std::chrono::milliseconds(20);

void look_after_peers() {
  for (;;) {
    std::this_thread::sleep_for(kLookAfterPeers);
    if (!peers_wait || !runtime_mutex().try_lock()) continue;
    std::lock_guard lock(runtime_mutex(), std::adopt_lock);
    run_on_executor([] {
      while (step(nullptr)) {
      }
    });
    peers_wait = some_wait_for_peers();
    forget_finished_streams();
  }
}

}  // namespace

void work_was_queued(const Item& item) {
  start_executor();
  if (item.operation.waits_for_peers) {
    [[maybe_unused]] static const bool looked_after = [] {
      std::thread(look_after_peers).detach();
      return true;
    }();
    peers_wait = true;
    queued().notify_all();
  }
  const uint32_t steps = eagerness() == Eagerness::all ? ~0u : eagerness() == Eagerness::some ? random_below(3) : 0;
  if (steps == 0) return;
  run_on_executor([&] {
    for (uint32_t i = 0; i < steps && step(nullptr); ++i) {
    }
  });
}

void advance(const Stream* target) {
  const uint32_t steps = 1 + random_below(2);
  run_on_executor([&] {
    for (uint32_t i = 0; i < steps && step(target); ++i) {
    }
  });
  forget_finished_streams();
}

void drain(const std::function<bool()>& done, const Stream* target, const char* what) {
  auto progress = Clock::now();
  while (!done()) {
    run_on_executor([&] {
      for (; !done() && step(target); progress = Clock::now()) {
      }
    });
    if (done()) break;
    if (!some_wait_for_peers()) fail("%s waits for work that can never run", what);
    if (Clock::now() - progress > std::chrono::duration<double>(settings().peer_timeout_s))
      fail("%s has waited %.0f s for a collective whose peers don't come", what, settings().peer_timeout_s);
    queued().wait_for(runtime_mutex(), std::chrono::microseconds(100));
  }
  forget_finished_streams();
}

void wait_for_stream(const Stream& s, const char* what) {
  drain([&] { return s.queue.empty(); }, &s, what);
  host_waited_for(s.clock);
  host_waits_until(s.ready_us);
}

void wait_for_device(int device, const char* what) {
  auto work_of_device = [&](const Stream* s) { return s->device == device && !s->queue.empty(); };
  VectorClock all;
  for (const Stream* s : streams())
    if (s->device == device) all.join(s->clock);
  drain([&] { return std::none_of(streams().begin(), streams().end(), work_of_device); }, nullptr, what);
  host_waited_for(all);
  for (const Stream* s : streams())
    if (s->device == device) host_waits_until(s->ready_us);
}

}  // namespace simgpu
