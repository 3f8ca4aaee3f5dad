/// Captured work, and its launches.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "event.h"
#include "operation.h"

namespace simgpu {

/// Memory that a node was captured with.
struct UsedMemory {
  const void* data;
  uint64_t allocation;  // its number
};

struct Node {
  Operation operation;
  int device = 0;
  uint32_t stream_lane = 0;  // of the stream that captured it
  std::vector<size_t> after;
  std::vector<UsedMemory> memory;
};

struct Graph {
  std::vector<Node> nodes;

  /// Its index.
  size_t add(Operation op, const Stream& s, std::vector<size_t> after);
};

/// A graph that can be launched. Launches of the same one run one after another, whatever their streams.
class ExecutableGraph : public std::enable_shared_from_this<ExecutableGraph> {
 public:
  ExecutableGraph(const Graph& graph, int device);
  ~ExecutableGraph();
  ExecutableGraph(const ExecutableGraph&) = delete;
  ExecutableGraph& operator=(const ExecutableGraph&) = delete;

  /// Fails loudly where memory that the graph was captured with has been freed.
  void launch(Stream& s);
  const Graph& graph() const { return graph_; }

 private:
  void check_memory() const;

  Graph graph_;
  std::map<uint32_t, uint32_t> lanes_;  // of a launch, by those of the captured streams
  std::shared_ptr<Event> finished_;
};

/// By handle: a graph, and an executable one. Fail loudly for what was destroyed.
cudaGraph_t publish(std::shared_ptr<Graph> graph);
cudaGraphExec_t publish(std::shared_ptr<ExecutableGraph> graph);
std::shared_ptr<Graph> graph_of(cudaGraph_t handle);
std::shared_ptr<ExecutableGraph> graph_of(cudaGraphExec_t handle);
void forget(cudaGraph_t handle);
void forget(cudaGraphExec_t handle);

}  // namespace simgpu
