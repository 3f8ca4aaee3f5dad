#include <tandem/core/backend.h>
#include <tandem/core/copy.h>
#include <tandem/core/step_graph.h>
#include <tandem/nn/optimizer.h>

#include <algorithm>

namespace tandem::nn {

std::vector<ParamGroup::Option> ParamGroup::options() {
  std::vector<Option> list{{"lr", &lr}, {"weight_decay", &weight_decay}, {"maximize", &maximize}};
  if (initial_lr) list.push_back({"initial_lr", &*initial_lr});
  return list;
}

// -- groups and their flat memory -------------------------------------------------------------------------------

void Optimizer::add_group(std::unique_ptr<ParamGroup> group) {
  const char* who = description_.name;
  check(!group->params.empty(), "[", who, "] a group without parameters");
  std::vector<Slot> added;
  for (size_t i = 0; i < group->params.size(); ++i) {
    const Tensor& p = group->params[i];
    check(p.defined(), "[", who, "] parameter ", i, " is undefined");
    check(p.requires_grad(), "[", who, "] parameter ", i, " of shape ", p.shape(),
          " does not require grad: leave it out, or freeze it later");
    check(p.is_leaf() && p.is_dense_in_any_layout(), "[", who, "] parameter ", i, " of shape ", p.shape(),
          p.is_leaf() ? " is a strided view" : " is the result of an op", ", which no optimizer can update");
    for (auto* list : {&slots_, &added})
      for (auto& s : *list)
        check(!s.param.is_same(p), "[", who, "] parameter ", i, " of shape ", p.shape(), " is given twice");
    added.push_back({p, p.node(), int(groups_.size())});
  }
  slots_.insert(slots_.end(), added.begin(), added.end());
  groups_.push_back(std::move(group));
  rebuild_tables();
}

namespace {

// Memory of its own, not yet part of a block.
bool is_loose(const Storage& s) { return s.pool != nullptr; }

size_t bytes_of(const Leaf& l) { return size_t(l.meta.shape.numel()) * size_of(l.meta.dtype); }

// A block that rows' memories are cut from one after the other. The gaps are read by passes over whole runs.
class Block {
 public:
  Block(size_t bytes, Device d) : memory_(Storage::make(bytes, d)) {}
  const Ref<Storage>& memory() const { return memory_; }
  size_t cut(size_t bytes) {
    const size_t at = used_;
    used_ += aligned(bytes);
    if (size_t gap = used_ - at - bytes) zero_bytes(memory_->data + at + bytes, memory_->device, gap);
    return at;
  }

 private:
  Ref<Storage> memory_;
  size_t used_ = 0;
};

void lay_out_values(std::span<const ParamRow> rows, Device d) {
  auto takes_part = [](const Leaf& l) { return is_loose(*l.value) && l.value->bytes == bytes_of(l); };
  size_t bytes = 0;
  for (auto& r : rows)
    if (takes_part(*r.leaf)) bytes += aligned(bytes_of(*r.leaf));
  Block block(bytes, d);
  for (auto& r : rows)
    if (takes_part(*r.leaf)) r.leaf->value->rebind(block.memory(), block.cut(bytes_of(*r.leaf)));
}

void lay_out_gradients(std::span<const ParamRow> rows, Device d) {
  auto takes_part = [](const Leaf& l) { return !l.window || is_loose(*l.window.storage()); };
  size_t bytes = 0;
  for (auto& r : rows)
    if (takes_part(*r.leaf)) bytes += aligned(bytes_of(*r.leaf));
  Block block(bytes, d);
  for (auto& r : rows) {
    Leaf& l = *r.leaf;
    if (!takes_part(l)) continue;
    const size_t at = block.cut(bytes_of(l));
    if (l.window)
      l.window.storage()->rebind(block.memory(), at, l.written);
    else
      l.window = Tensor(Storage::window(block.memory(), at, bytes_of(l)), l.meta.shape, l.meta.strides, l.meta.dtype);
  }
}

}  // namespace

void Optimizer::build_tables() {
  tables_.clear();
  options_.clear();
  for (size_t i = slots_.size(); i--;) {
    Leaf* l = slots_[i].get();
    auto t = std::find_if(tables_.begin(), tables_.end(),
                          [&](auto& t) { return t.device == l->meta.device && t.dtype == l->meta.dtype; });
    if (t == tables_.end()) {
      t = tables_.emplace(tables_.end());
      t->device = l->meta.device;
      t->dtype = l->meta.dtype;
    }
    t->rows.push_back({.leaf = l, .state_offset = t->elements, .group = slots_[i].group});
    t->slots.push_back(i);
    t->elements += t->rows.back().extent();
  }
  for (auto& t : tables_) {
    lay_out_values(t.rows, t.device);
    lay_out_gradients(t.rows, t.device);
    const auto rows = int64_t(t.rows.size()), groups = int64_t(groups_.size());
    t.states.resize(description_.state_names.size());
    if (description_.counts_steps) t.steps = zeros({rows}, {.dtype = Dtype::f64, .device = t.device});
    t.options = zeros({groups, description_.options}, {.dtype = Dtype::f64, .device = t.device});
  }
}

void Optimizer::rebuild_tables() {
  NamedTensors states = parameter_states();
  build_tables();
  set_parameter_states(states);
}

namespace {
// A thawed parameter has a new leaf: its gradient goes where the old one's lay.
void take_window(Leaf& to, const Leaf& from) {
  if (!from.window || from.meta.dtype != to.meta.dtype || !(from.meta.device == to.meta.device)) return;
  const Storage& place = *from.window.storage();
  if (!to.window)
    to.window = from.window;
  else if (place.base && is_loose(*to.window.storage()))
    to.window.storage()->rebind(place.base, size_t(place.data - place.base->data), to.written);
}
}  // namespace

// A parameter that was thawed has another leaf; one that has moved or was converted stands in the wrong table.
void Optimizer::follow_parameters() {
  bool misplaced = false;
  for (auto& t : tables_)
    for (size_t i = 0; i < t.rows.size(); ++i) {
      Slot& s = slots_[t.slots[i]];
      Leaf* l = s.param.leaf();
      if (l && l != s.get()) [[unlikely]] {
        take_window(*l, *s.get());
        s.leaf = s.param.node();
        t.rows[i].leaf = l;
      }
      const Meta& m = s.get()->meta;
      misplaced |= !(m.device == t.device) || m.dtype != t.dtype;
    }
  if (misplaced) [[unlikely]]
    rebuild_tables();
}

// -- stepping ---------------------------------------------------------------------------------------------------

void Optimizer::zero_grad() const {
  for (auto& s : slots_) {
    s.get()->set_written(false);
    s.param.zero_grad();  // another leaf's, where it was thawed since the last step
  }
}

void Optimizer::refresh_options() {
  const auto n = size_t(description_.options);
  options_scratch_.resize(n * groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) write_options(*groups_[g], options_scratch_.data() + g * n);
  if (options_ == options_scratch_) return;
  options_ = options_scratch_;
  for (auto& t : tables_)
    copy_bytes(t.options.raw(), t.device, options_.data(), cpu(), options_.size() * sizeof(double));
  allocate_states();
}

bool Optimizer::any_needs_state(size_t k) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](auto& g) { return needs_state(*g, k); });
}

void Optimizer::allocate_states() {
  for (size_t k = 0; k < description_.state_names.size(); ++k) {
    if (!any_needs_state(k)) continue;
    for (auto& t : tables_)
      if (!t.states[k]) t.states[k] = zeros({t.elements}, {.dtype = t.dtype, .device = t.device});
  }
}

void Optimizer::step() {
  follow_parameters();
  if (StepCapture* c = StepCapture::current())
    join(*c);
  else
    refresh_options();
  for (auto& t : tables_) {
    update(t);
    count_update(t);
    for (auto& r : t.rows)
      if (r.active()) r.leaf->value->bump();
  }
}

// A captured step reads its options from device memory, where each replay finds them as they are by then. It has states
// where they were needed at capture: an option that turns one on calls for another capture.
void Optimizer::join(StepCapture& c) {
  std::vector<bool> captured;
  for (size_t k = 0; k < description_.state_names.size(); ++k) {
    captured.push_back(any_needs_state(k));
    for (auto& t : tables_)
      check<NeedsMemory>(!captured[k] || t.states[k].defined(), "[", description_.name, "] its ",
                         description_.state_names[k], " is not there yet");
  }
  c.before_replay([this, captured = std::move(captured)] {
    for (size_t k = 0; k < captured.size(); ++k)
      if (any_needs_state(k) != captured[k]) return false;
    refresh_options();
    return true;
  });
  c.after_replay([this] {
    for (auto& t : tables_) count_update(t);
  });
}

}  // namespace tandem::nn
