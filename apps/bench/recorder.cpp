#include "apps/bench/recorder.h"

#include <tandem/tandem.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

namespace tandem::bench {
namespace {

std::mutex mutex;
std::vector<Event> recorded;
std::atomic<bool> on{false};

// Whom the calling thread works for.
std::string this_one(int rank) {
  const Context& c = context();
  if (c.replica) return message("replica ", c.replica->index);
  if (c.process_group) return message("rank ", c.process_group->rank());
  return rank >= 0 ? message("rank ", rank) : "caller";
}

void take(const TimelineEvent& e) noexcept {
  static constexpr const char* kKinds[] = {"kernel", "closure", "collective"};
  Recorder::add({this_one(e.rank), Recorder::this_thread(), kKinds[size_t(e.kind)], std::string(e.name),
                 std::string(e.label), int64_t(e.begin_ns), int64_t(e.end_ns), e.bytes});
}

using Span = std::pair<int64_t, int64_t>;

// Sorted and disjoint.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> all;
  for (auto& s : spans) {
    if (!all.empty() && s.first <= all.back().second)
      all.back().second = std::max(all.back().second, s.second);
    else
      all.push_back(s);
  }
  return all;
}

double length(const std::vector<Span>& spans) {
  int64_t ns = 0;
  for (auto& s : spans) ns += s.second - s.first;
  return double(ns) * 1e-6;
}

double overlap(const std::vector<Span>& a, const std::vector<Span>& b) {
  int64_t ns = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t from = std::max(a[i].first, b[j].first), to = std::min(a[i].second, b[j].second);
    if (from < to) ns += to - from;
    a[i].second < b[j].second ? ++i : ++j;
  }
  return double(ns) * 1e-6;
}

bool communicates(const Event& e) { return e.kind == "collective" || e.kind == "delay"; }

}  // namespace

int Recorder::this_thread() {
  static std::atomic<int> threads{0};
  thread_local const int mine = threads++;
  return mine;
}

void Recorder::start() {
  on = true;
  set_timeline_sink(&take);
}

void Recorder::stop() {
  set_timeline_sink(nullptr);
  on = false;
}

void Recorder::add(Event e) {
  if (!on) return;
  std::lock_guard lock(mutex);
  recorded.push_back(std::move(e));
}

std::vector<Event> Recorder::events(const std::string& who, int64_t begin_ns, int64_t end_ns) {
  std::vector<Event> some;
  {
    std::lock_guard lock(mutex);
    for (auto& e : recorded)
      if ((who.empty() || e.who == who) && e.begin_ns >= begin_ns && e.end_ns <= end_ns) some.push_back(e);
  }
  std::stable_sort(some.begin(), some.end(), [](auto& a, auto& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  return some;
}

void Recorder::clear() {
  std::lock_guard lock(mutex);
  recorded.clear();
}

int64_t now_ns() { return int64_t(detail::now_ns()); }

Phase::Phase(const char* name) : name_(name), begin_ns_(now_ns()) {}
Phase::~Phase() { Recorder::add({this_one(-1), Recorder::this_thread(), "phase", name_, {}, begin_ns_, now_ns(), 0}); }

StepSplit split_of(const std::vector<Event>& events) {
  StepSplit split;
  double step = 0;
  std::set<std::string> replicas;
  int64_t step_begin = 0;
  for (auto& e : events) {
    const double ms = double(e.end_ns - e.begin_ns) * 1e-6;
    if (e.who.starts_with("replica")) replicas.insert(e.who);
    if (communicates(e)) split.bytes += e.bytes;
    if (e.kind != "phase") continue;
    if (e.name == "data") split.data += ms;
    if (e.name == "forward") split.forward += ms;
    if (e.name == "backward") split.backward += ms;
    if (e.name == "optimizer") split.optimizer += ms;
    if (e.name != "step") continue;
    step = ms;
    step_begin = e.begin_ns;
  }
  if (step > 0) {  // a whole step within the replicas: forward is what comes before a replica's first closure
    double forward = 0;
    for (auto& r : replicas) {
      auto first =
          std::find_if(events.begin(), events.end(), [&](auto& e) { return e.who == r && e.kind == "closure"; });
      if (first != events.end()) forward += double(first->begin_ns - step_begin) * 1e-6 / double(replicas.size());
    }
    split.forward = forward;
    split.backward = step - forward;
  }

  std::vector<Span> all;
  double hidden = 0;
  if (replicas.empty()) {
    std::vector<Span> computing;
    for (auto& e : events) {
      if (communicates(e)) all.emplace_back(e.begin_ns, e.end_ns);
      if (e.kind == "closure" || (e.kind == "phase" && e.name != "backward"))
        computing.emplace_back(e.begin_ns, e.end_ns);
    }
    hidden = overlap(merged(all), merged(computing));
  } else {
    for (auto& c : events) {
      if (!communicates(c)) continue;
      all.emplace_back(c.begin_ns, c.end_ns);
      std::vector<Span> computing;
      for (auto& e : events)
        if (e.kind == "closure" && e.who != c.who && e.who != "caller") computing.emplace_back(e.begin_ns, e.end_ns);
      hidden += overlap({{c.begin_ns, c.end_ns}}, merged(computing));
    }
  }
  split.communication = length(merged(all));
  split.exposed = std::max(0., split.communication - hidden);
  split.backward = std::max(0., split.backward - split.exposed);
  return split;
}

}  // namespace tandem::bench
