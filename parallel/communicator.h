/// Communicator: what the ranks of a group do together, on tensors. Every collective has a deadline, is checked to be
/// the same on all ranks, and ends in an error on every rank as soon as one of them has died.
///
/// The plain forms return when the result is there. The asynchronous ones return a Work at once and run in the order in
/// which they were started, the same on every rank; until a Work is done its tensors must stay as they are. A
/// communicator is used by one thread at a time.
#pragma once
#include <tandem/core/tensor.h>
#include <tandem/parallel/work.h>

#include <chrono>

namespace tandem {

enum class ReduceOp : uint8_t { sum, mean, min, max };
TANDEM_API std::string to_string(ReduceOp);

struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  /// What this rank's values are multiplied by as they are read: f64 [2], numerator and denominator, read when the
  /// collective runs; undefined for 1. A numerator of 0 keeps the values from being read at all (0 times NaN is NaN).
  /// For op sum and floating tensors. The factor is rounded to the tensor's own type, f32 for narrower ones. On the
  /// CPU, or where the tensor is: then nothing waits for it.
  Tensor premultiply = {};
  /// What messages call it: "bucket 3".
  std::string label = {};
  /// 0: the group's.
  std::chrono::milliseconds timeout{0};
};

struct CollectiveOptions {
  std::string label = {};
  std::chrono::milliseconds timeout{0};
  /// Waits for as long as it takes while all members' processes run: the timeout is for one that is silent.
  bool patient = false;
};

/// A collective as one rank asks for it.
struct Collective {
  enum class Kind : uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    send,
    recv,
    barrier,
  };
  Kind kind = Kind::barrier;
  Tensor out, in;  // the same tensor where it works in place; undefined where this rank has none
  ReduceOp op = ReduceOp::sum;
  int peer = 0;  // the root, or the other side of send and recv
  Tensor premultiply;
  std::string label;
  std::chrono::milliseconds timeout{0};
  bool patient = false;
};
TANDEM_API std::string to_string(Collective::Kind);

class TANDEM_API Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// In place, dense in any layout (the same on all ranks). The order of the sum is that of the ranks, whatever the
  /// transport, so all ranks get the same bits. mean wants a floating tensor; bool sums are ors.
  /// All of these throw ShapeError and DtypeError for arguments that can't be, CommError for what went wrong together.
  void all_reduce(Tensor t, ReduceOptions o = {}) { run(reduction(Collective::Kind::all_reduce, t, t, 0, o)); }
  /// The result is in the root's tensor; the others' stay as they are.
  void reduce(Tensor t, int root, ReduceOptions o = {}) { run(reduction(Collective::Kind::reduce, t, t, root, o)); }
  void broadcast(Tensor t, int root, CollectiveOptions o = {}) { run(broadcast_of(t, root, o)); }
  /// in [...] of each rank to out [size, ...] of all.
  void all_gather(Tensor out, Tensor in, CollectiveOptions o = {});
  /// in [size, ...], whose r-th part goes to rank r's out [...], reduced.
  void reduce_scatter(Tensor out, Tensor in, ReduceOptions o = {});
  /// in [size, ...] and out [size, ...]: part r goes to rank r.
  void all_to_all(Tensor out, Tensor in, CollectiveOptions o = {});
  /// out [size, ...] on the root, undefined elsewhere.
  void gather(Tensor out, Tensor in, int root, CollectiveOptions o = {});
  /// in [size, ...] on the root, undefined elsewhere.
  void scatter(Tensor out, Tensor in, int root, CollectiveOptions o = {});
  /// To and from one other rank, which must ask for the other half.
  void send(Tensor t, int to, CollectiveOptions o = {});
  void recv(Tensor t, int from, CollectiveOptions o = {});
  /// Returns when all ranks have come. A deadline names those who have not.
  void barrier(CollectiveOptions o = {}) { run(barrier_of(o)); }

  Work all_reduce_async(Tensor t, ReduceOptions o = {}) {
    return start(reduction(Collective::Kind::all_reduce, t, t, 0, o));
  }
  Work reduce_async(Tensor t, int root, ReduceOptions o = {}) {
    return start(reduction(Collective::Kind::reduce, t, t, root, o));
  }
  Work broadcast_async(Tensor t, int root, CollectiveOptions o = {}) { return start(broadcast_of(t, root, o)); }
  Work all_gather_async(Tensor out, Tensor in, CollectiveOptions o = {});
  Work reduce_scatter_async(Tensor out, Tensor in, ReduceOptions o = {});
  Work all_to_all_async(Tensor out, Tensor in, CollectiveOptions o = {});
  Work barrier_async(CollectiveOptions o = {}) { return start(barrier_of(o)); }

  /// Ends this communicator on all ranks: they throw CommError with this reason, naming this rank.
  virtual void abort(const std::string& why) = 0;

  /// Checks the collective and carries it out. What the forms above come down to.
  void run(const Collective& c);
  Work start(Collective c);

 protected:
  virtual void do_run(const Collective& c) = 0;
  virtual Work do_start(Collective c) = 0;

 private:
  Collective reduction(Collective::Kind kind, Tensor out, Tensor in, int root, const ReduceOptions& o) const;
  Collective broadcast_of(Tensor t, int root, const CollectiveOptions& o) const;
  Collective barrier_of(const CollectiveOptions& o) const;
  void require_valid(const Collective& c) const;
  const int rank_, size_;
};

}  // namespace tandem
