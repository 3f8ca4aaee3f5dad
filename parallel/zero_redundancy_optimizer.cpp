#include <tandem/core/copy.h>
#include <tandem/parallel/gather_texts.h>
#include <tandem/parallel/parameter_shards.h>
#include <tandem/parallel/zero_redundancy_optimizer.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace tandem {
namespace {

constexpr const char* kWho = "[ZeroRedundancyOptimizer]";
constexpr const char* kCount = "step";  // a parameter's number of updates, as optimizers save it

// "exp_avg.3"; nothing for "group0.lr".
struct StateKey {
  std::string name;
  size_t param = 0;
};
std::optional<StateKey> state_key(const std::string& key) {
  const size_t dot = key.rfind('.');
  if (dot == key.npos) return std::nullopt;
  StateKey k{key.substr(0, dot), 0};
  const char *first = key.data() + dot + 1, *last = key.data() + key.size();
  const auto [end, error] = std::from_chars(first, last, k.param);
  return error == std::errc() && end == last ? std::optional(k) : std::nullopt;
}

void require_parameter(const Tensor& p, size_t number) {
  check(p.defined() && p.leaf(), kWho, " parameter ", number, " is no leaf that requires grad");
  check(p.is_dense_in_any_layout() && p.storage()->bytes == size_t(p.numel()) * size_of(p.dtype()), kWho, " parameter ",
        number, " of shape ", p.shape(), " shares its memory with something else");
}

}  // namespace

struct ZeroRedundancyBase::Impl {
  std::unique_ptr<Communicator> communicator;
  std::vector<Tensor> params;  // in the order in which they were given
  std::vector<ParameterBlock> blocks;
  std::vector<std::optional<ParameterPiece>> pieces;  // by the optimizer's numbers; none for what fills an empty group
  std::optional<nn::NamedTensors> consolidated;       // parameters' states, since the last step

  /// What all ranks have of state: by parameter, then name; a count for counts.
  struct Inventory {
    std::vector<std::string> names;  // in the optimizer's order
    std::vector<std::map<std::string, int64_t>> of;
  };
  Inventory take_inventory(const nn::NamedTensors& mine);
  /// A state of all parameters of the block; undefined where this rank is not to have it.
  Tensor gather(const nn::NamedTensors& mine, const std::string& name, size_t block, std::optional<int> to);
  nn::NamedTensors parameter_states(const nn::NamedTensors& mine, std::optional<int> to);
};

ZeroRedundancyBase::ZeroRedundancyBase(const ZeroRedundancyOptions& o) : impl_(std::make_unique<Impl>()) {
  ProcessGroup& group = o.process_group ? *o.process_group : current_process_group();
  impl_->communicator = group.new_communicator();
}

ZeroRedundancyBase::~ZeroRedundancyBase() = default;

std::vector<Tensor> ZeroRedundancyBase::add_shard(const std::vector<Tensor>& params) {
  check(!params.empty(), kWho, " a group without parameters");
  const size_t known = impl_->params.size();
  for (size_t i = 0; i < params.size(); ++i) {
    require_parameter(params[i], known + i);
    auto same = [&](const Tensor& p) { return p.is_same(params[i]); };
    check(std::none_of(impl_->params.begin(), impl_->params.end(), same) &&
              std::none_of(params.begin(), params.begin() + std::ptrdiff_t(i), same),
          kWho, " parameter ", known + i, " of shape ", params[i].shape(), " is given twice");
  }
  // Last one first, as gradients become ready, by device and dtype.
  std::vector<std::vector<std::pair<size_t, Tensor>>> lists;
  for (size_t i = params.size(); i--;) {
    auto list = std::find_if(lists.begin(), lists.end(), [&](auto& l) {
      return l[0].second.dtype() == params[i].dtype() && l[0].second.device() == params[i].device();
    });
    if (list == lists.end()) list = lists.emplace(lists.end());
    list->emplace_back(known + i, params[i]);
  }
  std::vector<Tensor> mine;
  for (auto& list : lists) {
    impl_->blocks.emplace_back(list, impl_->communicator->size());
    for (auto& piece : pieces_of(impl_->blocks.back(), impl_->communicator->rank(), impl_->blocks.size() - 1)) {
      mine.push_back(piece.tensor);
      impl_->pieces.push_back(std::move(piece));
    }
  }
  if (mine.empty()) {  // an optimizer's group has parameters: one that never has a gradient
    mine.push_back(zeros({1}, {.dtype = params[0].dtype(), .device = params[0].device(), .requires_grad = true}));
    impl_->pieces.push_back(std::nullopt);
  }
  impl_->params.insert(impl_->params.end(), params.begin(), params.end());
  return mine;
}

void ZeroRedundancyBase::zero_gradients() const {
  for (const Tensor& p : impl_->params) p.zero_grad();
}

void ZeroRedundancyBase::begin_step() const {
  for (const ParameterBlock& b : impl_->blocks) b.require_in_place();
  for (auto& piece : impl_->pieces)
    if (piece) piece->follow_gradient();
}

void ZeroRedundancyBase::end_step() {
  impl_->consolidated.reset();
  std::vector<Work> works;
  for (const ParameterBlock& b : impl_->blocks)
    works.push_back(impl_->communicator->all_gather_async(b.values(), b.values().select(0, impl_->communicator->rank()),
                                                          {.label = "updated parameters"}));
  for (const Work& w : works) w.wait();
  for (const Tensor& p : impl_->params)
    if (Leaf* l = p.leaf(); l && l->written) l->value->bump();
}

// -- state ----------------------------------------------------------------------------------------------------------

ZeroRedundancyBase::Impl::Inventory ZeroRedundancyBase::Impl::take_inventory(const nn::NamedTensors& mine) {
  std::string text;
  for (auto& [key, t] : mine)
    if (auto k = state_key(key))
      text += message(k->name, ' ', pieces[k->param]->param, ' ', k->name == kCount ? t.item<int64_t>() : 0, '\n');
  Inventory inventory;
  inventory.of.resize(params.size());
  for (const std::string& theirs : gather_texts(*communicator, text)) {
    std::istringstream in(theirs);
    std::string name;
    size_t param = 0;
    for (int64_t count = 0; in >> name >> param >> count;) {
      if (std::find(inventory.names.begin(), inventory.names.end(), name) == inventory.names.end())
        inventory.names.push_back(name);
      inventory.of.at(param)[name] = count;
    }
  }
  return inventory;
}

Tensor ZeroRedundancyBase::Impl::gather(const nn::NamedTensors& mine, const std::string& name, size_t block,
                                        std::optional<int> to) {
  const ParameterBlock& b = blocks[block];
  const TensorOptions like{.dtype = b.values().dtype(), .device = b.values().device()};
  Tensor part = zeros({b.part_elements()}, like);
  for (auto& [key, t] : mine) {
    const auto k = state_key(key);
    if (!k || k->name != name) continue;
    const ParameterPiece& piece = *pieces[k->param];
    if (piece.block == block) copy_into({part.narrow(0, piece.at, t.numel()), 0}, t);
  }
  Tensor all;
  if (!to || *to == communicator->rank()) all = empty(b.values().shape(), like);
  if (to)
    communicator->gather(all, part, *to, {.label = name});
  else
    communicator->all_gather(all, part, {.label = name});
  return all;
}

nn::NamedTensors ZeroRedundancyBase::Impl::parameter_states(const nn::NamedTensors& mine, std::optional<int> to) {
  const Inventory inventory = take_inventory(mine);
  std::vector<std::map<std::string, Tensor>> states(params.size());
  for (const std::string& name : inventory.names)
    for (size_t b = 0; b < blocks.size(); ++b) {
      auto& rows = blocks[b].rows();
      auto has = [&](const ParameterBlock::Row& r) { return inventory.of[r.param].count(name) != 0; };
      if (name == kCount || std::none_of(rows.begin(), rows.end(), has)) continue;
      const Tensor all = gather(mine, name, b, to);
      for (auto& r : rows)
        if (all && has(r)) states[r.param][name] = all.alias(r.tensor.shape(), r.tensor.strides(), r.offset);
    }
  nn::NamedTensors list;
  for (size_t p = 0; p < states.size(); ++p)
    for (const std::string& name : inventory.names) {
      auto has = inventory.of[p].find(name);
      if (has == inventory.of[p].end()) continue;
      list.emplace_back(message(name, '.', p), name == kCount
                                                   ? from_vector(std::vector{has->second}, {}, {.device = cpu()})
                                                   : states[p][name]);
    }
  return list;
}

nn::NamedTensors ZeroRedundancyBase::consolidate(const nn::NamedTensors& mine, std::optional<int> to) {
  const int ranks = impl_->communicator->size();
  check(!to || (*to >= 0 && *to < ranks), "[consolidate_state_dict] to rank ", to ? *to : 0, " of ", ranks);
  nn::NamedTensors states = impl_->parameter_states(mine, to);
  impl_->consolidated.reset();
  if (to && *to != impl_->communicator->rank()) return {};
  impl_->consolidated = std::move(states);
  return consolidated(mine);
}

nn::NamedTensors ZeroRedundancyBase::consolidated(const nn::NamedTensors& mine) {
  if (!impl_->consolidated && impl_->communicator->size() == 1) return consolidate(mine, 0);
  check(impl_->consolidated.has_value(), kWho, " the state is spread over ", impl_->communicator->size(),
        " ranks: for state_dict() on rank ", impl_->communicator->rank(), ", call consolidate_state_dict(",
        impl_->communicator->rank(), ") on all of them, after the last step");
  nn::NamedTensors list = *impl_->consolidated;
  for (auto& [key, t] : mine)
    if (!state_key(key)) list.emplace_back(key, t);
  return list;
}

nn::NamedTensors ZeroRedundancyBase::part_of(const nn::NamedTensors& state) {
  impl_->consolidated.reset();
  nn::NamedTensors mine;
  std::string problems;
  for (auto& [key, t] : state) {
    const auto k = state_key(key);
    if (!k) {
      mine.emplace_back(key, t);
      continue;
    }
    if (k->param >= impl_->params.size()) {
      problems += message("\n  unexpected: ", key);
      continue;
    }
    const Tensor& param = impl_->params[k->param];
    const bool count = k->name == kCount;
    const Dims shape = count ? Dims{} : param.shape();
    if (!(t.shape() == shape)) {
      problems += message("\n  misshapen: ", key, ' ', t.shape(), ", not ", shape);
      continue;
    }
    Tensor in_order;  // of the parameter's memory
    for (size_t i = 0; i < impl_->pieces.size(); ++i) {
      const auto& piece = impl_->pieces[i];
      if (!piece || piece->param != k->param) continue;
      if (!count && !in_order) {
        const Tensor dense = copy_of(t, {.dtype = t.dtype(), .device = t.device(), .layout = param.layout()});
        in_order = dense.alias({dense.numel()}, {1}, dense.impl()->offset);
      }
      mine.emplace_back(message(k->name, '.', i), count ? t : in_order.narrow(0, piece->from, piece->tensor.numel()));
    }
  }
  check(problems.empty(), "[load_state_dict] this state does not fit an optimizer of ", impl_->params.size(),
        " parameters:", problems);
  return mine;
}

}  // namespace tandem
