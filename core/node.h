/// The tape's parts: nodes with closures, leaves with gradient windows, targets that a closure writes to.
///
/// Beta contract: a kernel that writes through an Out adds to the tensor where beta is 1, and where beta is 0 it never
/// reads it (the memory may hold anything, NaN included).
#pragma once
#include <tandem/core/tensor.h>

#include <memory>

namespace tandem {

struct Node;
struct Leaf;

/// What the gradient of a result looks like: the engine makes its memory from this.
struct Meta {
  Dims shape, strides;  // strides dense in one of the two layouts
  Dtype dtype{};
  Device device;
};

/// All that data parallelism needs from autograd. A leaf names at most one observer.
struct GradObserver {
  virtual ~GradObserver() = default;
  /// Before the first closure, with the observer's leaves that this graph reaches, in the order they will be ready.
  virtual void begin(std::span<Leaf* const> leaves) = 0;
  /// This leaf's gradient is complete.
  virtual void ready(Leaf* leaf) = 0;
  /// Always called after begin: with null at the end, or with what a closure (or an observer) threw.
  virtual void done(std::exception_ptr error) = 0;
};

/// Where a kernel writes, see the beta contract.
struct Out {
  Tensor t;
  float beta = 0;
};

/// One input's gradient inside a closure: lazy, allocated when asked for. A false target means "not wanted".
class TANDEM_API Target {
 public:
  Target() = default;
  explicit Target(Node* n) : n_(n) {}
  explicit operator bool() const { return n_ != nullptr; }
  /// Memory to write or add to: fresh with beta 0 the first time, the same with beta 1 later; a leaf's is its window.
  Out out();
  /// The same, but may take over gy's memory where nobody shares it: for kernels whose output may be their input.
  Out out_over(Tensor& gy);
  /// The gradient is `g` itself (of the input's shape): kept without a copy where possible.
  void give(Tensor g);
  /// Shape of the gradient.
  const Dims& shape() const;

 private:
  Node* n_ = nullptr;
};
using Targets = std::span<Target>;

struct HookEntry {
  int id;
  GradHook hook;
};

struct TANDEM_API Node {
  std::atomic<int> refs{0};
  bool is_leaf = false;
  bool freed = false;  // its closure has run and is gone
  int32_t n_inputs = 0;
  uint64_t seq = 0;   // order of recording
  uint64_t mark = 0;  // the backward that last visited it
  const char* name = "";
  Meta meta;    // of the result
  Tensor grad;  // accumulates during a backward
  std::unique_ptr<std::vector<HookEntry>> hooks;
  Node* next_dead = nullptr;  // see destroy
  std::array<Ref<Node>, 3> few;
  std::unique_ptr<Ref<Node>[]> many;

  Ref<Node>* inputs() { return many ? many.get() : few.data(); }
  /// The closure: adds the inputs' gradients into the targets that are wanted. May consume gy.
  virtual void run(Tensor& gy, Targets t);
  /// Frees what the closure holds.
  virtual void drop() {}
  virtual ~Node() = default;
  static void destroy(Node* n);  // without recursion over the graph's depth
};

/// A tensor that requires grad and was not computed from others.
struct TANDEM_API Leaf final : Node {
  Ref<Storage> value;  // a leaf never holds its own tensor
  int64_t value_offset = 0;
  Tensor window;         // its gradient's memory, wherever that lies; made at its first use
  bool written = false;  // false: fresh, reads as no gradient
  int pending = 0;       // uses still to come in this backward
  int index = -1;        // its observer's number for it
  GradObserver* observer = nullptr;

  Leaf() { is_leaf = true; }
  Tensor& ensure_window();
  void set_written(bool w) {
    if (detail::step_captures.load(std::memory_order_relaxed)) [[unlikely]]
      note_in_capture();
    written = w;
  }

 private:
  void note_in_capture();
};

}  // namespace tandem
