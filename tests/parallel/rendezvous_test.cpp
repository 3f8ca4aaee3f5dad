// Init methods: what launchers and cluster engines set, what is missing or wrong, and the file that rank 0 writes.
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/core/error.h>
#include <tandem/parallel/join_group.h>
#include <tandem/parallel/rendezvous.h>
#include <tandem/parallel/rendezvous_file.h>
#include <tandem/parallel/store_server.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using std::chrono::milliseconds;

namespace {

using Variables = std::map<std::string, std::string>;

Environment environment(Variables v) {
  return [v = std::move(v)](const std::string& name) -> std::optional<std::string> {
    auto it = v.find(name);
    if (it == v.end()) return {};
    return it->second;
  };
}

Rendezvous from_env(const Variables& v) { return parse_init_method("env://", -1, -1, environment(v)); }

std::string error_of(const std::string& method, int rank, int world_size, const Variables& v) {
  try {
    parse_init_method(method, rank, world_size, environment(v));
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

const Variables kLauncher{{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "10.0.0.7"},
                          {"MASTER_PORT", "29500"}};

// As srun of SLURM 22.05 sets them.
const Variables kSrun{{"SLURM_PROCID", "3"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_NNODES", "2"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_STEP_NUM_NODES", "2"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                      {"SLURM_STEP_NODELIST", "n[1-2]"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "10.1.0.1"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"}};

// As mpirun of Open MPI 4.1 sets them.
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "3409641473"}};

Variables with(Variables v, const std::string& name, const std::string& value) {
  v[name] = value;
  return v;
}
Variables without(Variables v, const std::string& name) {
  v.erase(name);
  return v;
}

// Runs fn(rank) for each rank in a thread; what each threw, if anything.
template <class F>
std::vector<std::string> in_threads(int ranks, F fn) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        fn(r);
      } catch (const std::exception& e) {
        errors[size_t(r)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return errors;
}

}  // namespace

TEST_CASE("env:// of a launcher") {
  const Rendezvous r = from_env(kLauncher);
  CHECK(r.rank == 3);
  CHECK(r.world_size == 8);
  CHECK(r.local_rank == 1);
  CHECK(r.local_world_size == 2);
  CHECK(r.several_nodes);
  CHECK(r.host == "10.0.0.7");
  CHECK(r.port == 29500);
  CHECK(r.file.empty());

  // As Kubernetes' training operators do it, without local ranks.
  const Rendezvous bare = from_env(without(without(kLauncher, "LOCAL_RANK"), "LOCAL_WORLD_SIZE"));
  CHECK(bare.local_rank == -1);
  CHECK(bare.local_world_size == -1);
  CHECK_FALSE(bare.several_nodes);

  // Arguments count for more.
  const Rendezvous given = parse_init_method("env://", 5, 6, environment(kLauncher));
  CHECK(given.rank == 5);
  CHECK(given.world_size == 6);
  // Nobody has said which of those six are on this machine; but the launcher's are on several.
  CHECK(given.local_rank == -1);
  CHECK(given.local_world_size == -1);
  CHECK(given.several_nodes);
}

TEST_CASE("threads of a launcher's processes") {
  const Rendezvous r = thread_of(from_env(kLauncher), 1, 4);
  CHECK(r.rank == 13);
  CHECK(r.world_size == 32);
  CHECK(r.local_rank == 5);
  CHECK(r.local_world_size == 8);
  CHECK(r.ranks_of_process == 4);
  CHECK(r.several_nodes);
  CHECK(r.host == "10.0.0.7");
  const Rendezvous bare = thread_of(from_env(without(without(kLauncher, "LOCAL_RANK"), "LOCAL_WORLD_SIZE")), 1, 4);
  CHECK(bare.local_rank == -1);
  CHECK(bare.local_world_size == -1);
}

TEST_CASE("env:// names the variable that is missing or wrong") {
  for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    CAPTURE(name);
    CHECK(error_of("env://", -1, -1, without(kLauncher, name)).find(message(name, " is not set")) != std::string::npos);
  }
  CHECK(error_of("env://", -1, -1, {}).find("RANK is not set") != std::string::npos);
  CHECK(error_of("env://", -1, -1, with(kLauncher, "RANK", "three")).find("RANK is 'three', which is no number") !=
        std::string::npos);
  CHECK(error_of("env://", -1, -1, with(kLauncher, "MASTER_PORT", "123456")).find("MASTER_PORT is '123456'") !=
        std::string::npos);
  CHECK(error_of("env://", -1, -1, with(kLauncher, "MASTER_PORT", "80x")).find("MASTER_PORT is '80x'") !=
        std::string::npos);
  CHECK(error_of("env://", -1, -1, with(kLauncher, "RANK", "8")).find("rank 8 can't be in a world of 8") !=
        std::string::npos);
  CHECK(error_of("env://", -1, -1, with(kLauncher, "RANK", "-1")) != "none");
  // A batch script has SLURM_PROCID too, but is no step.
  CHECK(error_of("env://", -1, -1, {{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "1"}}).find("RANK is not set") !=
        std::string::npos);
}

TEST_CASE("how often the ranks have been started again is known, however they meet") {
  auto with = [](const std::string& restarts) {
    return Variables{{"RANK", "0"},
                     {"WORLD_SIZE", "1"},
                     {"MASTER_ADDR", "a"},
                     {"MASTER_PORT", "1"},
                     {"TANDEM_RESTART_COUNT", restarts}};
  };
  CHECK(from_env(with("0")).restarts == 0);
  CHECK(from_env(with("2")).restarts == 2);
  CHECK(parse_init_method("tcp://127.0.0.1:1", 0, 1, environment(with("2"))).restarts == 2);
  CHECK(parse_init_method("tcp://127.0.0.1:1", 0, 1, environment({})).restarts == 0);
  CHECK(says(error_of("env://", -1, -1, with("-1")), "TANDEM_RESTART_COUNT is '-1'"));
}

TEST_CASE("env:// of srun") {
  const Rendezvous r = from_env(kSrun);
  CHECK(r.rank == 3);
  CHECK(r.world_size == 4);
  CHECK(r.local_rank == 1);
  CHECK(r.local_world_size == 2);
  CHECK(r.several_nodes);
  CHECK(r.host == "10.1.0.1");  // n1 is a name for SLURM alone
  CHECK(r.port >= 15000);
  CHECK(r.port < 30000);
  CHECK(from_env(with(kSrun, "SLURM_PROCID", "0")).port == r.port);
  CHECK(from_env(with(kSrun, "SLURM_STEP_ID", "1")).port != r.port);
  CHECK(from_env(with(kSrun, "SLURM_JOB_ID", "4712")).port != r.port);

  CHECK(from_env(with(kSrun, "MASTER_ADDR", "10.9.9.9")).host == "10.9.9.9");
  CHECK(from_env(with(kSrun, "MASTER_PORT", "29501")).port == 29501);
  CHECK(from_env(with(kSrun, "SLURM_STEP_NUM_NODES", "1")).host == "127.0.0.1");
  // The address of the first node, where it is known, is better than that of the machine where srun was typed.
  CHECK(from_env(with(kSrun, "SLURM_STEP_NODELIST", "192.0.2.7,192.0.2.9")).host == "192.0.2.7");
  CHECK(from_env(with(with(kSrun, "SLURM_STEP_NODELIST", "192.0.2.7"), "ENVIRONMENT", "BATCH")).host == "10.1.0.1");
  for (const char* name : {"SLURM_LOCALID", "SLURM_JOB_ID"}) {
    CAPTURE(name);
    CHECK(error_of("env://", -1, -1, without(kSrun, name)).find(message(name, " is not set")) != std::string::npos);
  }
}

TEST_CASE("env:// of mpirun") {
  const Rendezvous r = from_env(kMpirun);
  CHECK(r.rank == 1);
  CHECK(r.world_size == 2);
  CHECK(r.local_rank == 1);
  CHECK(r.local_world_size == 2);
  CHECK_FALSE(r.several_nodes);
  CHECK(r.host == "127.0.0.1");
  CHECK(from_env(with(kMpirun, "PMIX_NAMESPACE", "3409641474")).port != r.port);
  CHECK(from_env(with(kMpirun, "MASTER_PORT", "29501")).port == 29501);

  const Variables apart = with(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  CHECK(error_of("env://", -1, -1, apart).find("-x MASTER_ADDR=") != std::string::npos);
  CHECK(from_env(with(apart, "MASTER_ADDR", "10.0.0.1")).several_nodes);

  // Within a job of SLURM, mpirun's ranks count, and not those of its daemons; our launcher's before both.
  Variables both = kMpirun;
  both.insert(kSrun.begin(), kSrun.end());
  CHECK(from_env(both).world_size == 2);
  both.insert(kLauncher.begin(), kLauncher.end());
  CHECK(from_env(both).world_size == 8);
}

TEST_CASE("lists of SLURM") {
  CHECK(first_node("gpu[07-09,12],login") == "gpu07");
  CHECK(first_node("gpu[7,9]") == "gpu7");
  CHECK(first_node("a,b[1-2]") == "a");
  CHECK(first_node("single") == "single");
  CHECK(first_node("").empty());
  CHECK(tasks_of_node("2(x3),1", 0) == 2);
  CHECK(tasks_of_node("2(x3),1", 2) == 2);
  CHECK(tasks_of_node("2(x3),1", 3) == 1);
  CHECK(tasks_of_node("2(x3),1", 4) == -1);
  CHECK(tasks_of_node("", 0) == -1);
  CHECK(tasks_of_node("x", 0) == -1);
}

TEST_CASE("tcp:// and file://") {
  const Rendezvous r = parse_init_method("tcp://node7:29500", 1, 2, environment({}));
  CHECK(r.rank == 1);
  CHECK(r.world_size == 2);
  CHECK(r.host == "node7");
  CHECK(r.port == 29500);
  CHECK(parse_init_method("tcp://[::1]:80", 0, 1, environment({})).host == "::1");
  CHECK(parse_init_method("tcp://localhost:0", 0, 1, environment({})).port == 0);
  CHECK(parse_init_method("file:///tmp/x", 0, 2, environment({})).file == "/tmp/x");
  CHECK(parse_init_method("file:///tmp/x", 0, 2, environment({{"MASTER_ADDR", "10.0.0.1"}})).host == "10.0.0.1");

  CHECK(error_of("tcp://localhost:1", -1, 2, {}).find("argument rank is missing") != std::string::npos);
  CHECK(error_of("tcp://localhost:1", 0, -1, {}).find("argument world_size is missing") != std::string::npos);
  CHECK(error_of("tcp://localhost:0", 0, 2, {}).find("port 0 takes a free port") != std::string::npos);
  for (const char* bad : {"tcp://localhost", "tcp://:80", "tcp://localhost:", "tcp://localhost:99999", "tcp://h:8o"}) {
    CAPTURE(bad);
    CHECK(error_of(bad, 0, 2, {}).find("is not of the form tcp://host:port") != std::string::npos);
  }
  CHECK(error_of("file://", 0, 2, {}).find("names no file") != std::string::npos);
  CHECK(error_of("udp://x", 0, 2, {}).find("is none of env://") != std::string::npos);
}

TEST_CASE("the rendezvous file: written, read, locked, removed") {
  const TemporaryFolder folder;
  const std::string path = folder / "meet";
  std::string why;
  CHECK_FALSE(RendezvousFile::read(path, why));
  CHECK(why.find("No such file") != std::string::npos);
  {
    const RendezvousFile file(path, {"10.0.0.1", 29500, "abc"});
    const auto a = RendezvousFile::read(path, why);
    REQUIRE(a);
    CHECK(a->host == "10.0.0.1");
    CHECK(a->port == 29500);
    CHECK(a->identity == "abc");
    CHECK_THROWS_AS(RendezvousFile(path, {"10.0.0.2", 1, "d"}), CommError);
    CHECK(RendezvousFile::read(path, why)->host == "10.0.0.1");
  }
  CHECK_FALSE(std::filesystem::exists(path));

  for (const char* text : {"", "tandem store 1\n10.0.0.1\n29500\nabc\n", "tandem store 1\nh\n0\nabc\nend\n",
                           "tandem store 1\nh\n1x\nabc\nend\n", "something else\nh\n1\nabc\nend\n"}) {
    CAPTURE(text);
    write_text(path, text);
    CHECK_FALSE(RendezvousFile::read(path, why));
  }
  write_text(path, std::string(1 << 20, 'x'));
  CHECK_FALSE(RendezvousFile::read(path, why));
  CHECK_THROWS_AS(RendezvousFile(folder / "no/such/folder", {"h", 1, "i"}), IoError);
}

TEST_CASE("groups meet by file, also where a dead rank 0 has left a stale one") {
  const LogCapture quiet;
  const TemporaryFolder folder;
  const std::string path = folder / "meet";
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    // Nobody listens at that port; in the last round it is another store that does.
    auto other = StoreServer::at("127.0.0.1", 0, "");
    const int port = other->port();
    if (round == 1) other.reset();
    if (round > 0) write_text(path, message("tandem store 1\n127.0.0.1\n", port, "\nold\nend\n"));
    const auto errors = in_threads(3, [&](int rank) {
      if (rank == 0) std::this_thread::sleep_for(milliseconds(100));
      const auto m = join_group(parse_init_method("file://" + path, rank, 3, environment({})), nullptr,
                                milliseconds(5000), milliseconds(5000));
      CHECK(m->size() == 3);
    });
    CHECK(errors == std::vector<std::string>(3));
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("several nodes need a token, and are warned of a master on loopback") {
  LogCapture log;
  Rendezvous r = parse_init_method("tcp://127.0.0.1:0", 0, 1, environment({}));
  r.several_nodes = true;
  try {
    join_group(r, nullptr);
    FAIL("it was served");
  } catch (const CommError& e) {
    CHECK(std::string(e.what()).find("export TANDEM_TOKEN") != std::string::npos);
  }
  // What is not on loopback may be reached by anybody, and waits for nobody without a token.
  CHECK_THROWS_AS(join_group(parse_init_method("tcp://192.0.2.1:80", 1, 2, environment({})), nullptr), CommError);
  ::setenv("TANDEM_TOKEN", "secret", 1);
  join_group(r, nullptr);
  CHECK(!log.find("is loopback, each machine's own").empty());
  // A rank of another machine finds nobody there.
  r.rank = 1;
  r.world_size = 2;
  r.port = 1;
  try {
    join_group(r, nullptr, milliseconds(1000), milliseconds(200));
    FAIL("it has met somebody");
  } catch (const CommError& e) {
    CHECK(std::string(e.what()).find("give one that all can reach") != std::string::npos);
  }
  ::unsetenv("TANDEM_TOKEN");
}
