#include "tests/golden/training.h"
#include "tests/golden/compare.h"
#include "tests/golden/models.h"
#include "tests/golden/optimizers.h"

#include <tandem/core/copy.h>
#include <tandem/core/generator.h>
#include <tandem/nn/clip_grad.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/view.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <iostream>

namespace tandem::golden {
namespace {

using nlohmann::json;
using Fail = std::function<void(const std::string& what)>;

constexpr double kSharp = 1e-9;  // in f64, of the largest magnitude in a tensor
constexpr double kRates = 1e-12;

// The tensors whose names begin with `prefix`, without it.
NamedTensors with_prefix(const SafetensorsFile& file, const std::string& prefix) {
  NamedTensors found;
  for (auto& [name, t] : file.tensors)
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), t);
  return found;
}

// (pixel / 255 - mean) / std by channel, in float32 as the reference does it.
Tensor normalized(const Tensor& pixels, const json& normalize) {
  auto mean = normalize.at("mean").get<std::vector<float>>(), std = normalize.at("std").get<std::vector<float>>();
  const int64_t channels = pixels.size(1), plane = pixels.size(2) * pixels.size(3);
  check(int64_t(mean.size()) == channels && int64_t(std.size()) == channels, "normalize: not a number per channel");
  const auto from = pixels.to_vector<uint8_t>();
  std::vector<float> to(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t c = size_t(int64_t(i) / plane % channels);
    to[i] = (float(from[i]) / 255.f - mean[c]) / std[c];
  }
  return from_vector(to, pixels.shape());
}

class Run {
 public:
  Run(const SafetensorsFile& file, const SafetensorsFile& images, const json& spec)
      : file_(file), images_(images), spec_(spec) {}

  // Default construction after manual_seed draws what the reference drew, to the bit.
  void check_initial_weights(const Fail& fail) const {
    manual_seed(spec_.at("seed").get<uint64_t>());
    auto model = make_model(spec_.at("model"));
    compare("initial ", model->state_dict(), with_prefix(file_, "init."), {}, fail);
  }

  void train(Dtype dtype, const Fail& fail) const {
    auto model = make_model(spec_.at("model"));
    model->load_state_dict(with_prefix(file_, "init."));
    model->to(dtype);
    auto optimizer = make_optimizer(spec_.at("optimizer"), model->parameters());
    const json& schedule = spec_.at("schedule");
    const bool clip = schedule.is_object() && schedule.at("type") == "clip";
    std::unique_ptr<nn::LRScheduler> scheduler;
    if (schedule.is_object() && !clip) scheduler = make_scheduler(schedule.at("type"), schedule, *optimizer);

    auto [x, y] = data(dtype);
    const int64_t batch = spec_.at("batch"), steps = spec_.at("steps");
    NamedTensors grad0;
    std::vector<double> losses, lrs, grad_norms;
    for (int64_t s = 0; s < steps; ++s) {
      optimizer->zero_grad();
      Tensor loss = loss_of((*model)(x.narrow(0, s * batch, batch)), y.narrow(0, s * batch, batch));
      loss.backward();
      losses.push_back(loss.item<double>());
      if (s == 0)
        for (auto& [name, p] : model->named_parameters())
          if (Tensor g = p.grad()) grad0.emplace_back(name, copy_of(g, g.options()));
      if (clip)
        grad_norms.push_back(
            nn::clip_grad_norm_(model->parameters(), schedule.at("max_norm").get<double>()).item<double>());
      lrs.push_back(optimizer->param_groups()[0].lr);
      optimizer->step();
      if (scheduler && s + 1 < steps) scheduler->step();
    }

    const json& own = spec_.at("tolerance");
    auto tolerance = [&](const char* of, bool scalars) -> Tolerance {
      if (dtype == Dtype::f64) return {.of_largest = kSharp};
      double t = own.at(of);
      return scalars ? Tolerance{.relative = t} : Tolerance{.of_largest = t};
    };
    compare("losses", losses, tolerance("loss", true), fail);
    compare("grad_norms", grad_norms, tolerance("loss", true), fail);
    compare("lrs", lrs, {.of_largest = kRates}, fail);
    compare("first gradient of ", grad0, with_prefix(file_, "grad0."), tolerance("grad0", false), fail);
    compare("final ", model->state_dict(), with_prefix(file_, "final."), tolerance("final", false), fail);
  }

 private:
  std::pair<Tensor, Tensor> data(Dtype dtype) const {
    auto stored = [&](const char* name) {
      Tensor t = file_.find(name);
      return t ? t : images_.find(name);
    };
    Tensor x = stored("x"), y = stored("y");
    if (const json& normalize = spec_.at("normalize"); !normalize.is_null()) {
      Tensor pixels = stored("x_u8");
      check(pixels.defined(), "no x_u8, here or in images.safetensors");
      x = normalized(pixels, normalize);
    }
    check(x && y, "no x or no y, here or in images.safetensors");
    auto widened = [&](const Tensor& t) { return is_floating(t.dtype()) ? copy_of(t, {.dtype = dtype}) : t; };
    return {widened(x), widened(y)};
  }

  Tensor loss_of(const Tensor& y, const Tensor& target) const {
    const std::string loss = spec_.at("loss");
    if (loss == "cross_entropy") return cross_entropy(y, target);
    if (loss == "mse_loss") return mse_loss(y, target);
    throw Error("there is no loss " + loss);
  }

  static void compare(const std::string& what, const NamedTensors& got, const NamedTensors& want, Tolerance tolerance,
                      const Fail& fail) {
    if (got.size() != want.size()) fail(message(what, "tensors: ", got.size(), ", not ", want.size()));
    for (auto& [name, w] : want) {
      auto g = std::find_if(got.begin(), got.end(), [&name = name](auto& entry) { return entry.first == name; });
      std::string d = g == got.end() ? "there is none" : difference(g->second, w, tolerance);
      if (!d.empty()) fail(message(what, name, ": ", d));
    }
  }
  void compare(const char* what, const std::vector<double>& got, Tolerance tolerance, const Fail& fail) const {
    std::string d = difference(got, spec_.at(what).get<std::vector<double>>(), tolerance);
    if (!d.empty()) fail(message(what, ": ", d));
  }

  const SafetensorsFile &file_, &images_;
  const json& spec_;
};

}  // namespace

void run_training(const std::string& name, const SafetensorsFile& file, const SafetensorsFile& images,
                  const Options& options, Report& report) {
  if (!options.wants(name)) return;
  const json spec = json::parse(file.metadata.at("run"));
  report.count(Report::training_run);
  if (options.list) {
    std::cout << name << ' ' << spec.at("model") << ' ' << spec.at("optimizer") << ' ' << spec.at("schedule") << '\n';
    return;
  }
  Run run(file, images, spec);
  auto guarded = [&](const std::string& label, auto&& part) {
    Fail fail = [&](const std::string& what) { report.fail(label, what); };
    try {
      part(fail);
    } catch (const std::exception& e) {
      fail(e.what());
    }
  };
  guarded(name, [&](const Fail& fail) { run.check_initial_weights(fail); });
  for (Dtype t : options.dtypes) guarded(message(name, " ", t), [&](const Fail& fail) { run.train(t, fail); });
}

}  // namespace tandem::golden
