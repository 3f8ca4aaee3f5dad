// An optimizer's state by name, and back.
#include <tandem/core/copy.h>
#include <tandem/nn/optimizer.h>

#include <algorithm>
#include <map>

namespace tandem::nn {
namespace {

std::string key_of(std::string_view what, size_t parameter) { return message(what, '.', parameter); }

constexpr std::string_view kStep = "step";

template <class T>
Tensor scalar(T value) {
  return from_vector(std::vector<T>{value}, {}, {.device = cpu()});
}

}  // namespace

// Flat memory in the order of the parameter's own memory, seen with its shape and strides.
Tensor Optimizer::state_of(const Table& t, const ParamRow& r, size_t state) const {
  return t.states[state].alias(r.leaf->meta.shape, r.leaf->meta.strides, r.state_offset);
}

NamedTensors Optimizer::parameter_states() const {
  struct Place {
    const Table* table = nullptr;
    size_t row = 0;
  };
  std::vector<Place> places(slots_.size());
  for (auto& t : tables_)
    for (size_t i = 0; i < t.rows.size(); ++i) places[t.slots[i]] = {&t, i};

  NamedTensors list;
  for (size_t p = 0; p < places.size(); ++p) {
    if (!places[p].table) continue;
    const Table& t = *places[p].table;
    const ParamRow& r = t.rows[places[p].row];
    if (r.step == 0) continue;
    if (description_.counts_steps)
      list.emplace_back(key_of(kStep, p), scalar(t.steps.alias({}, {}, int64_t(places[p].row)).item<int64_t>()));
    for (size_t k = 0; k < t.states.size(); ++k)
      if (t.states[k] && needs_state(*groups_[size_t(r.group)], k))
        list.emplace_back(key_of(description_.state_names[k], p), state_of(t, r, k));
  }
  return list;
}

void Optimizer::set_parameter_states(const NamedTensors& states) {
  allocate_states();
  std::map<std::string_view, const Tensor*> by_key;
  for (auto& [key, t] : states) by_key[key] = &t;
  for (auto& t : tables_)
    for (size_t i = 0; i < t.rows.size(); ++i) {
      ParamRow& r = t.rows[i];
      r.step = 0;
      for (size_t k = 0; k < t.states.size(); ++k) {
        if (!t.states[k]) continue;
        Tensor to = state_of(t, r, k);
        auto from = by_key.find(key_of(description_.state_names[k], t.slots[i]));
        if (from == by_key.end()) {
          fill_into(to, 0);
          continue;
        }
        copy_into({to, 0}, *from->second);
        r.step = 1;
      }
      if (!description_.counts_steps) continue;
      auto count = by_key.find(key_of(kStep, t.slots[i]));
      r.step = count == by_key.end() ? 0 : count->second->item<int64_t>();
      Tensor to = t.steps.alias({}, {}, int64_t(i));
      fill_into(to, double(r.step));
    }
}

NamedTensors Optimizer::state_dict() {
  follow_parameters();
  NamedTensors list = parameter_states();
  for (size_t g = 0; g < groups_.size(); ++g)
    for (auto& [name, value] : groups_[g]->options()) {
      std::string key = message("group", g, '.', name);
      if (auto flag = std::get_if<bool*>(&value))
        list.emplace_back(std::move(key), scalar<int64_t>(**flag));
      else
        list.emplace_back(std::move(key), scalar<double>(*std::get<double*>(value)));
    }
  return list;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  follow_parameters();
  // What may stand under each key: a parameter's state, or a group's option.
  struct Expected {
    Dims shape;
    bool optional;
  };
  std::map<std::string, Expected> expected;
  for (size_t p = 0; p < slots_.size(); ++p) {
    if (description_.counts_steps) expected[key_of(kStep, p)] = {{}, true};
    for (auto name : description_.state_names) expected[key_of(name, p)] = {slots_[p].param.shape(), true};
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (auto& [name, value] : groups_[g]->options()) expected[message("group", g, '.', name)] = {{}, false};
    expected[message("group", g, ".initial_lr")] = {{}, true};
  }

  std::string problems;
  std::map<std::string_view, const Tensor*> found;
  for (auto& [key, t] : state) {
    auto e = expected.find(key);
    if (e == expected.end() || !found.emplace(key, &t).second)
      problems += message("\n  unexpected: ", key);
    else if (!(t.shape() == e->second.shape))
      problems += message("\n  misshapen: ", key, ' ', t.shape(), ", not ", e->second.shape);
  }
  for (size_t p = 0; p < slots_.size(); ++p) {  // a parameter has all of its state or none
    const ParamGroup& group = *groups_[size_t(slots_[p].group)];
    std::vector<std::string> keys;
    if (description_.counts_steps) keys.push_back(key_of(kStep, p));
    for (size_t k = 0; k < description_.state_names.size(); ++k)
      if (needs_state(group, k)) keys.push_back(key_of(description_.state_names[k], p));
    if (std::any_of(keys.begin(), keys.end(), [&](auto& key) { return found.count(key); }))
      for (auto& key : keys) expected[key].optional = false;
  }
  for (auto& [key, e] : expected)
    if (!e.optional && !found.count(key)) problems += message("\n  missing: ", key);
  check(problems.empty(), "[load_state_dict] this state does not fit ", description_.name, " with ", groups_.size(),
        " groups and ", slots_.size(), " parameters:", problems);

  for (size_t g = 0; g < groups_.size(); ++g) {
    ParamGroup& group = *groups_[g];
    group.initial_lr.reset();
    if (found.count(message("group", g, ".initial_lr"))) group.initial_lr = 0;
    for (auto& [name, value] : group.options()) {
      const Tensor& t = *found.at(message("group", g, '.', name));
      if (auto flag = std::get_if<bool*>(&value))
        **flag = t.item<int64_t>() != 0;
      else
        *std::get<double*>(value) = t.item<double>();
    }
  }
  set_parameter_states(state);
}

}  // namespace tandem::nn
