#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/timeline.h>
#include <tandem/parallel/replica_gradients.h>

#include <algorithm>
#include <unordered_map>

namespace tandem {

ReplicaGradients::ReplicaGradients(ReplicaTwins& twins, BucketLimits limits) : twins_(twins), limits_(limits) {
  for (size_t r = 0; r < twins.replicas(); ++r) {
    observers_.push_back(std::make_unique<Observer>());
    observers_.back()->gradients = this;
  }
}

ReplicaGradients::~ReplicaGradients() = default;

// -- the order --------------------------------------------------------------------------------------------------

void ReplicaGradients::lay_out(std::span<const Tensor> results) {
  std::vector<bool> listed(twins_.parameters().size());
  std::vector<size_t> order;
  auto list = [&](size_t parameter) {
    if (!listed[parameter]) order.push_back(parameter);
    listed[parameter] = true;
  };
  for (size_t r = 0; r < results.size(); ++r) {
    std::unordered_map<const Leaf*, size_t> parameter_of;
    for (size_t i = 0; i < listed.size(); ++i)
      if (const Leaf* l = twins_.twin_leaf(r, i)) parameter_of[l] = i;
    for (const Leaf* l : finish_order(results[r]))
      if (auto found = parameter_of.find(l); found != parameter_of.end()) list(found->second);
  }
  for (size_t i = listed.size(); i--;)  // no replica has reached these
    if (twins_.leaf(i)) list(i);

  parameter_of_ = std::move(order);
  tables_.clear();
  for (size_t r = 0; r < twins_.replicas(); ++r) {
    std::vector<Leaf*> leaves;
    for (size_t i : parameter_of_) leaves.push_back(r ? twins_.twin_leaf(r, i) : twins_.leaf(i));
    tables_.push_back(std::make_unique<Buckets>(leaves, limits_));
  }
  watch_leaves();
  generation_ = twins_.generation();
}

void ReplicaGradients::watch_leaves() {
  first_.clear();
  for (size_t k = 0; k < parameter_of_.size(); ++k) {
    first_.push_back(twins_.twin_leaf(0, parameter_of_[k]));
    first_[k]->index = int(k);
    for (size_t r = 0; r < twins_.replicas(); ++r)
      twins_.twin_leaf(r, parameter_of_[k])->observer = observers_[r].get();
  }
}

// -- a backward -------------------------------------------------------------------------------------------------

void ReplicaGradients::open(Targets targets, int replicas) {
  for (size_t k = 0; k < first_.size(); ++k) {
    Out o = targets[parameter_of_[k]].out();
    first_[k]->window = std::move(o.t);
    first_[k]->set_written(o.beta != 0);
  }
  for (size_t r = 1; r < size_t(replicas); ++r)
    for (Leaf* l : tables_[r]->leaves()) l->set_written(false);
  tables_[0]->expect(replicas);
  pieces_.clear();  // of a backward that failed
  running_ = replicas;
}

void ReplicaGradients::backward(int replica, const Tensor& root, const Tensor& gradient, bool retain_graph) {
  Observer& o = *observers_[size_t(replica)];
  o.begun = false;
  tandem::backward(std::span(&root, 1), std::span(&gradient, 1), {.retain_graph = retain_graph});
  if (!o.begun) o.begin({});  // it has reached no parameter at all
  add_pieces();               // the replica that ends last leaves none
}

void ReplicaGradients::Observer::begin(std::span<Leaf* const> leaves) {
  begun = true;
  std::vector<bool> reached(gradients->first_.size());
  for (Leaf* l : leaves) reached[size_t(l->index)] = true;
  for (size_t k = 0; k < reached.size(); ++k)  // this replica has nothing to add to these
    if (!reached[k]) gradients->count_down(int(k));
}

void ReplicaGradients::count_down(int index) {
  if (tables_[0]->count_down(index)) add_up(tables_[0]->bucket_of(index));
}

// Whether all replicas have a gradient for each of its leaves, and replica 0's are where the bucket lies (and not, say,
// in memory that a hook is to see first).
bool ReplicaGradients::is_flat(size_t bucket) const {
  for (Leaf* original : (*tables_[0])[bucket].leaves) {
    const auto k = size_t(original->index);
    if (first_[k]->window.storage() != original->window.storage() || !first_[k]->written) return false;
    for (size_t r = 1; r < size_t(running_); ++r)
      if (!tables_[r]->leaves()[k]->written) return false;
  }
  return true;
}

void ReplicaGradients::add_up(size_t bucket) {
  if (!is_flat(bucket)) return add_leaves(bucket);
  const Tensor& sum = (*tables_[0])[bucket].flat;
  if (sum.device().is_cpu())
    leave_for_later(bucket);
  else
    add_flat({bucket, 0, sum.numel()});
}

void ReplicaGradients::add_leaves(size_t bucket) {
  for (size_t r = 1; r < size_t(running_); ++r)
    for (Leaf* l : (*tables_[r])[bucket].leaves) {
      if (!l->written) continue;
      Leaf& sum = *first_[size_t(l->index)];
      copy_into({sum.window, sum.written ? 1.f : 0.f}, l->window);
      sum.set_written(true);
    }
}

void ReplicaGradients::add_flat(const Piece& p) {
  auto piece_of = [&](size_t r) {
    const Tensor& flat = (*tables_[r])[p.bucket].flat;
    return flat.alias({p.elements}, {1}, flat.impl()->offset + p.begin);
  };
  Tensor sum = piece_of(0);
  TimelineSpan span(TimelineEvent::Kind::collective, "add_up", {}, -1,
                    size_t(running_ - 1) * size_t(p.elements) * size_of(sum.dtype()));
  for (size_t r = 1; r < size_t(running_); ++r) copy_into({sum, 1}, piece_of(r));
}

void ReplicaGradients::leave_for_later(size_t bucket) {
  const int64_t elements = (*tables_[0])[bucket].flat.numel();
  const int64_t step = int64_t(num_threads()) << 16;  // small enough for a cache that replica after replica adds to
  std::lock_guard lock(mutex_);
  for (int64_t begin = 0; begin < elements; begin += step)
    pieces_.push_back({bucket, begin, std::min(step, elements - begin)});
}

void ReplicaGradients::add_pieces() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (pieces_.empty()) return;
    const Piece p = pieces_.front();
    pieces_.pop_front();
    lock.unlock();
    add_flat(p);
  }
}

void ReplicaGradients::close() {
  for (size_t k = 0; k < first_.size(); ++k) {
    Leaf& original = *twins_.leaf(parameter_of_[k]);
    if (!first_[k]->written) {
      if (original.hooks)
        original.grad = {};
      else
        original.set_written(false);
    }
    first_[k]->window = {};
  }
}

}  // namespace tandem
