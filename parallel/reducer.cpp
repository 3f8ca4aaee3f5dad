#include <tandem/core/copy.h>
#include <tandem/core/record.h>
#include <tandem/parallel/reducer.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr int64_t kRules = 2, kReached = 5;  // places in the info
constexpr const char* kRuleNames[] = {"samples(n)", "the size of its forward's input",
                                      "nothing (the wrapped module was called past the wrapper)"};

Leaf* as_leaf(const Ref<Node>& n) { return static_cast<Leaf*>(n.get()); }

void zero(Leaf* l) {
  Tensor& w = l->ensure_window();
  fill_into(w, 0);
  l->written = true;
}

std::string what(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that says nothing";
  }
}

}  // namespace

Reducer::Reducer(Communicator& communicator, const nn::NamedTensors& parameters, const ReducerOptions& options)
    : communicator_(communicator), options_(options) {
  for (auto& [name, p] : parameters) {
    Leaf* l = p.leaf();
    if (!l) continue;
    check(!l->observer, "[DistributedDataParallel] ", name, " belongs to another data-parallel wrapper");
    names_.push_back(name);
    leaves_.emplace_back(l);
  }
  check(!leaves_.empty(), "[DistributedDataParallel] no parameter of this module requires grad");
  for (auto& l : leaves_) as_leaf(l)->observer = this;
  info_ = zeros({kReached + int64_t(leaves_.size())}, {.dtype = Dtype::f64, .device = cpu()});
}

Reducer::~Reducer() {
  for (auto& l : leaves_)
    if (as_leaf(l)->observer == this) as_leaf(l)->observer = nullptr;
}

std::vector<size_t> Reducer::bucket_bytes() const {
  std::vector<size_t> bytes;
  for (auto& p : pieces_) bytes.push_back(size_t(p.flat.numel()) * size_of(p.flat.dtype()));
  return bytes;
}

// Once, in the order in which rank 0 finished; what it does not reach comes last.
void Reducer::make_buckets(std::span<Leaf* const> reached) {
  std::vector<int64_t> order;
  std::vector<bool> listed(leaves_.size());
  auto list = [&](size_t i) {
    if (!listed[i]) order.push_back(int64_t(i));
    listed[i] = true;
  };
  for (Leaf* l : reached)
    list(size_t(std::find_if(leaves_.begin(), leaves_.end(), [&](auto& k) { return k.get() == l; }) - leaves_.begin()));
  for (size_t i = leaves_.size(); i--;) list(i);
  Tensor agreed = from_vector(order, {int64_t(order.size())}, {.device = cpu()});
  communicator_.broadcast(agreed, 0, {.label = "order of the gradients"});

  std::vector<Leaf*> ordered;
  number_.clear();
  for (int64_t i : agreed.span<int64_t>()) {
    ordered.push_back(as_leaf(leaves_[size_t(i)]));
    number_.push_back(size_t(i));
  }
  buckets_ = std::make_unique<Buckets>(ordered, options_.limits);
  for (size_t b = 0; b < buckets_->size(); ++b)
    pieces_.push_back({.index = int(b),
                       .is_last = b + 1 == buckets_->size(),
                       .flat = (*buckets_)[b].flat,
                       .weight = info_.narrow(0, 0, 2),
                       .label = message("bucket ", b, " of ", buckets_->size())});
}

void Reducer::fill_info(std::span<Leaf* const> reached) {
  auto info = info_.span<double>();
  std::fill(info.begin(), info.end(), 0);
  Rule rule = said_samples_ ? Rule::said : forward_samples_ ? Rule::forward : Rule::none;
  auto n = double(said_samples_ ? *said_samples_ : forward_samples_.value_or(1));
  if (!options_.average_by_samples) {
    rule = Rule::none;
    n = 1;
  }
  info[0] = info[1] = n;
  info[size_t(kRules) + size_t(rule)] = 1;
  for (Leaf* l : reached) info[size_t(kReached) + number_[size_t(l->index)]] = 1;
}

void Reducer::begin(std::span<Leaf* const> reached) {
  syncing_ = held_back_ == 0 && ++backwards_ % accumulate_ == 0;
  if (!syncing_) return;
  if (!buckets_) make_buckets(reached);
  fill_info(reached);
  works_.clear();
  complete_.assign(buckets_->size(), false);
  was_fresh_.assign(leaves_.size(), false);
  next_ = 0;
  buckets_->expect(1);
  info_work_ = communicator_.all_reduce_async(info_.narrow(0, 1, info_.numel() - 1),
                                              {.label = "samples and reached parameters"});
  std::vector<bool> is_reached(leaves_.size());
  for (Leaf* l : reached) is_reached[size_t(l->index)] = true;
  for (Leaf* l : buckets_->leaves()) {
    if (is_reached[size_t(l->index)]) continue;
    was_fresh_[size_t(l->index)] = !l->written;
    ready(l);
  }
}

void Reducer::ready(Leaf* l) {
  if (!syncing_) return;
  if (!l->written) zero(l);
  const size_t b = buckets_->bucket_of(l->index);
  if (!buckets_->count_down(l->index)) return;
  complete_[b] = true;
  for (; next_ < complete_.size() && complete_[next_]; ++next_)
    works_.push_back(hook_->start(pieces_[next_], communicator_));
}

void Reducer::done(std::exception_ptr error) {
  if (!std::exchange(syncing_, false)) return;
  forward_samples_.reset();
  said_samples_.reset();
  if (error) {
    communicator_.abort("its backward threw: " + what(error));
    for (const Work& w : works_) try {
        w.wait();
      } catch (const CommError&) {  // the echo of the abort; what counts is the error
      }
    return;
  }
  finish_backward();
}

void Reducer::finish_backward() {
  if (callbacks_.buckets_started) callbacks_.buckets_started();
  info_work_.wait();
  for (size_t b = 0; b < works_.size(); ++b) {
    works_[b].wait();
    hook_->finish(pieces_[b]);
  }
  const auto info = info_.span<double>();
  bool missed = false;
  for (Leaf* l : buckets_->leaves()) {
    const double by = info[size_t(kReached) + number_[size_t(l->index)]];
    if (by == 0 && was_fresh_[size_t(l->index)]) l->written = false;  // nobody's: it has no gradient
    missed = missed || by < communicator_.size();
  }
  require_agreement();
  if (callbacks_.finished) callbacks_.finished();
  check(!missed || options_.find_unused_parameters,
        "[DistributedDataParallel] parameters without a part in this backward: ", missed ? unused() : "",
        ". Gradients of theirs were taken for zero. If that is meant, find_unused_parameters = true allows it");
}

void Reducer::require_agreement() const {
  const auto info = info_.span<double>();
  std::string rules;
  int used = 0;
  for (size_t r = 0; r < 3; ++r) {
    const double ranks = info[size_t(kRules) + r];
    if (ranks == 0) continue;
    ++used;
    rules += message(rules.empty() ? "" : "; ", int64_t(ranks), " from ", kRuleNames[r]);
  }
  check<CommError>(used == 1,
                   "[DistributedDataParallel] the ranks took their numbers of samples from different places: ", rules,
                   ". Call the wrapper, or samples(n), on all of them");
  check(info[1] > 0, "[DistributedDataParallel] no rank had any samples in this backward");
}

std::string Reducer::unused() const {
  const auto info = info_.span<double>();
  std::string list;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto by = int(info[size_t(kReached) + i]);
    if (by < communicator_.size())
      list +=
          message(list.empty() ? "" : ", ", names_[i], " (reached on ", by, " of ", communicator_.size(), " ranks)");
  }
  return list;
}

}  // namespace tandem
