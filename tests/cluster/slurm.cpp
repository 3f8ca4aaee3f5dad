#include "tests/cluster/slurm.h"

#include "tests/support/program.h"
#include "tests/support/text.h"

#include <tandem/core/error.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

namespace tandem::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

template <class F>
bool becomes(std::chrono::seconds within, F f) {
  const auto until = Clock::now() + within;
  while (!f()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(50ms);
  }
  return true;
}

Finished run(const std::vector<std::string>& words) { return run_program(words[0], {words.begin() + 1, words.end()}); }

// Jobs' steps may share the nodes, and a node that came back is taken again.
std::string configuration(const Network& network, const std::string& folder) {
  std::string text =
      message("ClusterName=tandem\nSlurmctldHost=hub(", Network::address(0), ")\nAuthInfo=socket=", folder,
              "/munge.socket\nStateSaveLocation=", folder, "/state\nSlurmdSpoolDir=", folder,
              "/spool.%n\nSlurmctldPidFile=", folder, "/controller.pid\nSlurmdPidFile=", folder,
              "/%n.pid\nSlurmctldLogFile=", folder, "/controller.log\nSlurmdLogFile=", folder, "/%n.log\n");
  text +=
      "SlurmUser=root\nSlurmdUser=root\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n"
      "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n"
      "PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP\n";
  for (int i = 1; i <= network.nodes(); ++i)
    text += message("NodeName=n", i, " NodeAddr=", Network::address(i), " CPUs=", std::thread::hardware_concurrency(),
                    '\n');
  return text;
}

}  // namespace

Slurm::Slurm(const Network& network) : network_(network), conf_("SLURM_CONF", folder_ / "slurm.conf") {
  write_text(folder_ / "slurm.conf", configuration(network, folder_.path()));
  std::string key;
  std::random_device random;
  for (int i = 0; i < 256; ++i) key += char(random());
  write_text(folder_ / "munge.key", key);
  std::filesystem::permissions(folder_ / "munge.key", std::filesystem::perms::owner_read);
  std::filesystem::create_directory(folder_ / "state");
  try {
    start(0, {"munged", "--foreground", "--force", "--key-file=" + (folder_ / "munge.key"),
              "--socket=" + (folder_ / "munge.socket"), "--pid-file=" + (folder_ / "munge.pid"),
              "--log-file=" + (folder_ / "munge.log"), "--seed-file=" + (folder_ / "munge.seed")});
    check(becomes(10s, [&] { return std::filesystem::exists(folder_ / "munge.socket"); }), "munged does not start",
          logs());
    start(0, {"slurmctld", "-D"});
    for (int i = 1; i <= network.nodes(); ++i) {
      std::filesystem::create_directory(folder_ / message("spool.n", i));
      start(i, {"slurmd", "-D", "-N", message("n", i)});
    }
    check(becomes(30s, [&] { return all_idle(); }), "SLURM's nodes do not come up", logs());
  } catch (...) {
    stop();
    throw;
  }
}

Slurm::~Slurm() { stop(); }

// With a process namespace of its own: what it has started, the steps of jobs, ends with it in any case.
void Slurm::start(int node, const std::vector<std::string>& command) {
  const Descriptor log(::open((folder_ / "printed.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::vector<std::string> words{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  words.insert(words.end(), command.begin(), command.end());
  daemons_.emplace_back(
      ChildProcessOptions{.command = network_.at(node, words), .output = log.get(), .error = log.get()});
}

void Slurm::stop() {
  if (daemons_.size() > 2) {
    run(on_hub({"scancel", "--user=root", "--full"}));
    becomes(10s, [&] { return run(on_hub({"squeue", "--noheader"})).output.empty(); });
  }
  daemons_.clear();
}

std::string Slurm::batch(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"sbatch", "--parsable"});
  const Finished submitted = run(on_hub(arguments));
  check(submitted.code == 0, "sbatch: ", submitted.output);
  const std::string job = submitted.output.substr(0, submitted.output.find_first_not_of("0123456789"));
  std::string state;
  auto over = [&] {
    state = run(on_hub({"scontrol", "show", "job", job})).output;
    return !says(state, "JobState=PENDING") && !says(state, "JobState=RUNNING") && !says(state, "JobState=COMPLETING");
  };
  check(becomes(120s, over), "the job does not end: ", state, logs());
  check(says(state, "JobState=COMPLETED"), "the job has failed: ", state);
  return job;
}

bool Slurm::all_idle() const {
  return count(run(on_hub({"sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"})).output, "\n") ==
         size_t(network_.nodes());
}

std::string Slurm::logs() const {
  std::string text;
  for (auto& e : std::filesystem::directory_iterator(folder_.path()))
    if (e.path().extension() == ".log")
      text += message("\n== ", e.path().filename().string(), '\n', read_text(e.path()));
  return text;
}

}  // namespace tandem::test
