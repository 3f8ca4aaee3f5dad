#include <tandem/core/backend.h>
#include <tandem/core/copy.h>
#include <tandem/core/record.h>
#include <tandem/core/step_graph.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/reducer.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr int64_t kRules = 2, kInGraph = 5, kReached = 6;  // places in the info
constexpr const char* kRuleNames[] = {"samples(n)", "the size of its forward's input",
                                      "nothing (the wrapped module was called past the wrapper)"};

Leaf* as_leaf(const Ref<Node>& n) { return static_cast<Leaf*>(n.get()); }

constexpr const char* kExchange = "samples and reached parameters";

// Whether a step that was to be captured will run eagerly, on all ranks alike.
bool runs_again(const std::exception_ptr& error) {
  if (!StepCapture::current()) return false;
  try {
    std::rethrow_exception(error);
  } catch (const NeedsMemory&) {
    return true;
  } catch (...) {
    return false;
  }
}

void zero(Leaf* l) {
  Tensor& w = l->ensure_window();
  fill_into(w, 0);
  l->set_written(true);
}

}  // namespace

Reducer::Reducer(Communicator& communicator, const nn::NamedTensors& parameters, const ReducerOptions& options)
    : communicator_(communicator), options_(options) {
  for (auto& [name, p] : parameters) {
    Leaf* l = p.leaf();
    if (!l) continue;
    check(!l->observer, "[DistributedDataParallel] ", name, " belongs to another data-parallel wrapper");
    names_.push_back(name);
    parameters_.push_back(p);
    leaves_.emplace_back(l);
  }
  check(!leaves_.empty(), "[DistributedDataParallel] no parameter of this module requires grad");
  for (auto& l : leaves_) as_leaf(l)->observer = this;
  reached_.assign(leaves_.size(), false);
  info_ = zeros({kReached + int64_t(leaves_.size()) + communicator_.size()}, {.dtype = Dtype::f64, .device = cpu()});
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
  for (Leaf* l : reached) list(place_of(l));
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
  for (size_t b = 0; b < buckets_->size(); ++b) {
    std::vector<Tensor> gradients;
    for (const Leaf* l : (*buckets_)[b].leaves) gradients.push_back(l->window);
    pieces_.push_back({.index = int(b),
                       .is_last = b + 1 == buckets_->size(),
                       .flat = (*buckets_)[b].flat,
                       .gradients = std::move(gradients),
                       .weight = info_.narrow(0, 0, 2),
                       .label = label_of(b)});
  }
}

// "bucket 1 of 3: fc1.weight, fc1.bias and 2 more"
std::string Reducer::label_of(size_t b) const {
  constexpr size_t kNamed = 4;
  const auto& leaves = (*buckets_)[b].leaves;
  std::string s = message("bucket ", b, " of ", buckets_->size(), ": ");
  for (size_t i = 0; i < std::min(kNamed, leaves.size()); ++i)
    s += message(i ? ", " : "", names_[number_[size_t(leaves[i]->index)]]);
  return leaves.size() > kNamed ? message(s, " and ", leaves.size() - kNamed, " more") : s;
}

void Reducer::add_forward(int64_t samples, std::weak_ptr<const void> graph) {
  sort_out_forwards();
  forwards_.push_back({samples, std::move(graph)});
}

// A forward whose graph is gone can't have a backward any more.
void Reducer::sort_out_forwards() {
  std::erase_if(forwards_, [&](const Forward& f) {
    if (!f.graph.expired()) return false;
    dropped_samples_ = dropped_samples_.value_or(0) + f.samples;
    return true;
  });
}

void Reducer::forget_samples() {
  forward_samples_.reset();
  dropped_samples_.reset();
  said_samples_.reset();
}

void Reducer::fill_info(std::span<Leaf* const> reached, bool takes_part) {
  auto info = info_.span<double>();
  std::fill(info.begin(), info.end(), 0);
  if (!takes_part) {
    info[1] = join_ && join_->divide_by_initial_world_size;
    return;
  }
  info[info.size() - size_t(communicator_.size() - communicator_.rank())] = 1;
  if (!forward_samples_) forward_samples_ = dropped_samples_;
  Rule rule = said_samples_ ? Rule::said : forward_samples_ ? Rule::forward : Rule::none;
  auto n = double(said_samples_ ? *said_samples_ : forward_samples_.value_or(1));
  if (!options_.average_by_samples) {
    rule = Rule::none;
    n = 1;
  }
  info[0] = info[1] = n;
  info[size_t(kRules) + size_t(rule)] = 1;
  info[size_t(kInGraph)] = StepCapture::current() != nullptr;
  note_reached(reached);
  for (size_t i = 0; i < reached_.size(); ++i) info[size_t(kReached) + i] = reached_[i];
}

// A parameter that an earlier backward reached, which was held back, has a gradient that counts.
void Reducer::note_reached(std::span<Leaf* const> reached) {
  for (Leaf* l : reached) reached_[place_of(l)] = true;
}

size_t Reducer::place_of(const Leaf* l) const {
  if (buckets_) return number_[size_t(l->index)];
  return size_t(std::find_if(leaves_.begin(), leaves_.end(), [&](auto& k) { return k.get() == l; }) - leaves_.begin());
}

void Reducer::require_same_leaves() const {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf* now = parameters_[i].leaf();
    check(!now || now == leaves_[i].get(), "[DistributedDataParallel] ", names_[i],
          " was frozen and thawed after it was wrapped, which gives it another gradient: wrap the module again");
  }
}

// What every rank does first, one that only answers too.
void Reducer::start_round(std::span<Leaf* const> reached, bool takes_part) {
  if (!buckets_) make_buckets(reached);
  works_.clear();
  was_fresh_.assign(leaves_.size(), false);
  if (!exchanged_.empty()) {  // instead of a replay
    std::ranges::copy(exchanged_.front(), info_.span<double>().begin());
    exchanged_.pop_front();
    return;
  }
  fill_info(reached, takes_part);
  StepCapture* capture = takes_part ? StepCapture::current() : nullptr;
  const std::vector<double> mine = capture ? info_.to_vector<double>() : std::vector<double>();
  info_work_ = communicator_.all_reduce_async(exchanged_info(), {.label = kExchange});
  if (!capture) return;
  info_work_.wait();
  if (!all_in_graph()) {
    exchanged_.push_back(info_.to_vector<double>());
    throw NeedsMemory("other ranks run this step eagerly");
  }
  replay_round(*capture, mine);
}

// Outside a join all ranks take part.
Tensor Reducer::exchanged_info() const {
  return info_.narrow(0, 1, info_.numel() - 1 - (join_ ? 0 : communicator_.size()));
}

bool Reducer::all_in_graph() const { return info_.span<double>()[size_t(kInGraph)] == communicator_.size(); }

// -- captured steps -----------------------------------------------------------------------------------------------

void Reducer::join_capture(StepCapture& capture) {
  check(!join_, "[join] a captured step can't be part of its loop: which ranks take part is in the graph");
  auto c = captured_.lock();
  if (c && c->capture == &capture) {
    c->backwards += held_back_ == 0;
    return;
  }
  c = std::make_shared<Captured>(Captured{&capture, backwards_ % accumulate_, held_back_, held_back_ == 0});
  captured_ = c;
  capture.before_replay([this, c, alive = std::weak_ptr(alive_), first = true]() mutable {
    check(!alive.expired(), "[StepGraph] the captured step has backwards of a data-parallel wrapper that has ended");
    if (std::exchange(first, false)) return true;
    return backwards_ % accumulate_ == c->phase && held_back_ == c->held_back && !said_samples_;
  });
  capture.after_replay([this, c] { backwards_ += c->backwards; });
  capture.after_launch([this] { exchanged_.clear(); });
}

// The step is to run again, eagerly.
void Reducer::leave_capture() {
  if (auto c = captured_.lock()) backwards_ -= std::exchange(c->backwards, 0);
  join_works();
}

// `mine` is what this rank said of the round, and the info is what came of it.
void Reducer::replay_round(StepCapture& capture, const std::vector<double>& mine) {
  capture.before_replay([this, mine, all = info_.to_vector<double>(), first = true]() mutable {
    if (std::exchange(first, false)) return true;
    std::ranges::copy(mine, info_.span<double>().begin());
    communicator_.all_reduce(exchanged_info(), {.label = kExchange});
    exchanged_.push_back(info_.to_vector<double>());
    return exchanged_.back() == all;
  });
}

void Reducer::begin(std::span<Leaf* const> reached) {
  require_same_leaves();
  sort_out_forwards();
  for (const Forward& f : std::exchange(forwards_, {})) forward_samples_ = forward_samples_.value_or(0) + f.samples;
  if (StepCapture* capture = StepCapture::current()) join_capture(*capture);
  syncing_ = held_back_ == 0 && ++backwards_ % accumulate_ == 0;
  if (!syncing_) {
    note_reached(reached);
    return;
  }
  try {
    begin_synchronised(reached);
  } catch (const NeedsMemory&) {
    leave_capture();
    throw;
  } catch (...) {
    give_up("as its backward began");
  }
}

void Reducer::begin_synchronised(std::span<Leaf* const> reached) {
  start_round(reached, true);
  complete_.assign(buckets_->size(), false);
  next_ = 0;
  buckets_->expect(1);
  std::vector<bool> is_reached(leaves_.size());
  for (Leaf* l : reached) is_reached[size_t(l->index)] = true;
  for (Leaf* l : buckets_->leaves()) {
    if (is_reached[size_t(l->index)]) continue;
    was_fresh_[size_t(l->index)] = !l->written;
    ready(l);
  }
}

// What a step leaves behind, however it ended.
void Reducer::join_works() {
  works_.push_back(info_work_);
  for (const Work& w : std::exchange(works_, {})) try {
      w.wait();
    } catch (...) {  // the echo of what ended the step
    }
  info_work_ = {};
  syncing_ = false;
  reached_.assign(leaves_.size(), false);
  forget_samples();
}

// An error of this rank alone must not leave the others waiting.
void Reducer::give_up(const char* when) {
  const std::exception_ptr error = std::current_exception();
  communicator_.abort(message(when, ": ", error_text(error)));
  join_works();
  std::rethrow_exception(error);
}

void Reducer::start_bucket(size_t b) { works_.push_back(hook_->start(pieces_[b], communicator_)); }

void Reducer::ready(Leaf* l) {
  if (!syncing_) return;
  if (!l->written) zero(l);
  const size_t b = buckets_->bucket_of(l->index);
  if (!buckets_->count_down(l->index)) return;
  complete_[b] = true;
  for (; next_ < complete_.size() && complete_[next_]; ++next_) start_bucket(next_);
}

void Reducer::done(std::exception_ptr error) {
  if (!syncing_) return;
  if (error) {
    if (runs_again(error)) return leave_capture();
    communicator_.abort("its backward threw: " + error_text(error));
    join_works();
    return;
  }
  finish_backward();
}

// Waits for what was started, and starts what follows.
void Reducer::reduce_rest() {
  info_work_.wait();
  const std::vector<int> ranks = ranks_taking_part();
  last_rank_ = ranks.front();
  if (callbacks_.buckets_started) callbacks_.buckets_started(last_rank_);
  for (size_t b = 0; b < works_.size(); ++b) {
    works_[b].wait();
    works_[b] = hook_->start_second(pieces_[b], communicator_);
  }
  for (size_t b = 0; b < works_.size(); ++b) {
    works_[b].wait();
    hook_->finish(pieces_[b]);
  }
}

void Reducer::finish_backward() {
  try {
    reduce_rest();
  } catch (...) {
    give_up("as its backward ended");
  }
  join_works();
  const std::vector<int> ranks = ranks_taking_part();
  const auto info = info_.span<double>();
  for (Leaf* l : buckets_->leaves())
    if (info[size_t(kReached) + number_[size_t(l->index)]] == 0 && was_fresh_[size_t(l->index)])
      l->written = false;  // nobody's: it has no gradient
  require_agreement();
  if (callbacks_.finished) callbacks_.finished();
  require_reached(ranks.size());
  require_no_early_end(ranks);
}

// -- ranks that run out of backwards ------------------------------------------------------------------------------

void Reducer::begin_join(const Join& join) {
  join_ = join;
  ended_early_ = false;
  last_rank_ = -1;
}

std::vector<int> Reducer::ranks_taking_part() const {
  const auto flags = info_.span<double>().last(size_t(communicator_.size()));
  std::vector<int> ranks;
  for (int r = 0; r < communicator_.size(); ++r)
    if (!join_ || flags[size_t(r)] != 0) ranks.push_back(r);
  return ranks;
}

bool Reducer::answer() {
  forwards_.clear();
  forget_samples();
  start_round({}, false);
  info_work_.wait();  // and only then is it known whether there is a backward
  if (ranks_taking_part().empty()) return false;
  for (Leaf* l : buckets_->leaves()) {
    was_fresh_[size_t(l->index)] = !l->written;
    zero(l);
  }
  for (size_t b = 0; b < pieces_.size(); ++b) start_bucket(b);
  finish_backward();
  return true;
}

void Reducer::require_no_early_end(const std::vector<int>& ranks) {
  if (!join_ || !join_->throw_on_early_termination || int(ranks.size()) == communicator_.size()) return;
  ended_early_ = true;
  std::string out;
  for (int r = 0; r < communicator_.size(); ++r)
    if (std::find(ranks.begin(), ranks.end(), r) == ranks.end()) out += message(out.empty() ? "" : ", ", r);
  throw Error(message("[join] ranks that have no more batches, while others have: ", out));
}

// -- what the ranks must agree on -----------------------------------------------------------------------------------

void Reducer::require_reached(size_t ranks) const {
  if (options_.find_unused_parameters) return;
  const std::string missed = unused(ranks);
  check(missed.empty(), "[DistributedDataParallel] parameters without a part in this backward: ", missed,
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

std::string Reducer::unused(size_t ranks) const {
  const auto info = info_.span<double>();
  std::string list;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto by = size_t(info[size_t(kReached) + i]);
    if (by < ranks) list += message(list.empty() ? "" : ", ", names_[i], " (reached on ", by, " of ", ranks, " ranks)");
  }
  return list;
}

}  // namespace tandem
