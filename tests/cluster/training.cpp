#include "tests/cluster/training.h"

#include "tests/support/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

namespace tandem::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (says(line, part)) found.push_back(line);
  return found;
}

// Of a training's steps and epochs, as it logs them.
std::vector<double> losses(const std::string& folder) {
  std::vector<double> all;
  std::istringstream in(read_text(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (auto j = nlohmann::json::parse(line, nullptr, false); !j.is_discarded() && j.contains("loss"))
      all.push_back(j["loss"]);
  return all;
}

// The process whose command line names the folder and whose environment has this.
pid_t find_process(const std::string& folder, const std::string& variable) {
  const std::string program = ours("cifar10")[0] + '\0';
  for (auto& e : std::filesystem::directory_iterator("/proc")) {
    const std::string line = read_text(e.path() / "cmdline"), environment = '\0' + read_text(e.path() / "environ");
    if (line.starts_with(program) && says(line, folder) && says(environment, '\0' + variable + '\0'))
      return pid_t(std::stol(e.path().filename()));
  }
  return -1;
}

}  // namespace

std::vector<std::string> ours(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{std::string(TANDEM_PROGRAM_DIR) + "/" + name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::vector<std::string> short_training() {
  return {"--dataset",    "synthetic", "--net",       "mlp", "--limit-train", "330", "--limit-test", "100",
          "--batch-size", "32",        "--log-every", "1",   "--epochs",      "2",   "--lr",         "0.05"};
}

std::vector<std::string> training(const std::string& folder, const std::vector<std::string>& more) {
  auto arguments = short_training();
  arguments.insert(arguments.begin(), "train");
  arguments.insert(arguments.end(), {"--checkpoint", folder});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return ours("cifar10", arguments);
}

std::vector<std::string> endless() { return {"--net", "small", "--epochs", "1000000", "--parallel", "ddp"}; }

void check_same_losses(const std::string& folder) {
  static const std::vector<double> of_one_process = [] {
    TemporaryFolder alone;
    const Finished r = finished(training(alone / "run", {}));
    INFO(r.output);
    REQUIRE(r.code == 0);
    return losses(alone / "run");
  }();
  const auto here = losses(folder);
  REQUIRE(of_one_process.size() == 24);  // a line a step, and one an epoch
  REQUIRE(here.size() == 24);
  for (size_t i = 0; i < here.size(); ++i) CHECK(here[i] == doctest::Approx(of_one_process[i]).epsilon(1e-4));
}

std::vector<std::string> toy_losses(const std::string& output) {
  auto lines = lines_with(output, ": loss ");
  std::sort(lines.begin(), lines.end());
  return lines;
}

Program started(const std::vector<std::string>& words) { return Program(words[0], {words.begin() + 1, words.end()}); }

Finished finished(const std::vector<std::string>& words) {
  return run_program(words[0], {words.begin() + 1, words.end()});
}

void kill_rank(const std::string& folder, const std::string& variable) {
  constexpr size_t kUnderWay = 8;  // steps
  const auto patience = Clock::now() + 60s;
  while (losses(folder).size() < kUnderWay && Clock::now() < patience) std::this_thread::sleep_for(5ms);
  REQUIRE(losses(folder).size() >= kUnderWay);
  const pid_t pid = find_process(folder, variable);
  REQUIRE(pid > 0);
  REQUIRE(::kill(pid, SIGKILL) == 0);
}

std::string last_checkpoint(const std::string& folder) {
  std::string last;
  for (auto& e : std::filesystem::directory_iterator(folder))
    if (e.path().filename().string().starts_with("step-")) last = std::max(last, e.path().string());
  return read_text(last);
}

void check_kill(const std::string& folder, int ranks, int victim, const std::string& variable,
                const std::function<std::string(int)>& errors_of) {
  kill_rank(folder, message(variable, '=', victim));
  const auto killed = Clock::now();

  std::map<int, int64_t> after_ms;  // of each rank, its message
  auto named = [&](int rank) {
    const auto said = lines_with(errors_of(rank), message(": rank ", victim, ' '));
    return std::any_of(said.begin(), said.end(), [](auto& line) { return says(line, "has died"); });
  };
  while (int(after_ms.size()) < ranks - 1 && Clock::now() - killed < 10s) {
    for (int r = 0; r < ranks; ++r)
      if (r != victim && !after_ms.contains(r) && named(r)) after_ms[r] = (Clock::now() - killed) / 1ms;
    std::this_thread::sleep_for(1ms);
  }
  std::string times;
  for (auto& [rank, ms] : after_ms) times += message(times.empty() ? "" : ", ", "rank ", rank, " after ", ms, " ms");
  MESSAGE("rank ", victim, " of ", ranks, " killed; it was named by ", times);
  for (int r = 0; r < ranks; ++r) {
    INFO("rank ", r, " said: ", errors_of(r));
    CHECK((r == victim || after_ms.contains(r)));
  }
}

}  // namespace tandem::test
