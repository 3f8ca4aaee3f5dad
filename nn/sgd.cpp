#include <tandem/nn/sgd.h>
#include <tandem/ops/sgd.h>

namespace tandem::nn {
namespace {
constexpr size_t kMomentumBuffer = 0;
}

std::vector<ParamGroup::Option> SGDGroup::options() {
  auto list = ParamGroup::options();
  list.insert(list.end(), {{"momentum", &momentum}, {"dampening", &dampening}, {"nesterov", &nesterov}});
  return list;
}

SGD::SGD(std::vector<Tensor> params, Options o)
    : Optimizer({.name = "SGD", .state_names = {"momentum_buffer"}, .options = kSgdOptions}) {
  add_param_group(std::move(params), o);
}

void SGD::add_param_group(std::vector<Tensor> params, Options o) {
  check(o.lr >= 0, "[SGD] lr is ", o.lr, ", and may not be negative");
  check(o.momentum >= 0, "[SGD] momentum is ", o.momentum, ", and may not be negative");
  check(o.weight_decay >= 0, "[SGD] weight_decay is ", o.weight_decay, ", and may not be negative");
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "[SGD] nesterov wants momentum and no dampening, got ",
        o.momentum, " and ", o.dampening);
  auto group = std::make_unique<SGDGroup>();
  group->params = std::move(params);
  group->lr = o.lr;
  group->momentum = o.momentum;
  group->dampening = o.dampening;
  group->weight_decay = o.weight_decay;
  group->nesterov = o.nesterov;
  group->maximize = o.maximize;
  add_group(std::move(group));
}

bool SGD::needs_state(const ParamGroup& group, size_t) const {
  return static_cast<const SGDGroup&>(group).momentum != 0;
}

void SGD::write_options(const ParamGroup& group, double* to) const {
  auto& g = static_cast<const SGDGroup&>(group);
  to[kSgdLr] = g.lr;
  to[kSgdMomentum] = g.momentum;
  to[kSgdDampening] = g.dampening;
  to[kSgdWeightDecay] = g.weight_decay;
  to[kSgdNesterov] = g.nesterov;
  to[kSgdMaximize] = g.maximize;
}

void SGD::update(Table& t) {
  sgd_step(t.device, std::span<const ParamRow>(t.rows), t.states[kMomentumBuffer], t.options);
}

void SGD::count_update(Table& t) const {
  // All that matters is whether there is a buffer yet: a count would tell apart rows that can run as one.
  for (auto& r : t.rows)
    if (r.active() && needs_state(*groups_[size_t(r.group)], kMomentumBuffer)) r.step = 1;
}

}  // namespace tandem::nn
