#include <tandem/nn/adam.h>
#include <tandem/ops/adam.h>

namespace tandem::nn {
namespace {
enum State : size_t { kExpAvg, kExpAvgSq, kMaxExpAvgSq };
}

std::vector<ParamGroup::Option> AdamGroup::options() {
  auto list = ParamGroup::options();
  list.insert(list.end(), {{"beta1", &betas[0]}, {"beta2", &betas[1]}, {"eps", &eps}, {"amsgrad", &amsgrad}});
  return list;
}

Adam::Adam(const char* name, bool decoupled)
    : Optimizer({.name = name,
                 .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
                 .counts_steps = true,
                 .options = kAdamOptions}),
      name_(name),
      decoupled_(decoupled) {}

Adam::Adam(std::vector<Tensor> params, Options o) : Adam("Adam", false) { add_param_group(std::move(params), o); }

AdamW::AdamW(std::vector<Tensor> params, Options o) : Adam("AdamW", true) { add_param_group(std::move(params), o); }

void AdamW::add_param_group(std::vector<Tensor> params, Options o) {
  Adam::add_param_group(std::move(params), {.lr = o.lr,
                                            .betas = o.betas,
                                            .eps = o.eps,
                                            .weight_decay = o.weight_decay,
                                            .amsgrad = o.amsgrad,
                                            .maximize = o.maximize});
}

void Adam::add_param_group(std::vector<Tensor> params, Options o) {
  check(o.lr >= 0, "[", name_, "] lr is ", o.lr, ", and may not be negative");
  check(o.eps >= 0, "[", name_, "] eps is ", o.eps, ", and may not be negative");
  check(o.weight_decay >= 0, "[", name_, "] weight_decay is ", o.weight_decay, ", and may not be negative");
  for (double beta : o.betas)
    check(beta >= 0 && beta < 1, "[", name_, "] betas are ", o.betas[0], " and ", o.betas[1],
          ", and have to lie in [0, 1)");
  auto group = std::make_unique<AdamGroup>();
  group->params = std::move(params);
  group->lr = o.lr;
  group->betas = o.betas;
  group->eps = o.eps;
  group->weight_decay = o.weight_decay;
  group->amsgrad = o.amsgrad;
  group->maximize = o.maximize;
  add_group(std::move(group));
}

bool Adam::needs_state(const ParamGroup& group, size_t state) const {
  return state != kMaxExpAvgSq || static_cast<const AdamGroup&>(group).amsgrad;
}

void Adam::write_options(const ParamGroup& group, double* to) const {
  auto& g = static_cast<const AdamGroup&>(group);
  to[kAdamLr] = g.lr;
  to[kAdamBeta1] = g.betas[0];
  to[kAdamBeta2] = g.betas[1];
  to[kAdamEps] = g.eps;
  to[kAdamWeightDecay] = g.weight_decay;
  to[kAdamDecoupled] = decoupled_;
  to[kAdamAmsgrad] = g.amsgrad;
  to[kAdamMaximize] = g.maximize;
}

void Adam::update(Table& t) {
  adam_step(t.device, std::span<const ParamRow>(t.rows),
            AdamState{t.states[kExpAvg], t.states[kExpAvgSq], t.states[kMaxExpAvgSq], t.steps}, t.options);
}

void Adam::count_update(Table& t) const {
  for (auto& r : t.rows)
    if (r.active()) ++r.step;
}

}  // namespace tandem::nn
