#include <tandem/core/copy.h>
#include <tandem/core/node.h>
#include <tandem/core/replica.h>
#include <tandem/nn/module.h>

#include <algorithm>
#include <unordered_set>

namespace tandem::nn {

Tensor Module::forward(const Tensor&) {
  throw Error(message("[", type_name(), "] forward takes other arguments than one tensor, or is not defined"));
}

// -- registration -----------------------------------------------------------------------------------------------

void Module::reserve_name(const std::string& name, const void* member) const {
  const std::string who = type_name();
  check(!name.empty() && name.find('.') == std::string::npos, "[", who, "] \"", name,
        "\" can't name a member: names are not empty and have no dot");
  auto test = [&](const std::string& other, const void* p) {
    check(p != member, "[", who, "] the member added as \"", name, "\" is already registered as \"", other, "\"");
    check(other != name, "[", who, "] the name \"", name, "\" is already taken by another member");
  };
  for (auto& e : tensors_) test(e.name, e.tensor);
  for (auto& [n, m] : children_) test(n, m);
}

bool Module::contains(const Module& other) const {
  if (this == &other) return true;
  return std::any_of(children_.begin(), children_.end(), [&](auto& c) { return c.second->contains(other); });
}

void Module::add(const std::string& name, Module& child) {
  reserve_name(name, &child);
  check(!child.contains(*this), "[", type_name(), "] \"", name, "\" contains the module it is added to");
  children_.emplace_back(name, &child);
}

void Module::add(const std::string& name, Tensor& parameter) {
  reserve_name(name, &parameter);
  if (parameter) {
    const auto bytes = size_t(parameter.numel()) * size_of(parameter.dtype());
    check(parameter.is_leaf() && parameter.is_dense_in_any_layout() && parameter.storage()->bytes == bytes, "[",
          type_name(), "] the parameter \"", name, "\" of shape ", parameter.shape(),
          " is a view or the result of an op: a clone() outside the graph can be a parameter");
    parameter.set_requires_grad();
  }
  tensors_.push_back({name, &parameter, true});
}

void Module::add_buffer(const std::string& name, Tensor& buffer) {
  reserve_name(name, &buffer);
  tensors_.push_back({name, &buffer, false});
}

// -- traversal --------------------------------------------------------------------------------------------------

// PyTorch's order: a module's parameters, its buffers, then each child.
template <class F>
void Module::walk(const std::string& prefix, F&& visit) const {
  for (bool parameters : {true, false})
    for (auto& e : tensors_)
      if (e.is_parameter == parameters && *e.tensor) visit(prefix.empty() ? e.name : prefix + e.name, e);
  for (auto& [name, child] : children_) child->walk(prefix + name + ".", visit);
}

namespace {
// A tensor that two members share is one parameter.
class Once {
 public:
  bool operator()(const Tensor& t) { return seen_.insert(t.impl()).second; }

 private:
  std::unordered_set<TensorImpl*> seen_;
};
}  // namespace

NamedTensors Module::named_parameters() const {
  NamedTensors list;
  Once first;
  walk("", [&](std::string name, const Entry& e) {
    if (e.is_parameter && first(*e.tensor)) list.emplace_back(std::move(name), *e.tensor);
  });
  return list;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> list;
  for (auto& [name, t] : named_parameters()) list.push_back(t);
  return list;
}

NamedTensors Module::state_dict() const {
  NamedTensors list;
  walk("", [&](std::string name, const Entry& e) { list.emplace_back(std::move(name), e.tensor->detach()); });
  return list;
}

NamedTensors Module::named_buffers() const {
  NamedTensors list;
  Once first;
  walk("", [&](std::string name, const Entry& e) {
    if (!e.is_parameter && first(*e.tensor)) list.emplace_back(std::move(name), *e.tensor);
  });
  return list;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> list{{"", this}};
  for (auto& [name, child] : children_)
    for (auto& [below, m] : child->named_modules()) list.emplace_back(below.empty() ? name : name + "." + below, m);
  return list;
}

int64_t Module::num_parameters() const {
  int64_t n = 0;
  for (auto& t : parameters()) n += t.numel();
  return n;
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, child] : children_) child->train(on);
}

void Module::apply(const std::function<void(Module&)>& fn) {
  for (auto& [name, child] : children_) child->apply(fn);
  fn(*this);
}

void Module::zero_grad() const {
  walk("", [](const std::string&, const Entry& e) { e.tensor->zero_grad(); });
}

void Module::requires_grad_(bool on) {
  walk("", [&](const std::string&, const Entry& e) {
    if (e.is_parameter) e.tensor->set_requires_grad(on);
  });
}

// -- moving and converting --------------------------------------------------------------------------------------

namespace {

void require_no_wrapper(const Tensor& t, const std::string& name) {
  Leaf* l = t.leaf();
  check((!l || !l->observer) && !t.impl()->twins, "[to] a data-parallel wrapper holds ", name,
        ": move or convert the module before wrapping it");
}

// The handle keeps its identity; what it refers to is a converted copy. Views of the old memory keep the old values.
void convert(Tensor& t, Dtype dtype) {
  TensorOptions o = t.options();
  o.dtype = dtype;
  Tensor converted = copy_of(t, o);
  TensorImpl& impl = *t.impl();
  impl.dtype = dtype;
  impl.storage = converted.storage();
  impl.strides = converted.strides();
  impl.offset = 0;
}

void convert_leaf(Leaf& l, const Tensor& t) {
  l.value = t.storage();
  l.value_offset = 0;
  l.meta.dtype = t.dtype();
  l.meta.strides = t.strides();
  if (l.written)
    convert(l.window, t.dtype());
  else
    l.window = {};
}

}  // namespace

void Module::to(Device device) {
  require_device(device);
  walk("", [](const std::string& name, const Entry& e) { require_no_wrapper(*e.tensor, name); });
  walk("", [&](const std::string&, const Entry& e) {
    e.tensor->storage()->move_to(device);
    Leaf* l = e.tensor->leaf();
    if (!l) return;
    l->meta.device = device;
    if (l->window) l->window.storage()->move_to(device);
  });
}

void Module::to(Dtype dtype) {
  check<DtypeError>(is_floating(dtype), "[to] a module's parameters are floating, not ", dtype);
  walk("", [](const std::string& name, const Entry& e) { require_no_wrapper(*e.tensor, name); });
  walk("", [&](const std::string&, const Entry& e) {
    Tensor& t = *e.tensor;
    if (!is_floating(t.dtype()) || t.dtype() == dtype) return;
    convert(t, dtype);
    if (Leaf* l = t.leaf()) convert_leaf(*l, t);
  });
}

}  // namespace tandem::nn
