#include <tandem/core/error.h>
#include <tandem/parallel/fnv1a.h>
#include <tandem/parallel/rendezvous.h>
#include <tandem/parallel/tcp_socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace tandem {
namespace {

constexpr int kMostRanks = 1 << 20, kMostRestarts = 1 << 20;
constexpr const char* kLoopback = "127.0.0.1";
// Ports that derive from a job: below those that outgoing connections are given.
constexpr uint32_t kFirstPort = 15000, kPorts = 15000;

std::optional<int> to_int(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// The variables of one launcher, and what is said when one is missing.
class Variables {
 public:
  Variables(const Environment& environment, std::string launcher)
      : environment_(environment), launcher_(std::move(launcher)) {}

  std::string text(const std::string& name) const {
    const auto value = environment_(name);
    check(value.has_value(), "[init_process_group] env://: ", name, " is not set, as it should be by ", launcher_);
    return *value;
  }
  int number(const std::string& name, int least, int most) const { return in_range(name, text(name), least, most); }
  int number_or(const std::string& name, int least, int most, int otherwise) const {
    const auto value = environment_(name);
    return value ? in_range(name, *value, least, most) : otherwise;
  }
  std::optional<std::string> first(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (auto value = environment_(name)) return value;
    return {};
  }

 private:
  static int in_range(const std::string& name, const std::string& text, int least, int most) {
    const auto value = to_int(text);
    check(value && least <= *value && *value <= most, "[init_process_group] env://: ", name, " is '", text,
          "', which is no number from ", least, " to ", most);
    return *value;
  }

  const Environment& environment_;
  const std::string launcher_;
};

int port_of_job(const std::string& job) { return int(kFirstPort + fnv1a(job) % kPorts); }

void take_master(Rendezvous& r, const Variables& v) {
  r.host = v.text("MASTER_ADDR");
  r.port = v.number("MASTER_PORT", 1, 65535);
}

void take_local(Rendezvous& r, const Variables& v) {
  const int local_rank = v.number_or("LOCAL_RANK", 0, kMostRanks, -1);
  const int local_world_size = v.number_or("LOCAL_WORLD_SIZE", 1, kMostRanks, -1);
  const int world_size = v.number_or("WORLD_SIZE", 1, kMostRanks, r.world_size);
  r.several_nodes = local_world_size > 0 && local_world_size < world_size;
  if (world_size != r.world_size) return;  // the program has made a world of its own
  r.local_rank = local_rank;
  r.local_world_size = local_world_size;
}

Rendezvous from_launcher(const Environment& environment, int rank, int world_size) {
  const Variables v(environment, "tandem-run, torchrun and the like");
  Rendezvous r;
  r.rank = rank >= 0 ? rank : v.number("RANK", 0, kMostRanks);
  r.world_size = world_size >= 0 ? world_size : v.number("WORLD_SIZE", 1, kMostRanks);
  take_local(r, v);
  take_master(r, v);
  return r;
}

// Rank 0's node. All ranks must come to the same, whatever their own machine makes of the names.
std::string slurm_master(const Variables& v) {
  const auto launched_from = v.first({"SLURM_LAUNCH_NODE_IPADDR"});
  // A batch script runs on the job's first node, and so does the srun in it.
  if (launched_from && v.first({"ENVIRONMENT"}) == "BATCH") return *launched_from;
  const std::string node = first_node(v.first({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}).value_or(""));
  try {
    if (!node.empty() && !is_loopback(resolve(node, 0)[0])) return node;
  } catch (const CommError&) {
    // A name for SLURM alone.
  }
  return launched_from ? *launched_from : node;
}

Rendezvous from_slurm(const Environment& environment) {
  const Variables v(environment, "srun");
  Rendezvous r;
  r.rank = v.number("SLURM_PROCID", 0, kMostRanks);
  r.world_size = v.number(environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1, kMostRanks);
  r.local_rank = v.number("SLURM_LOCALID", 0, kMostRanks);
  const auto tasks = v.first({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  r.local_world_size = tasks_of_node(tasks.value_or(""), v.number_or("SLURM_NODEID", 0, kMostRanks, 0));
  const int nodes = v.number_or("SLURM_STEP_NUM_NODES", 1, kMostRanks, v.number_or("SLURM_NNODES", 1, kMostRanks, 1));
  r.several_nodes = nodes > 1;
  r.host = v.first({"MASTER_ADDR"}).value_or(r.several_nodes ? slurm_master(v) : kLoopback);
  check(!r.host.empty(), "[init_process_group] env://: srun gives no address of rank 0's node: set MASTER_ADDR");
  r.port = environment("MASTER_PORT") ? v.number("MASTER_PORT", 1, 65535)
                                      : port_of_job(v.text("SLURM_JOB_ID") + "." + v.text("SLURM_STEP_ID"));
  return r;
}

Rendezvous from_open_mpi(const Environment& environment) {
  const Variables v(environment, "mpirun");
  Rendezvous r;
  r.rank = v.number("OMPI_COMM_WORLD_RANK", 0, kMostRanks);
  r.world_size = v.number("OMPI_COMM_WORLD_SIZE", 1, kMostRanks);
  r.local_rank = v.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, kMostRanks);
  r.local_world_size = v.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks);
  r.several_nodes = r.local_world_size < r.world_size;
  std::string host = kLoopback;
  if (r.several_nodes) host = environment("SLURM_JOB_ID") ? slurm_master(v) : "";
  r.host = v.first({"MASTER_ADDR"}).value_or(host);
  check(!r.host.empty(),
        "[init_process_group] env://: MASTER_ADDR is not set, and the ranks are on several nodes: add -x "
        "MASTER_ADDR=<address of rank 0's node> to mpirun");
  if (environment("MASTER_PORT")) {
    r.port = v.number("MASTER_PORT", 1, 65535);
  } else {
    const auto job = v.first({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"});
    check(job.has_value(),
          "[init_process_group] env://: MASTER_PORT is not set, and mpirun gives no job to derive it "
          "from");
    r.port = port_of_job(*job);
  }
  return r;
}

Rendezvous from_environment(const Environment& environment, int rank, int world_size) {
  // What a launcher of ours sets counts before what the engine below it sets, and mpirun before the SLURM it runs in.
  if (environment("RANK") || rank >= 0) return from_launcher(environment, rank, world_size);
  if (environment("OMPI_COMM_WORLD_RANK")) return from_open_mpi(environment);
  if (environment("SLURM_PROCID") && environment("SLURM_STEP_ID")) return from_slurm(environment);
  throw Error(
      "[init_process_group] env://: RANK is not set. Start the program with tandem-run, torchrun, srun or mpirun, or "
      "set "
      "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

// "host:port", "[::1]:port"
void take_address(Rendezvous& r, const std::string& init_method, const std::string& address) {
  const size_t colon = address.rfind(':');
  const int port = colon == address.npos ? -1 : to_int(address.substr(colon + 1)).value_or(-1);
  check(colon != 0 && 0 <= port && port <= 65535, "[init_process_group] '", init_method,
        "' is not of the form tcp://host:port");
  r.host = address.substr(0, colon);
  if (r.host.starts_with('[') && r.host.ends_with(']')) r.host = r.host.substr(1, r.host.size() - 2);
  r.port = port;
  check(r.port != 0 || r.world_size == 1, "[init_process_group] '", init_method,
        "': port 0 takes a free port, which the other ranks could not know");
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value || !*value) return {};
    return value;
  };
}

std::string first_node(const std::string& list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == list.npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

int tasks_of_node(const std::string& tasks_per_node, int node) {
  for (size_t at = 0; at < tasks_per_node.size();) {
    const size_t end = std::min(tasks_per_node.find(',', at), tasks_per_node.size());
    const std::string entry = tasks_per_node.substr(at, end - at);
    const size_t times = entry.find("(x");
    const auto tasks = to_int(entry.substr(0, times));
    const auto nodes =
        times == entry.npos ? std::optional(1) : to_int(entry.substr(times + 2, entry.size() - times - 3));
    if (!tasks || !nodes) return -1;
    if (node < *nodes) return *tasks;
    node -= *nodes;
    at = end + 1;
  }
  return -1;
}

Rendezvous thread_of(const Rendezvous& process, int thread, int n) {
  Rendezvous r = process;
  r.rank = process.rank * n + thread;
  r.world_size *= n;
  if (r.local_rank >= 0) r.local_rank = process.local_rank * n + thread;
  if (r.local_world_size > 0) r.local_world_size *= n;
  r.ranks_of_process = n;
  return r;
}

Rendezvous parse_init_method(const std::string& init_method, int rank, int world_size, const Environment& environment) {
  Rendezvous r;
  if (init_method == "env://") {
    r = from_environment(environment, rank, world_size);
  } else {
    const bool tcp = init_method.starts_with("tcp://"), file = init_method.starts_with("file://");
    check(tcp || file, "[init_process_group] the init method '", init_method,
          "' is none of env://, tcp://host:port and file:///path");
    check(rank >= 0, "[init_process_group] ", init_method, ": the argument rank is missing");
    check(world_size >= 1, "[init_process_group] ", init_method, ": the argument world_size is missing");
    r.rank = rank;
    r.world_size = world_size;
    take_local(r, Variables(environment, "the launcher"));
    if (tcp) {
      take_address(r, init_method, init_method.substr(6));
    } else {
      r.file = init_method.substr(7);
      check(!r.file.empty(), "[init_process_group] '", init_method, "' names no file");
      r.host = environment("MASTER_ADDR").value_or(kLoopback);
    }
  }
  r.restarts = Variables(environment, "tandem-run").number_or("TANDEM_RESTART_COUNT", 0, kMostRestarts, 0);
  check(r.rank < r.world_size, "[init_process_group] rank ", r.rank, " can't be in a world of ", r.world_size);
  return r;
}

std::optional<Rendezvous> launched_rendezvous(const Environment& environment) {
  const bool slurm_step = environment("SLURM_PROCID") && environment("SLURM_STEP_ID");
  if (!environment("RANK") && !environment("OMPI_COMM_WORLD_RANK") && !slurm_step) return {};
  return parse_init_method("env://", -1, -1, environment);
}

}  // namespace tandem
