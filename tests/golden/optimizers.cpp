#include "tests/golden/optimizers.h"

#include <tandem/nn/adam.h>
#include <tandem/nn/cosine_annealing_lr.h>
#include <tandem/nn/linear_lr.h>
#include <tandem/nn/one_cycle_lr.h>
#include <tandem/nn/sgd.h>
#include <tandem/nn/step_lr.h>

#include <nlohmann/json.hpp>

#include <set>

namespace tandem::golden {
namespace {

using nlohmann::json;

// Keyword arguments: what is not there keeps the option's default, and nothing may be left that nobody asked for.
class Arguments {
 public:
  explicit Arguments(const json& args) : args_(args) {}
  template <class T>
  Arguments& read(const char* name, T& to) {
    known_.insert(name);
    if (args_.contains(name)) to = args_.at(name).get<T>();
    return *this;
  }
  void done() const {
    for (auto& [name, value] : args_.items()) check(known_.contains(name), "unknown argument ", name);
  }

 private:
  const json& args_;
  std::set<std::string> known_{"type"};
};

template <class O>
Arguments read_common(const json& args, O& o) {
  Arguments a(args);
  a.read("lr", o.lr).read("weight_decay", o.weight_decay).read("maximize", o.maximize);
  return a;
}

template <class O>
O adam_options(const json& args) {
  O o;
  read_common(args, o).read("betas", o.betas).read("eps", o.eps).read("amsgrad", o.amsgrad).done();
  return o;
}

nn::OneCycleLR::Options one_cycle_options(const json& args) {
  double max_lr = 0, base_momentum = 0.85, max_momentum = 0.95;
  std::string anneal = "cos";
  nn::OneCycleLR::Options o{.max_lr = max_lr};
  Arguments(args)
      .read("max_lr", max_lr)
      .read("total_steps", o.total_steps)
      .read("epochs", o.epochs)
      .read("steps_per_epoch", o.steps_per_epoch)
      .read("pct_start", o.pct_start)
      .read("anneal_strategy", anneal)
      .read("cycle_momentum", o.cycle_momentum)
      .read("base_momentum", base_momentum)
      .read("max_momentum", max_momentum)
      .read("div_factor", o.div_factor)
      .read("final_div_factor", o.final_div_factor)
      .read("three_phase", o.three_phase)
      .done();
  o.max_lr = max_lr;
  o.base_momentum = base_momentum;
  o.max_momentum = max_momentum;
  if (anneal == "linear") o.anneal_strategy = nn::OneCycleLR::Anneal::linear;
  return o;
}

}  // namespace

std::unique_ptr<nn::Optimizer> make_optimizer(const json& spec, std::vector<Tensor> parameters) {
  const std::string type = spec.at("type");
  if (type == "SGD") {
    nn::SGD::Options o;
    read_common(spec, o)
        .read("momentum", o.momentum)
        .read("dampening", o.dampening)
        .read("nesterov", o.nesterov)
        .done();
    return std::make_unique<nn::SGD>(std::move(parameters), o);
  }
  if (type == "Adam") return std::make_unique<nn::Adam>(std::move(parameters), adam_options<nn::Adam::Options>(spec));
  if (type == "AdamW")
    return std::make_unique<nn::AdamW>(std::move(parameters), adam_options<nn::AdamW::Options>(spec));
  throw Error("there is no optimizer " + type);
}

std::unique_ptr<nn::LRScheduler> make_scheduler(const std::string& type, const json& args, nn::Optimizer& optimizer) {
  Arguments a(args);
  if (type == "StepLR") {
    nn::StepLR::Options o;
    a.read("step_size", o.step_size).read("gamma", o.gamma).done();
    return std::make_unique<nn::StepLR>(optimizer, o);
  }
  if (type == "MultiStepLR") {
    nn::MultiStepLR::Options o;
    a.read("milestones", o.milestones).read("gamma", o.gamma).done();
    return std::make_unique<nn::MultiStepLR>(optimizer, o);
  }
  if (type == "ExponentialLR") {
    double gamma = 0;
    a.read("gamma", gamma).done();
    return std::make_unique<nn::ExponentialLR>(optimizer, gamma);
  }
  if (type == "CosineAnnealingLR") {
    nn::CosineAnnealingLR::Options o;
    a.read("T_max", o.T_max).read("eta_min", o.eta_min).done();
    return std::make_unique<nn::CosineAnnealingLR>(optimizer, o);
  }
  if (type == "LinearLR") {
    nn::LinearLR::Options o;
    a.read("start_factor", o.start_factor).read("end_factor", o.end_factor).read("total_iters", o.total_iters).done();
    return std::make_unique<nn::LinearLR>(optimizer, o);
  }
  if (type == "OneCycleLR") return std::make_unique<nn::OneCycleLR>(optimizer, one_cycle_options(args));
  throw Error("there is no schedule " + type);
}

}  // namespace tandem::golden
