#include "tests/golden/sequences.h"
#include "tests/golden/compare.h"

#include <tandem/core/generator.h>
#include <tandem/ops/random.h>

#include <nlohmann/json.hpp>

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

const std::map<std::string, Check> kChecks = {{"randperm", check_randperm}};
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
