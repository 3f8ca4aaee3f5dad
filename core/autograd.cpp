#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/record.h>
#include <tandem/core/timeline.h>

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

std::atomic<uint64_t> sequence{1};
uint64_t next_seq() { return sequence.fetch_add(1, std::memory_order_relaxed); }

Tensor fresh(const Meta& m) {
  Ref<Storage> s = Storage::make(size_t(m.shape.numel()) * size_of(m.dtype), m.device);
  return Tensor(std::move(s), m.shape, m.strides, m.dtype);
}

// Leaves whose windows the closure now running was the first to ask for: should it throw, they hold nothing.
thread_local std::vector<Leaf*> opened;

Out window_out(Leaf& l) {
  Tensor& w = l.ensure_window();
  float beta = l.written ? 1.f : 0.f;
  if (!l.written) opened.push_back(&l);
  l.set_written(true);
  w.storage()->bump();
  return {w, beta};
}

// A leaf's gradient goes straight to its window, unless a hook must see this backward's whole contribution first.
bool writes_window(Node* n) { return n->is_leaf && !n->hooks; }

}  // namespace

// -- nodes ------------------------------------------------------------------------------------------------------

void Node::run(Tensor&, Targets) {}

void Node::destroy(Node* n) {
  // Deleting a node drops its inputs; those that die with it wait in a list instead of on the call stack. The list is
  // threaded through the nodes: a container would be gone before the tensors that a program holds in statics.
  static thread_local Node* dead = nullptr;
  static thread_local bool draining = false;
  if (draining) {
    n->next_dead = std::exchange(dead, n);
    return;
  }
  if (n->is_leaf) {
    delete n;
    return;
  }
  draining = true;
  delete n;
  while (Node* next = dead) {
    dead = next->next_dead;
    delete next;
  }
  draining = false;
}

Tensor& Leaf::ensure_window() {
  if (!window) window = fresh(meta);
  return window;
}

namespace {
void describe(Node* n, const char* name, const Tensor& y) {
  n->seq = next_seq();
  n->name = name;
  n->meta = {y.shape(), y.is_dense_in_any_layout() ? y.strides() : dense_strides(y.shape(), Layout::row_major),
             y.dtype(), y.device()};
}
}  // namespace

Tensor detail::attach(Node* n, const char* name, Tensor y, std::span<const TensorRef> in) {
  describe(n, name, y);
  n->n_inputs = int32_t(in.size());
  if (in.size() > n->few.size()) n->many = std::make_unique<Ref<Node>[]>(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    if (*in[i].t) n->inputs()[i] = in[i].t->node();
  y.impl()->node = Ref<Node>(n);
  return y;
}

Tensor detail::attach(Node* n, const char* name, Tensor y, std::span<const Ref<Node>> in) {
  describe(n, name, y);
  n->n_inputs = int32_t(in.size());
  n->many = std::make_unique<Ref<Node>[]>(in.size());
  std::copy(in.begin(), in.end(), n->many.get());
  y.impl()->node = Ref<Node>(n);
  return y;
}

void Saved::throw_changed() const {
  throw Error(message("[", op_, "] a tensor of shape ", t_.shape(),
                      " that was saved for backward was changed in place since; change a clone() instead"));
}

// -- targets ----------------------------------------------------------------------------------------------------

const Dims& Target::shape() const { return n_->meta.shape; }

Out Target::out() {
  if (writes_window(n_)) return window_out(*static_cast<Leaf*>(n_));
  Tensor& g = n_->grad;
  if (!g) {
    g = fresh(n_->meta);
    return {g, 0};
  }
  bool shared = g.impl()->refs != 1 || g.storage().count() != 1 || g.strides() != n_->meta.strides;
  if (shared) {  // it was given to two, or is a view: accumulate in memory of its own
    Tensor mine = fresh(n_->meta);
    copy_into({mine, 0}, g);
    g = std::move(mine);
  }
  return {g, 1};
}

Out Target::out_over(Tensor& gy) {
  if (!writes_window(n_) && !n_->grad && gy.unique() && gy.strides() == n_->meta.strides &&
      gy.dtype() == n_->meta.dtype) {
    n_->grad = gy;
    return {n_->grad, 0};
  }
  return out();
}

void Target::give(Tensor g) {
  check<ShapeError>(g.shape() == n_->meta.shape, "[", n_->name, "] its gradient has shape ", g.shape(), ", not ",
                    n_->meta.shape);
  if (!writes_window(n_) && !n_->grad && g.dtype() == n_->meta.dtype && g.device() == n_->meta.device) {
    n_->grad = std::move(g);
    return;
  }
  copy_into(out(), g);
}

// -- engine -----------------------------------------------------------------------------------------------------

namespace {

struct Schedule {
  std::vector<Ref<Node>> roots;  // they hold all others, whatever hooks do to the caller's handles
  std::vector<Node*> nodes;      // in the order they will run
  std::vector<Leaf*> leaves;
  struct Outer {
    uint64_t mark;
    int pending;
  };
  std::vector<Outer> outer;  // of each leaf: an outer engine's counts
  void clear() {
    roots.clear();
    nodes.clear();
    leaves.clear();
    outer.clear();
  }
  void restore_counts() {
    for (size_t i = 0; i < leaves.size(); ++i) {
      leaves[i]->mark = outer[i].mark;
      leaves[i]->pending = outer[i].pending;
    }
  }
};

Leaf* as_leaf(Node* n) { return n && n->is_leaf ? static_cast<Leaf*>(n) : nullptr; }

void require_alive(const Node* n) {
  check(!n->freed, "[", n->name,
        "] this part of the graph was freed by an earlier backward; retain_graph = true keeps it");
}

// All nodes the roots reach, and the leaves with their uses counted. No recursion.
void collect(std::span<const Tensor> roots, Schedule& s) {
  const uint64_t mark = next_seq();
  auto visit = [&](Node* n) {
    if (n->is_leaf) {
      auto* l = static_cast<Leaf*>(n);
      if (l->mark != mark) {
        s.outer.push_back({l->mark, l->pending});
        l->mark = mark;
        l->pending = 0;
        s.leaves.push_back(l);
      }
      ++l->pending;
    } else if (n->mark != mark) {
      n->mark = mark;
      s.nodes.push_back(n);
    }
  };
  for (auto& r : roots)
    if (s.roots.emplace_back(r.node())) visit(r.node().get());
  for (size_t i = 0; i < s.nodes.size(); ++i) {
    Node* n = s.nodes[i];
    require_alive(n);
    for (int k = 0; k < n->n_inputs; ++k)
      if (Node* in = n->inputs()[k].get()) visit(in);
  }
  auto later = [](Node* a, Node* b) { return a->seq > b->seq; };
  if (!std::is_sorted(s.nodes.begin(), s.nodes.end(), later)) std::sort(s.nodes.begin(), s.nodes.end(), later);
}

// Calls f(leaf) as each leaf's last use is passed. Ties go last input first: they fall as in reversed registration.
template <class F>
void count_down(Node* n, F&& f) {
  for (int k = n->n_inputs; k--;) {
    Node* in = n->inputs()[k].get();
    if (!in || !in->is_leaf) continue;
    auto* l = static_cast<Leaf*>(in);
    if (--l->pending == 0) f(l);
  }
}

std::vector<Leaf*> in_finish_order(Schedule& s) {
  std::vector<int> counts;
  for (Leaf* l : s.leaves) counts.push_back(l->pending);
  std::vector<Leaf*> order;
  for (auto& r : s.roots)
    if (Leaf* l = as_leaf(r.get()); l && --l->pending == 0) order.push_back(l);
  for (Node* n : s.nodes) count_down(n, [&](Leaf* l) { order.push_back(l); });
  for (size_t i = 0; i < s.leaves.size(); ++i) s.leaves[i]->pending = counts[i];
  return order;
}

Tensor run_hooks(Node* n, Tensor g) {
  if (!n->hooks) return g;
  const std::vector<HookEntry> hooks = *n->hooks;  // a copy: they may remove themselves
  for (auto& h : hooks) {
    Tensor r = h.hook(g);
    if (!r) continue;
    check<ShapeError>(r.shape() == n->meta.shape, "[register_hook] a hook made a gradient of shape ", r.shape(),
                      " for a tensor of shape ", n->meta.shape);
    check<DtypeError>(r.dtype() == n->meta.dtype, "[register_hook] a hook made a gradient of ", r.dtype(),
                      " for a tensor of ", n->meta.dtype);
    check<DeviceError>(r.device() == n->meta.device, "[register_hook] a hook made a gradient on ", r.device(),
                       " for a tensor on ", n->meta.device);
    g = std::move(r);
  }
  return g;
}

void finish(Leaf* l) {
  if (l->grad) {
    Tensor g = run_hooks(l, std::exchange(l->grad, {}));
    copy_into(window_out(*l), g);
  }
  if (l->observer) l->observer->ready(l);
}

bool all_finite(const Tensor& t) {
  for (double v : t.to_vector<double>())
    if (!std::isfinite(v)) return false;
  return true;
}

void require_finite_inputs(Node* n) {
  for (int k = 0; k < n->n_inputs; ++k) {
    Node* in = n->inputs()[k].get();
    if (!in) continue;
    Tensor g = in->grad;
    if (in->is_leaf && !g) {
      auto* l = static_cast<Leaf*>(in);
      if (l->written) g = l->window;
    }
    check(!g || all_finite(g), "[detect_anomaly] ", n->name, " produced a gradient that is not finite, for its input ",
          k, " of shape ", in->meta.shape);
  }
}

// The observers of this backward's leaves: told of its start, and always of its end.
class Observers {
 public:
  explicit Observers(Schedule& s) {
    for (Leaf* l : s.leaves)
      if (l->observer && std::find(list_.begin(), list_.end(), l->observer) == list_.end())
        list_.push_back(l->observer);
    if (list_.empty()) return;
    auto order = in_finish_order(s);
    for (; begun_ < list_.size(); ++begun_) {
      std::vector<Leaf*> mine;
      for (Leaf* l : order)
        if (l->observer == list_[begun_]) mine.push_back(l);
      try {
        list_[begun_]->begin(mine);
      } catch (...) {
        done(std::current_exception());
        throw;
      }
    }
  }
  // Every observer that began hears of the end; the first error of theirs is returned.
  std::exception_ptr done(std::exception_ptr error) {
    std::exception_ptr first;
    for (size_t i = 0; i < begun_; ++i) try {
        list_[i]->done(error);
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    begun_ = 0;
    return first;
  }

 private:
  std::vector<GradObserver*> list_;
  size_t begun_ = 0;
};

// Puts things back however a backward ends: modes, counts, and nothing half-done left in nodes.
struct BackwardScope {
  Schedule& s;
  bool nested, grad, retain;
  BackwardScope(Schedule& schedule, const BackwardOptions& o)
      : s(schedule),
        nested(o.nested),
        grad(std::exchange(context().grad, false)),
        retain(std::exchange(context().retain_graph, o.retain_graph)) {}
  ~BackwardScope() {
    context().grad = grad;
    context().retain_graph = retain;
    for (Node* n : s.nodes) n->grad = {};
    if (!nested)
      for (Leaf* l : s.leaves) l->grad = {};
    s.restore_counts();
  }
};

void run_schedule(std::span<const Tensor> grads, Schedule& s, const BackwardOptions& o) {
  auto pass = [&](Leaf* l) {
    if (!o.nested) finish(l);
  };
  for (size_t i = 0; i < s.roots.size(); ++i) {
    Node* n = s.roots[i].get();
    if (!n) continue;
    Target(n).give(grads[i]);
    if (Leaf* l = as_leaf(n); l && --l->pending == 0) pass(l);
  }
  const bool anomaly = context().detect_anomaly;
  constexpr int kFew = 8;
  Target few[kFew];
  std::vector<Target> many;
  for (Node* n : s.nodes) {
    const auto k = size_t(n->n_inputs);
    if (Tensor gy = std::exchange(n->grad, {})) {
      if (n->hooks) gy = run_hooks(n, std::move(gy));
      Target* t = few;
      if (k > kFew) {
        many.resize(k);
        t = many.data();
      }
      for (size_t j = 0; j < k; ++j) t[j] = Target(n->inputs()[j].get());
      require_alive(n);  // a backward inside a closure may have come by
      opened.clear();
      try {
        TimelineSpan span(TimelineEvent::Kind::closure, n->name);
        n->run(gy, Targets(t, k));
      } catch (...) {
        for (Leaf* l : opened) l->set_written(false);
        throw;
      }
      opened.clear();
      if (anomaly) require_finite_inputs(n);
    }
    if (!o.retain_graph) n->drop();
    count_down(n, pass);
  }
}

}  // namespace

std::vector<Leaf*> finish_order(const Tensor& root) {
  Schedule s;
  collect(std::span(&root, 1), s);
  auto order = in_finish_order(s);
  s.restore_counts();
  return order;
}

void backward(std::span<const Tensor> roots, std::span<const Tensor> grads, BackwardOptions o) {
  check(roots.size() == grads.size(), "[backward] ", roots.size(), " roots, ", grads.size(), " gradients");
  for (size_t i = 0; i < roots.size(); ++i)
    check<ShapeError>(roots[i].shape() == grads[i].shape(), "[backward] a root of shape ", roots[i].shape(),
                      ", its gradient of ", grads[i].shape());
  static thread_local Schedule spare;  // its vectors keep their memory from step to step
  Schedule s = std::move(spare);
  s.clear();
  {
    BackwardScope scope(s, o);
    collect(roots, s);
    if (o.nested) {
      run_schedule(grads, s, o);
    } else {
      Observers observers(s);
      try {
        run_schedule(grads, s, o);
      } catch (...) {
        observers.done(std::current_exception());
        throw;
      }
      if (auto error = observers.done(nullptr)) std::rethrow_exception(error);
    }
  }
  s.roots.clear();  // not kept until the next backward
  spare = std::move(s);
}

}  // namespace tandem
