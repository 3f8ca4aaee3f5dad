#include "graph.h"

#include <algorithm>
#include <unordered_map>

#include "allocations.h"
#include "arena.h"
#include "counters.h"
#include "faults.h"
#include "pinned.h"
#include "running.h"
#include "settings.h"
#include "stream.h"

namespace simgpu {
namespace {

/// One launch: its nodes begin when those before them are done, in an order that the seed chooses.
struct Launch {
  std::shared_ptr<ExecutableGraph> graph;
  std::vector<Item> items;
  std::vector<bool> done;
  size_t left = 0;

  Step step() {
    Item& whole = *running.item;
    std::vector<size_t> ready;
    for (size_t i = 0; i < items.size(); ++i)
      if (!done[i] && can_begin(i)) ready.push_back(i);
    for (size_t n = ready.size(); n > 1; --n) std::swap(ready[n - 1], ready[random_below(uint32_t(n))]);
    for (const size_t i : ready) {
      items[i].begin_us = std::max(whole.begin_us, end_before(i));
      const Step step = run_item(items[i]);
      if (step == Step::blocked) continue;
      if (step == Step::done) {
        done[i] = true;
        --left;
        whole.end_us = std::max(whole.end_us, items[i].end_us);
      }
      return left ? Step::again : Step::done;
    }
    return left ? Step::blocked : Step::done;
  }

  double end_before(size_t i) const {
    double end = 0;
    for (const size_t n : graph->graph().nodes[i].after) end = std::max(end, items[n].end_us);
    return end;
  }

  bool can_begin(size_t i) const {
    const auto& after = graph->graph().nodes[i].after;
    return std::all_of(after.begin(), after.end(), [&](size_t n) { return done[n]; });
  }
};

template <class T>
std::unordered_map<const void*, std::shared_ptr<T>>& published() {
  static auto& m = *new std::unordered_map<const void*, std::shared_ptr<T>>;
  return m;
}

template <class T>
std::shared_ptr<T> find(const void* handle) {
  const auto found = published<T>().find(handle);
  if (found == published<T>().end()) fail("%p is no graph, or one that was destroyed", handle);
  return found->second;
}

template <class T>
void erase(const void* handle) {
  find<T>(handle);
  published<T>().erase(handle);
}

}  // namespace

size_t Graph::add(Operation op, const Stream& s, std::vector<size_t> after) {
  Node node{
      .operation = std::move(op), .device = s.device, .stream_lane = s.lane, .after = std::move(after), .memory = {}};
  auto use = [&](const void* p) {
    if (!in_arena(reinterpret_cast<uintptr_t>(p))) return;
    if (const Allocation* a = live_allocation(p, 0)) node.memory.push_back({p, a->number});
  };
  for (const void* p : node.operation.pointers) use(p);
  for (const Access& a : node.operation.accesses) use(a.data);
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

ExecutableGraph::ExecutableGraph(const Graph& graph, int device) : graph_(graph), finished_(std::make_shared<Event>()) {
  finished_->device = device;
  for (const Node& n : graph_.nodes)
    if (auto [lane, is_new] = lanes_.try_emplace(n.stream_lane); is_new) lane->second = create_lane();
}

ExecutableGraph::~ExecutableGraph() {
  for (const auto& [captured, lane] : lanes_) retire_lane(lane);
}

void ExecutableGraph::check_memory() const {
  for (const Node& n : graph_.nodes)
    for (const UsedMemory& m : n.memory) {
      const Allocation* a = live_allocation(m.data, 0);
      if (!a || a->number != m.allocation)
        fail("a graph is launched whose node '%s' uses %p of allocation #%lu, which has been freed",
             n.operation.name.c_str(), m.data, m.allocation);
    }
}

void ExecutableGraph::launch(Stream& s) {
  check_memory();
  enqueue_wait(s, finished_);
  auto launch = std::make_shared<Launch>();
  launch->graph = shared_from_this();
  launch->left = graph_.nodes.size();
  launch->done.resize(launch->left);
  s.clock.join(host_clock());
  VectorClock all = s.clock;
  bool peers = false;
  for (const Node& n : graph_.nodes) {
    Item item{.operation = n.operation, .waits_for = {}, .records = {}, .device = n.device, .clock = {}};
    VectorClock before = s.clock;
    for (const size_t b : n.after) before.join(launch->items[b].clock);
    stamp(item, before, lanes_.at(n.stream_lane));
    item.in_graph = true;
    put_in_flight(item);
    count_node();
    all.join(item.clock);
    peers |= n.operation.waits_for_peers || (link_delay_ms() != 0 && crosses_link(n.operation));
    launch->items.push_back(std::move(item));
  }
  s.clock = all;
  enqueue(s, {.operation = {.name = "graph",
                            .step = [launch] { return launch->step(); },
                            .waits_for_peers = peers,
                            .kind = Kind::graph}});
  enqueue_record(s, finished_);
}

cudaGraph_t publish(std::shared_ptr<Graph> graph) {
  const auto handle = reinterpret_cast<cudaGraph_t>(graph.get());
  published<Graph>().emplace(handle, std::move(graph));
  return handle;
}
cudaGraphExec_t publish(std::shared_ptr<ExecutableGraph> graph) {
  const auto handle = reinterpret_cast<cudaGraphExec_t>(graph.get());
  published<ExecutableGraph>().emplace(handle, std::move(graph));
  return handle;
}
std::shared_ptr<Graph> graph_of(cudaGraph_t handle) { return find<Graph>(handle); }
std::shared_ptr<ExecutableGraph> graph_of(cudaGraphExec_t handle) { return find<ExecutableGraph>(handle); }
void forget(cudaGraph_t handle) { erase<Graph>(handle); }
void forget(cudaGraphExec_t handle) { erase<ExecutableGraph>(handle); }

}  // namespace simgpu
