// The job files of docs/launching.md: those for sbatch and mpirun are executed as they stand there, of those for
// Kubernetes the ranks are started with the variables that its operators set.
#include "tests/cluster/slurm.h"
#include "tests/cluster/training.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

std::string page() { return read_text(std::string(TANDEM_SOURCE_DIR) + "/docs/launching.md"); }

// The block of the page in which that stands.
std::string block_with(const std::string& part) {
  std::istringstream in(page());
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      if (inside && says(block, part)) return block;
      inside = !inside;
      block.clear();
    } else if (inside) {
      block += line + '\n';
    }
  }
  FAIL("no block of docs/launching.md has ", part);
  return {};
}

// What stands between two texts.
std::string between(const std::string& text, const std::string& left, const std::string& right) {
  const size_t from = text.find(left);
  REQUIRE(from != text.npos);
  const size_t to = text.find(right, from + left.size());
  REQUIRE(to != text.npos);
  return text.substr(from + left.size(), to - from - left.size());
}

// Where a job is started: `cifar10` there is the program, whose training is short.
class JobFolder {
 public:
  JobFolder() {
    std::string script = "#!/bin/sh\nexec '" + ours("cifar10")[0] + "' \"$@\"";
    for (auto& word : short_training()) script += ' ' + word;
    write_text(folder_ / "cifar10", script + '\n');
    std::filesystem::permissions(folder_ / "cifar10", std::filesystem::perms::owner_all);
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

// The containers of a job: one on each node, with these variables and, but for the search path, no others.
class Pods {
 public:
  Pods(const Network& network, const JobFolder& folder, const std::vector<std::string>& command,
       const std::function<std::vector<std::string>(int)>& variables_of) {
    for (int i = 0; i < network.nodes(); ++i) {
      std::vector<std::string> words{"env", "-i", "--chdir=" + folder.path(),
                                     message("PATH=", folder.path(), ':', TANDEM_PROGRAM_DIR, ":/usr/bin:/bin"),
                                     "OMP_WAIT_POLICY=passive"};
      for (auto& part : {variables_of(i), command}) words.insert(words.end(), part.begin(), part.end());
      words = network.at(i + 1, words);
      programs_.push_back(std::make_unique<Program>(words[0], std::vector(words.begin() + 1, words.end())));
    }
  }
  void check_success() {
    for (auto& p : programs_) {
      const int code = p->wait();
      INFO(p->output());
      CHECK(code == 0);
    }
  }

 private:
  std::vector<std::unique_ptr<Program>> programs_;
};

std::vector<std::string> words_of(const std::string& list) { return nlohmann::json::parse(list); }

}  // namespace

TEST_CASE("the job file for sbatch") {
  const Network network(2);
  const Slurm slurm(network);
  const JobFolder folder;
  write_text(folder / "cifar10.sbatch", block_with("#SBATCH"));
  const std::string job = slurm.batch({"--chdir=" + folder.path(), folder / "cifar10.sbatch"}),
                    log = read_text(folder / message("cifar10-", job, ".log"));
  INFO(log);
  CHECK(says(log, "4 ranks as processes: batches of 32, 8 each"));
  check_same_losses(folder / "runs/slurm");
}

TEST_CASE("the job file for mpirun") {
  const Network network(2);
  const JobFolder folder;
  write_text(folder / "job.sh", block_with("mpirun --hostfile"));
  write_text(folder / "hosts", "n1 slots=2\nn2 slots=2\n");
  // What a cluster's administrator has seen to: how another machine is reached; and that this is root, on few cores.
  Variable shell("OMPI_MCA_plm_rsh_agent", network.remote_shell()), root("OMPI_ALLOW_RUN_AS_ROOT", "1"),
      indeed("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"), unbound("OMPI_MCA_hwloc_base_binding_policy", "none");
  const int64_t before = network.bytes_sent(1);
  Finished r = finished(network.at(0, {"env", "--chdir=" + folder.path(), "sh", "job.sh"}));
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(says(r.output, "4 ranks as processes: batches of 32, 8 each"));
  CHECK(network.bytes_sent(1) - before > 10'000'000);
  check_same_losses(folder / "runs/mpi");
}

TEST_CASE("the job file for Kubernetes: a PyTorchJob's variables") {
  const std::string job = block_with("kind: PyTorchJob"),
                    name = between(between(job, "PyTorchJob", "spec"), "name: ", "\n");
  const std::string master = between(job, "    Master:", "    Worker:"), worker = job.substr(job.find("    Worker:"));
  const int workers = std::stoi(between(worker, "replicas: ", "\n"));
  REQUIRE(between(master, "replicas: ", "\n") == "1");
  const std::string command = between(master, "command: ", "\n");
  CHECK(between(worker, "command: ", "\n") == command);
  const std::string token = between(job, "token: \"", "\"");
  for (auto& pod : {master, worker}) CHECK(says(pod, "- name: TANDEM_TOKEN\n"));

  const Network network(1 + workers);
  const JobFolder folder;
  Pods pods(network, folder, words_of(command), [&](int pod) {
    return std::vector<std::string>{"MASTER_ADDR=" + name + "-master-0",
                                    "MASTER_PORT=23456",
                                    message("WORLD_SIZE=", 1 + workers),
                                    message("RANK=", pod),
                                    "PYTHONUNBUFFERED=1",
                                    "TANDEM_TOKEN=" + token};
  });
  // The master's name is known a moment after its pod has started.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::ofstream(network.hosts(), std::ios::app) << Network::address(1) << ' ' << name << "-master-0\n";
  pods.check_success();
  check_same_losses(folder / "runs/kubernetes");
}

TEST_CASE("the job file for Kubernetes: a TrainJob's variables") {
  auto command = words_of("[\"tandem-run\"" + between(page(), "[\"tandem-run\"", "]") + "]");
  for (auto& word : short_training()) command.push_back(word);  // tandem-run finds the program beside itself
  const Network network(2);
  const JobFolder folder;
  std::ofstream(network.hosts(), std::ios::app) << Network::address(1) << " cifar10-node-0-0.cifar10\n";
  Pods pods(network, folder, command, [&](int pod) {
    return std::vector<std::string>{"PET_NNODES=2",
                                    "PET_NPROC_PER_NODE=2",
                                    message("PET_NODE_RANK=", pod),
                                    "PET_MASTER_ADDR=cifar10-node-0-0.cifar10",
                                    "PET_MASTER_PORT=29400",
                                    "TANDEM_TOKEN=any long random text"};
  });
  pods.check_success();
  check_same_losses(folder / "runs/trainer");
}
