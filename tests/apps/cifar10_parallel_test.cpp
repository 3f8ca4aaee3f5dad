// cifar10 train on several replicas: the same run, however many there are and whatever they are.
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

using namespace tandem::test;
using tandem::message;
namespace fs = std::filesystem;

namespace {

// 2 epochs of 11 steps, the last one of 10 images.
std::vector<std::string> run(const std::string& folder, const std::string& net, std::vector<std::string> more) {
  std::vector<std::string> args = {
      "train", "--dataset",    "synthetic", "--net", net,    "--epochs",    "2", "--limit-train", "330", "--limit-test",
      "100",   "--batch-size", "32",        "--lr",  "0.05", "--log-every", "1", "--checkpoint",  folder};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<double> losses(const std::string& folder) {
  std::vector<double> all;
  std::istringstream in(read_text(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (auto j = nlohmann::json::parse(line, nullptr, false); !j.is_discarded() && j.contains("loss"))
      all.push_back(j["loss"]);
  return all;
}

std::string last_checkpoint(const std::string& folder) {
  std::string last;
  for (auto& e : fs::directory_iterator(folder))
    if (e.path().filename().string().starts_with("step-")) last = std::max(last, e.path().string());
  return last;
}

// Kills one of the processes whose command line is of that program and names that folder.
void kill_a_process_of(const std::string& program, const std::string& folder) {
  for (auto& e : fs::directory_iterator("/proc")) {
    const std::string line = read_text(e.path().string() + "/cmdline");
    if (line.starts_with(program + '\0') && line.find(folder) != std::string::npos) {
      ::kill(pid_t(std::stol(e.path().filename().string())), SIGKILL);
      return;
    }
  }
  FAIL("no such process");
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
}

}  // namespace

TEST_CASE("cifar10 train --parallel: losses are those of one device") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", run(tmp / "none", "mlp", {})).code == 0);
  const auto alone = losses(tmp / "none");
  REQUIRE(alone.size() == 24);  // a line a step, and one an epoch
  const std::vector<std::vector<std::string>> ways = {{"--parallel", "dp", "--replicas", "2"},
                                                      {"--parallel", "dp", "--replicas", "3"},
                                                      {"--parallel", "ddp", "--replicas", "2"},
                                                      {"--parallel", "ddp", "--replicas", "3"},
                                                      {"--parallel", "ddp", "--replicas", "11"}};  // one has no part
  for (auto& way : ways) {                                                                         // in the last batch
    const std::string folder = tmp / (way[1] + way[3]);
    Finished r = run_program("cifar10", run(folder, "mlp", way));
    INFO(r.output);
    CHECK(r.code == 0);
    CHECK(r.output.find("batches of 32") != std::string::npos);
    check_close(losses(folder), alone);
  }
}

TEST_CASE("cifar10 train --parallel ddp: killed and resumed, it ends in the straight run's file; any number goes on") {
  TemporaryFolder tmp;
  const std::vector<std::string> two = {"--parallel", "ddp", "--replicas", "2", "--save-every", "2"};
  REQUIRE(run_program("cifar10", run(tmp / "straight", "small", two)).code == 0);

  auto resumed = two;
  resumed.insert(resumed.end(), {"--resume", "auto"});
  {
    Program p("cifar10", run(tmp / "killed", "small", two));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (p.running() && std::chrono::steady_clock::now() < deadline &&
           !(fs::exists(tmp / "killed") && !last_checkpoint(tmp / "killed").empty()))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    p.signal(SIGKILL);
    p.wait();
  }
  REQUIRE(!last_checkpoint(tmp / "killed").empty());
  fs::copy(tmp / "killed", tmp / "other", fs::copy_options::recursive);
  Finished r = run_program("cifar10", run(tmp / "killed", "small", resumed));
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(read_text(last_checkpoint(tmp / "killed")) == read_text(last_checkpoint(tmp / "straight")));

  resumed[3] = std::string("3");
  Finished o = run_program("cifar10", run(tmp / "other", "small", resumed));
  INFO(o.output);
  CHECK(o.code == 0);
  CHECK(o.output.find("3 ranks as threads") != std::string::npos);
}

TEST_CASE("cifar10 train --parallel ddp under tandem-run: killed, it goes on from its last checkpoint by itself") {
  TemporaryFolder tmp;
  const std::string program = std::string(TANDEM_PROGRAM_DIR) + "/cifar10";
  auto under = [&](std::vector<std::string> launcher, const std::vector<std::string>& args) {
    launcher.push_back(program);
    launcher.insert(launcher.end(), args.begin(), args.end());
    return launcher;
  };
  Finished straight =
      run_program("tandem-run", under({"-n", "2"}, run(tmp / "straight", "small", {"--parallel", "ddp"})));
  INFO(straight.output);
  REQUIRE(straight.code == 0);
  CHECK(straight.output.find("2 ranks as processes: batches of 32, 16 each") != std::string::npos);

  const std::vector<std::string> saving = {"--parallel", "ddp", "--save-every", "2", "--resume", "auto"};
  Program p("tandem-run", under({"-n", "2", "--max-restarts", "1"}, run(tmp / "killed", "small", saving)));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (p.running() && std::chrono::steady_clock::now() < deadline &&
         !(fs::exists(tmp / "killed") && !last_checkpoint(tmp / "killed").empty()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill_a_process_of(program, tmp / "killed");
  const int code = p.wait();
  INFO(p.output());
  CHECK(code == 0);
  CHECK(read_text(last_checkpoint(tmp / "killed")) == read_text(last_checkpoint(tmp / "straight")));
}

TEST_CASE("cifar10 train --parallel ddp: ranks with disks of their own go on from the same state or not at all") {
  TemporaryFolder tmp;
  const std::vector<std::string> two = {"--parallel", "ddp", "--replicas", "2", "--save-every", "2"};
  REQUIRE(run_program("cifar10", run(tmp / "disk0", "small", two)).code == 0);
  // Each rank's --checkpoint, by the variable that the launcher sets.
  auto resume = [&](const std::string& disks) {
    std::string command = message(TANDEM_PROGRAM_DIR, "/cifar10");
    for (auto& arg : run(disks, "small", {"--parallel", "ddp", "--resume", "auto"}))
      command += message(" \"", arg, '"');
    return run_program("tandem-run", {"-n", "2", "sh", "-c", command});
  };
  auto other_disk = [&](const char* name) {
    fs::remove_all(tmp / "disk1");
    if (name) fs::copy(tmp / name, tmp / "disk1", fs::copy_options::recursive);
  };
  SUBCASE("nothing on one of them") {
    other_disk(nullptr);
    Finished r = resume(tmp / "disk$RANK");
    INFO(r.output);
    CHECK(r.code != 0);
    CHECK(says(r.output, "the ranks would not go on from the same state:\n  rank 0: step 22\n  rank 1: no checkpoint"));
  }
  SUBCASE("an earlier step") {
    other_disk("disk0");
    fs::remove(last_checkpoint(tmp / "disk1"));
    Finished r = resume(tmp / "disk$RANK");
    INFO(r.output);
    CHECK(r.code != 0);
    CHECK(says(r.output, "rank 0: step 22\n  rank 1: step 20"));
  }
  SUBCASE("the same step of another run") {
    REQUIRE(run_program("cifar10", run(tmp / "other", "small", {"--parallel", "ddp", "--replicas", "3"})).code == 0);
    other_disk("other");
    Finished r = resume(tmp / "disk$RANK");
    INFO(r.output);
    CHECK(r.code != 0);
    CHECK(says(r.output, "rank 1: step 22, but of other contents than rank 0's"));
  }
  SUBCASE("the same") {
    other_disk("disk0");
    Finished r = resume(tmp / "disk$RANK");
    INFO(r.output);
    CHECK(r.code == 0);
  }
}

TEST_CASE("cifar10 train --parallel ddp: threads of processes end in the file of as many threads") {
  TemporaryFolder tmp;
  const std::vector<std::string> four = {"--parallel", "ddp", "--replicas", "4"};
  Finished threads = run_program("cifar10", run(tmp / "threads", "small", four));
  INFO(threads.output);
  REQUIRE(threads.code == 0);
  std::vector<std::string> launched = {"-n", "2", "cifar10"};
  for (auto& arg : run(tmp / "both", "small", four)) launched.push_back(arg);
  Finished both = run_program("tandem-run", launched);
  INFO(both.output);
  REQUIRE(both.code == 0);
  CHECK(both.output.find("4 ranks as threads of 2 processes: batches of 32, 8 each") != std::string::npos);
  CHECK(read_text(last_checkpoint(tmp / "both")) == read_text(last_checkpoint(tmp / "threads")));
}

TEST_CASE("cifar10 train --parallel: what can't be") {
  TemporaryFolder tmp;
  Finished r = run_program("cifar10", run(tmp / "a", "mlp", {"--parallel", "ddp", "--replicas", "33"}));
  CHECK(r.code == 1);
  CHECK(r.output.find("a batch of 32 leaves nothing for some of 33 ranks") != std::string::npos);

  std::vector<std::string> launched = {"-n", "2", "cifar10"};
  for (auto& arg : run(tmp / "b", "mlp", {"--parallel", "ddp", "--replicas", "3"})) launched.push_back(arg);
  r = run_program("tandem-run", launched);
  CHECK(r.code == 1);
  CHECK(r.output.find("--replicas 3, which the 2 processes that the launcher has started can't share") !=
        std::string::npos);
}
