#include <tandem/core/timeline.h>

#include <tandem/tandem.h>

#include <doctest/doctest.h>

#include <mutex>
#include <set>

using namespace tandem;

namespace {

struct Kept {
  TimelineEvent::Kind kind;
  std::string name, label;
  int rank;
  uint64_t begin, end;
  size_t bytes;
};
std::mutex mutex;
std::vector<Kept> kept;

void keep(const TimelineEvent& e) noexcept {
  std::lock_guard lock(mutex);
  kept.push_back({e.kind, std::string(e.name), std::string(e.label), e.rank, e.begin_ns, e.end_ns, e.bytes});
}

template <class F>
std::vector<Kept> events_of(F&& f) {
  kept.clear();
  TimelineSink before = set_timeline_sink(&keep);
  f();
  const bool mine = set_timeline_sink(before) == &keep;
  CHECK(mine);
  return kept;
}

}  // namespace

TEST_CASE("timeline: every kernel call, and nothing while nobody asks") {
  const auto events = events_of([] { relu(full({3}, -1)); });
  REQUIRE(events.size() == 2);
  CHECK(events[0].name == "fill_forward");
  CHECK(events[1].name == "relu_forward");
  CHECK(events[1].kind == TimelineEvent::Kind::kernel);
  CHECK(events[0].end <= events[1].begin);
  relu(full({3}, -1));
  CHECK(kept.size() == 2);
}

TEST_CASE("timeline: a backward's closures hold their kernels") {
  Tensor x = randn({4, 3}).set_requires_grad();
  Tensor y = sum(relu(x * 2.));
  const auto events = events_of([&] { y.backward(); });
  std::vector<std::string> closures;
  for (auto& c : events) {
    if (c.kind != TimelineEvent::Kind::closure) continue;
    closures.push_back(c.name);
    if (c.name == "relu")
      CHECK(std::any_of(events.begin(), events.end(), [&](auto& k) {
        return k.name == "relu_backward_data" && k.begin >= c.begin && k.end <= c.end;
      }));
  }
  CHECK(closures == std::vector<std::string>{"sum", "relu", "mul"});
}

TEST_CASE("timeline: collectives with their rank, label and bytes, asynchronous ones too") {
  const auto events = events_of([] {
    run_replicas(2, [](int) {
      Tensor t = ones({5});
      Communicator& c = current_process_group().communicator();
      c.all_reduce(t, {.label = "mine"});
      c.broadcast_async(t, 0).wait();
    });
  });
  std::multiset<std::string> seen;
  for (auto& e : events)
    if (e.kind == TimelineEvent::Kind::collective)
      seen.insert(message(e.rank, ' ', e.name, ' ', e.label, ' ', e.bytes));
  CHECK(seen == std::multiset<std::string>{"0 all_reduce mine 20", "1 all_reduce mine 20", "0 broadcast  20",
                                           "1 broadcast  20"});
}

TEST_CASE("timeline: an event ends also where its kernel throws") {
  const auto events = events_of([] {
    try {
      TimelineSpan span(TimelineEvent::Kind::kernel, "unlucky");
      throw Error("no");
    } catch (const Error&) {
    }
  });
  REQUIRE(events.size() == 1);
  CHECK(events[0].name == "unlucky");
  CHECK(events[0].begin <= events[0].end);
}
