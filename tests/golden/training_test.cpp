#include "tests/golden/training.h"

#include <nlohmann/json.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

using namespace tandem;
using namespace tandem::golden;
using nlohmann::json;

namespace {

// A run that passes, and whose parts a test can spoil.
struct Toy {
  SafetensorsFile file = load(TANDEM_SOURCE_DIR "/tests/golden/data/train_toy_sgd.safetensors");
  json run = json::parse(file.metadata.at("run"));

  int failures(Options options = {}) {
    file.metadata["run"] = run.dump();
    std::ostringstream lines;
    Report report(lines);
    run_training("toy", file, {}, options, report);
    CHECK_FALSE(report.ran_nothing());
    return report.failures();
  }
  Tensor& tensor(const std::string& name) {
    for (auto& [n, t] : file.tensors)
      if (n == name) return t;
    throw Error("no tensor " + name);
  }
};

}  // namespace

TEST_CASE("a run that agrees passes") { CHECK(Toy().failures() == 0); }

TEST_CASE("each number of a run counts, in both precisions") {
  Toy t;
  t.run["losses"][3] = t.run["losses"][3].get<double>() * 1.001;
  CHECK(t.failures() == 2);

  Toy slightly;  // within the tolerance of f32 and beyond that of f64
  slightly.run["losses"][3] = slightly.run["losses"][3].get<double>() * (1 + 1e-6);
  CHECK(slightly.failures() == 1);
  CHECK(slightly.failures({.dtypes = {Dtype::f32}}) == 0);

  Toy rates;
  rates.run["lrs"][5] = 0.0500001;
  CHECK(rates.failures() == 2);

  Toy gradient;
  gradient.tensor("grad0.fc.bias").span<double>()[1] += 1e-3;
  CHECK(gradient.failures() == 2);

  Toy final_weights;
  final_weights.tensor("final.fc.weight").span<double>()[4] += 1e-2;
  CHECK(final_weights.failures() == 2);

  Toy clipped;
  clipped.run["grad_norms"] = {1.0};
  CHECK(clipped.failures() == 2);
}

TEST_CASE("initial weights are compared to the bit") {
  Toy t;
  float& w = t.tensor("init.fc.weight").span<float>()[0];
  w = std::nextafter(w, 1.f);
  CHECK(t.failures({.dtypes = {Dtype::f32}}) == 1);
  Toy other;
  other.run["seed"] = 7;
  CHECK(other.failures({.dtypes = {Dtype::f32}}) == 2);  // weight and bias
}

TEST_CASE("what the program does not know is a failure") {
  const std::pair<const char*, json> changes[] = {{"model", "Unheard"},
                                                  {"loss", "unheard"},
                                                  {"optimizer", {{"type", "Unheard"}}},
                                                  {"optimizer", {{"type", "SGD"}, {"lr", 0.05}, {"unheard", 1}}},
                                                  {"schedule", {{"type", "Unheard"}}},
                                                  {"normalize", {{"mean", {0.5}}, {"std", {0.5}}}}};
  for (auto& [key, value] : changes) {
    Toy t;
    t.run[key] = value;
    INFO(key);
    CHECK(t.failures() >= 2);
  }
  Toy t;
  t.run.erase("steps");
  CHECK(t.failures() == 2);
}
