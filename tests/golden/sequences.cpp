#include "tests/golden/sequences.h"
#include "tests/golden/compare.h"
#include "tests/golden/optimizers.h"

#include <tandem/core/generator.h>
#include <tandem/data/distributed_sampler.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/random.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

namespace tandem::golden {
namespace {

using nlohmann::json;

// What is wrong with one entry of a key's list, or empty.
using Check = std::string (*)(const json& entry);

std::string check_randperm(const json& e) {
  manual_seed(e.at("seed").get<uint64_t>());
  auto want = e.at("perm").get<std::vector<int64_t>>();
  return difference(randperm(e.at("n").get<int64_t>()), from_vector(want, {int64_t(want.size())}), {});
}

std::string check_distributed_sampler(const json& e) {
  const auto ranks = e.at("ranks").get<std::vector<std::vector<int64_t>>>();
  for (size_t r = 0; r < ranks.size(); ++r) {
    data::DistributedSampler sampler(e.at("n").get<int64_t>(), {.num_replicas = e.at("num_replicas").get<int64_t>(),
                                                                .rank = int64_t(r),
                                                                .shuffle = e.at("shuffle").get<bool>(),
                                                                .seed = e.at("seed").get<uint64_t>(),
                                                                .drop_last = e.at("drop_last").get<bool>()});
    sampler.set_epoch(e.at("epoch").get<int64_t>());
    for (size_t i = 0; i < ranks[r].size(); ++i) {
      auto index = sampler.next();
      if (!index) return message("rank ", r, " ends after ", i, " of ", ranks[r].size());
      if (*index != ranks[r][i]) return message("rank ", r, ", index ", i, " is ", *index, ", not ", ranks[r][i]);
    }
    if (sampler.next()) return message("rank ", r, " has more than ", ranks[r].size());
  }
  return {};
}

// Rates, and SGD's momentum beside them, of the steps from the schedule's construction on.
std::string check_lr(const json& e) {
  constexpr double kRelative = 1e-12;
  const auto want_lrs = e.at("lrs").get<std::vector<double>>(),
             want_momenta = e.at("momenta").get<std::vector<double>>();
  nn::SGD optimizer({ones({1}, {.requires_grad = true})},
                    {.lr = e.at("base_lr").get<double>(), .momentum = want_momenta.at(0)});
  auto scheduler = make_scheduler(e.at("type"), e.at("args"), optimizer);
  std::vector<double> lrs, momenta;
  for (size_t s = 0; s < want_lrs.size(); ++s) {
    lrs.push_back(optimizer.param_groups()[0].lr);
    momenta.push_back(optimizer.param_groups()[0].momentum);
    optimizer.step();
    if (s + 1 < want_lrs.size()) scheduler->step();
  }
  const std::string type = e.at("type").get<std::string>() + ": ";
  std::string d = difference(lrs, want_lrs, {.of_largest = kRelative});
  if (!d.empty()) return type + "lrs: " + d;
  d = difference(momenta, want_momenta, {.of_largest = kRelative});
  return d.empty() ? d : type + "momenta: " + d;
}

// "linear_5_2", "conv2d_3_4_3": layers by their sizes. Throws Error for any other name.
std::unique_ptr<nn::Module> make_layer(const std::string& name) {
  long long a = 0, b = 0, k = 0;
  int read = 0;
  if (std::sscanf(name.c_str(), "linear_%lld_%lld%n", &a, &b, &read) == 2 && size_t(read) == name.size())
    return std::make_unique<nn::Linear>(a, b);
  if (std::sscanf(name.c_str(), "conv2d_%lld_%lld_%lld%n", &a, &b, &k, &read) == 3 && size_t(read) == name.size())
    return std::make_unique<nn::Conv2d>(a, b, nn::Conv2d::Options{.kernel = k});
  throw Error("there is no layer " + name);
}

std::string check_init(const json& e) {
  for (auto& [name, weights] : e.items()) {
    if (name == "seed") continue;
    manual_seed(e.at("seed").get<uint64_t>());  // each layer was made after a seeding of its own
    auto layer = make_layer(name);
    for (auto& [key, t] : layer->state_dict()) {
      std::string d = difference(t.to_vector<double>(), weights.at(key).get<std::vector<double>>(), {});
      if (!d.empty()) return message(name, ".", key, ": ", d);
    }
  }
  return {};
}

const std::map<std::string, Check> kChecks = {{"randperm", check_randperm},
                                              {"distributed_sampler", check_distributed_sampler},
                                              {"lr", check_lr},
                                              {"init", check_init}};
const std::set<std::string> kOfALaterFeature = {"grad_scaler"};

}  // namespace

void run_sequences(const std::string& path, const Options& options, Report& report) {
  std::ifstream in(path);
  const json sequences = json::parse(in);
  for (auto& [key, entries] : sequences.items()) {
    std::string label = "sequences " + key;
    if (!options.wants(label)) continue;
    if (kOfALaterFeature.contains(key)) {
      report.not_run(key);
      continue;
    }
    report.count(Report::sequence);
    if (options.list) {
      std::cout << label << ' ' << entries.size() << '\n';
      continue;
    }
    auto check_entry = kChecks.find(key);
    if (check_entry == kChecks.end()) {
      report.fail(label, "this program does not know it");
      continue;
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string what;
      try {
        what = check_entry->second(entries.at(i));
      } catch (const std::exception& e) {
        what = e.what();
      }
      if (!what.empty()) report.fail(message(label, " ", i), what);
    }
  }
}

}  // namespace tandem::golden
