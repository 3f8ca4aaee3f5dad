/// Not installed.
/// The gradients of a module's replicas, added up bucket by bucket while their backwards run, in the order of the
/// replicas, so that the bits do not depend on who was first. (The loss has divided by the whole batch already: a sum,
/// not a mean.) On a device that works by itself, the replica that is last to complete a bucket has it added at once.
/// On a CPU that would only make this replica later than the others: there the bucket is cut into pieces, which
/// replicas take once their own backward is done.
///
/// Replica 0 writes into the targets that the caller's engine gives, so hooks, accumulation and memory are the engine's
/// affair; the other replicas have windows of their own.
#pragma once
#include <tandem/parallel/buckets.h>
#include <tandem/parallel/replica_twins.h>

#include <mutex>

namespace tandem {

class TANDEM_API ReplicaGradients {
 public:
  ReplicaGradients(ReplicaTwins& twins, BucketLimits limits);
  ~ReplicaGradients();

  /// Whether buckets are laid out for the leaves that the twins have now.
  bool ready() const { return generation_ == twins_.generation() && !tables_.empty(); }
  /// Lays out the buckets in the order in which a backward from these results, one per replica, reaches the leaves.
  /// No replica may be running.
  void lay_out(std::span<const Tensor> results);

  /// Before the backwards of so many replicas: targets[i] is parameter i's.
  void open(Targets targets, int replicas);
  /// A replica's backward, on its thread.
  void backward(int replica, const Tensor& root, const Tensor& gradient, bool retain_graph);
  /// After they have all ended well: a target that no replica wrote to becomes no gradient.
  void close();

 private:
  struct Observer final : GradObserver {
    ReplicaGradients* gradients = nullptr;
    bool begun = false;
    void begin(std::span<Leaf* const> leaves) override;
    void ready(Leaf* leaf) override { gradients->count_down(leaf->index); }
    void done(std::exception_ptr) override {}
  };
  struct Piece {
    size_t bucket;
    int64_t begin, elements;  // of its flat tensor
  };
  void watch_leaves();
  void count_down(int index);
  bool is_flat(size_t bucket) const;
  void add_up(size_t bucket);
  void add_leaves(size_t bucket);
  void add_flat(const Piece& piece);
  void leave_for_later(size_t bucket);
  void add_pieces();

  ReplicaTwins& twins_;
  const BucketLimits limits_;
  std::vector<std::unique_ptr<Observer>> observers_;  // of each replica
  std::vector<std::unique_ptr<Buckets>> tables_;      // [0] of the originals' leaves, then of each replica's
  std::vector<size_t> parameter_of_;                  // by index in the tables
  std::vector<Leaf*> first_;                          // replica 0's leaves, by index
  uint64_t generation_ = 0;
  int running_ = 0;  // replicas in the backward now going on
  std::mutex mutex_;
  std::deque<Piece> pieces_;  // not yet taken
};

}  // namespace tandem
