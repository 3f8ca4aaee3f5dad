// tandem-run as a user runs it. Small shell scripts, and this binary itself, are the programs it starts.
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/core/error.h>
#include <tandem/parallel/rank_environment.h>

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

std::vector<std::string> shell(std::vector<std::string> options, const std::string& script) {
  for (const std::string& word : {std::string("sh"), std::string("-c"), script}) options.push_back(word);
  return options;
}

Finished run(std::vector<std::string> options, const std::string& script) {
  return run_program("tandem-run", shell(std::move(options), script));
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (says(line, part)) found.push_back(line);
  std::sort(found.begin(), found.end());
  return found;
}

// A variable of this process, inherited by what it starts.
struct Variable {
  const char* name;
  Variable(const char* n, const std::string& value) : name(n) { ::setenv(n, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
};

bool alive(pid_t pid) {
  const std::string stat = read_text(message("/proc/", pid, "/stat"));
  const auto name_ends = stat.rfind(") ");
  return name_ends != stat.npos && stat[name_ends + 2] != 'Z';
}

// Waits for this many numbers of processes, a line each, in a file.
std::vector<pid_t> pids_in(const std::string& file, size_t count) {
  std::vector<pid_t> pids;
  for (const auto until = Clock::now() + 20s; pids.size() < count && Clock::now() < until;) {
    std::this_thread::sleep_for(5ms);
    pids.clear();
    std::istringstream in(read_text(file));
    for (std::string line; std::getline(in, line) && !in.eof();) pids.push_back(pid_t(std::stol(line)));
  }
  return pids;
}

// Seconds until none of them is left; negative where that takes too long.
double gone_after(const std::vector<pid_t>& pids) {
  const auto began = Clock::now();
  while (std::any_of(pids.begin(), pids.end(), alive)) {
    if (Clock::now() - began > 10s) return -1;
    std::this_thread::sleep_for(1ms);
  }
  return std::chrono::duration<double>(Clock::now() - began).count();
}

double seconds_of(const std::function<void()>& f) {
  const auto began = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

TEST_CASE("tandem-run: each rank is told who it is by the environment alone") {
  Finished r =
      run({"-n", "3", "--no-pin"},
          "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $TANDEM_RESTART_COUNT $MASTER_ADDR "
          "${#TANDEM_TOKEN} digits; test $MASTER_PORT -gt 0 || echo no port");
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(lines_with(r.output, "digits") == std::vector<std::string>{"0/3 0/3 0 0 127.0.0.1 32 digits",
                                                                   "1/3 1/3 0 0 127.0.0.1 32 digits",
                                                                   "2/3 2/3 0 0 127.0.0.1 32 digits"});
  CHECK(!says(r.output, "no port"));
}

TEST_CASE("tandem-run: several nodes share an address, a port and the user's token") {
  Variable token("TANDEM_TOKEN", "the same on all");
  for (const char* endpoint : {"--rdzv-endpoint=10.0.0.1:4711", "--rdzv_endpoint=10.0.0.1:4711"}) {
    Finished r =
        run({"-n2", "--nnodes", "3", "--node-rank=1", endpoint},
            "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR:$MASTER_PORT $TANDEM_TOKEN");
    INFO(r.output);
    CHECK(r.code == 0);
    CHECK(lines_with(r.output, "the same") == std::vector<std::string>{"2/6 0/2 1 10.0.0.1:4711 the same on all",
                                                                       "3/6 1/2 1 10.0.0.1:4711 the same on all"});
    CHECK(says(r.output, "2 ranks of 6 (node 1 of 3), meeting at 10.0.0.1:4711"));
  }
  Finished r = run({"--nnodes=2", "--master-addr", "10.0.0.1"}, "echo port $MASTER_PORT");
  CHECK(says(r.output, "port 29500"));
}

TEST_CASE("tandem-run: what is not said is taken from the environment, by torchrun's names") {
  Variable nodes("PET_NNODES", "3"), node("PET_NODE_RANK", "2"), ranks("PET_NPROC_PER_NODE", "2"),
      address("PET_MASTER_ADDR", "10.0.0.1"), port("PET_MASTER_PORT", "29400"), token("TANDEM_TOKEN", "t");
  Finished r = run({}, "echo here $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT");
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(lines_with(r.output, "here ") ==
        std::vector<std::string>{"here 4/6 10.0.0.1:29400", "here 5/6 10.0.0.1:29400"});
  r = run({"-n", "1", "--node-rank", "0"}, "echo here $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT");
  CHECK(lines_with(r.output, "here ") == std::vector<std::string>{"here 0/3 10.0.0.1:29400"});
}

TEST_CASE("tandem-run: the program's arguments are its own") {
  Finished r =
      run_program("tandem-run", {"-n", "1", "printf", "%s|", "--nproc-per-node", "-n", "a b", "", "--", "--help"});
  CHECK(r.code == 0);
  CHECK(says(r.output, "--nproc-per-node|-n|a b||--|--help|"));
  r = run_program("tandem-run", {"-n", "1", "--", "printf", "%s|", "-n", "--"});
  CHECK(says(r.output, "-n|--|"));
  r = run_program("tandem-run", {"tandem-run", "--help"});  // found beside itself
  CHECK(r.code == 0);
  CHECK(says(r.output, "--nproc-per-node"));
}

TEST_CASE("tandem-run: cores are divided among the ranks and said, threads follow; the user's own count for more") {
  const std::vector<int> cores = usable_cores();
  const int ranks = std::min(2, int(cores.size()));
  const std::string script =
      "echo $RANK: $(sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) threads $OMP_NUM_THREADS";
  Finished r = run({"-n", message(ranks)}, script);
  INFO(r.output);
  std::set<std::string> lists;
  for (auto& line : lines_with(r.output, " threads ")) lists.insert(line.substr(3, line.find(" threads") - 3));
  CHECK(lists.size() == size_t(ranks));
  for (auto& list : lists) CHECK(!lines_with(r.output, list).empty());
  if (cores == std::vector<int>{0, 1}) {
    CHECK(lines_with(r.output, ": ") == std::vector<std::string>{"0: 0 threads 1", "1: 1 threads 1",
                                                                 lines_with(r.output, "pinned to cores 0; 1").at(0)});
  }
  r = run({"-n", message(cores.size() + 1)}, script);
  CHECK(says(r.output, "not pinned to cores, 1 thread each"));
  CHECK(lines_with(r.output, "threads 1").size() == cores.size() + 1);
  r = run({"-n", "auto"}, script);
  CHECK(lines_with(r.output, "threads 1").size() == cores.size());
  r = run({"--no-pin"}, script);
  CHECK(says(r.output, message("threads ", cores.size())));
  Variable own("OMP_NUM_THREADS", "7");
  r = run({"-n", message(ranks)}, script);
  CHECK(lines_with(r.output, "threads 7").size() == size_t(ranks));
}

TEST_CASE(
    "tandem-run: the first rank to fail is named, with its last lines, and the others are stopped within a second") {
  struct Case {
    const char *failure, *how;
    int code;
  };
  for (const Case& c :
       {Case{"exit 3", "exited with code 3", 3}, Case{"kill -KILL $$", "was killed by SIGKILL (Killed)", 137},
        Case{"kill -SEGV $$", "was killed by SIGSEGV (Segmentation fault)", 139}}) {
    TemporaryFolder tmp;
    // Rank 0 does not listen to SIGTERM, and what rank 2 has started does not.
    const std::string script =
        message("echo $$ >> ", tmp / "pids", "; case $RANK in 0) trap '' TERM; touch ", tmp / "deaf",
                ";; 1) until test -e ", tmp / "deaf", "; do sleep 0.01; done; echo first >&2; seq 20 >&2; ", c.failure,
                ";; 2) (trap '' TERM; sleep 1000) & echo $! >> ", tmp / "pids",
                ";; esac; while :; do sleep 0.05; done 2>/dev/null");
    Finished r{};
    const double took = seconds_of([&] { r = run({"-n", "3"}, script); });
    INFO(r.output);
    CHECK(r.code == c.code);
    CHECK(says(r.output, message("rank 1 failed first: it ", c.how, " after ")));
    CHECK(says(r.output, "its last lines:\n  | 11\n  | 12\n"));
    CHECK(says(r.output, "  | 20\n  the others ended within "));
    CHECK(says(r.output, "\n  rank 0 was killed by SIGKILL (Killed)\n  rank 2 was killed by SIGTERM (Terminated)\n"));
    CHECK(took < 4);
    const std::string within = "ended within ";
    CHECK(std::stod(r.output.substr(r.output.find(within) + within.size())) < 1);
    CHECK(pids_in(tmp / "pids", 4).size() == 4);
    CHECK(gone_after(pids_in(tmp / "pids", 4)) >= 0);
  }
}

TEST_CASE("tandem-run: killed itself, it leaves no process and no file behind") {
  TemporaryFolder tmp;
  Variable folder("TMPDIR", tmp.path());
  Program p("tandem-run", shell({"-n", "2"}, message("trap '' TERM HUP INT; sleep 1000 & echo $! >> ", tmp / "pids",
                                                     "; echo $$ >> ", tmp / "pids", "; wait")));
  const auto pids = pids_in(tmp / "pids", 4);
  REQUIRE(pids.size() == 4);
  p.signal(SIGKILL);
  const double seconds = gone_after(pids);
  CHECK(seconds >= 0);
  CHECK(seconds < 1);
  auto own_folders = [&] {
    int count = 0;
    for (auto& e : std::filesystem::directory_iterator(tmp.path()))
      count += e.path().filename().string().starts_with("tandem-run-");
    return count;
  };
  for (const auto until = Clock::now() + 5s; own_folders() && Clock::now() < until;) std::this_thread::sleep_for(1ms);
  CHECK(own_folders() == 0);
}

TEST_CASE("tandem-run: Ctrl-C lets the ranks save and end; what does not is killed") {
  TemporaryFolder tmp;
  struct Case {
    std::vector<std::string> options;
    int signal, times, code;
    const char* trap;
    bool saved;
  };
  const Case cases[] = {
      {{"-n", "2"}, SIGINT, 1, 130, "echo saved $RANK; exit 0", true},
      {{"-n", "2"}, SIGTERM, 1, 143, "echo saved $RANK; exit 1", true},
      {{"-n", "2", "--shutdown-timeout", "0.2"}, SIGINT, 1, 130, "", false},
      {{"-n", "2"}, SIGINT, 2, 130, "", false},
  };
  for (auto& c : cases) {
    std::filesystem::remove(tmp / "pids");
    Program p("tandem-run",
              shell(c.options, message("trap '", c.trap, "' INT TERM; sleep 1000 & echo $! >> ", tmp / "pids",
                                       "; echo $$ >> ", tmp / "pids", "; while :; do sleep 0.02; done")));
    const auto pids = pids_in(tmp / "pids", 4);
    REQUIRE(pids.size() == 4);
    for (int i = 0; i < c.times; ++i) {
      p.signal(c.signal);
      std::this_thread::sleep_for(100ms);
    }
    CHECK(p.wait() == c.code);
    INFO(p.output());
    CHECK(says(p.output(), "handed on to the ranks"));
    CHECK(says(p.output(), "saved 0") == c.saved);
    CHECK(says(p.output(), "saved 1") == c.saved);
    CHECK(gone_after(pids) >= 0);
  }
}

TEST_CASE("tandem-run: Ctrl-Z stops the ranks, too, until they are continued") {
  TemporaryFolder tmp;  // the ranks start nothing: one that is about to would not show as stopped
  Program p("tandem-run",
            shell({"-n", "2"}, message("echo $$ >> ", tmp / "pids", "; until test -e ", tmp / "end", "; do :; done")));
  const auto pids = pids_in(tmp / "pids", 2);
  REQUIRE(pids.size() == 2);
  auto all_stopped = [&] {
    return std::all_of(pids.begin(), pids.end(),
                       [](pid_t pid) { return says(read_text(message("/proc/", pid, "/stat")), ") T "); });
  };
  p.signal(SIGTSTP);
  for (const auto until = Clock::now() + 10s; !all_stopped() && Clock::now() < until;) std::this_thread::sleep_for(1ms);
  CHECK(all_stopped());
  write_text(tmp / "end", "");
  p.signal(SIGCONT);
  CHECK(p.wait() == 0);
}

TEST_CASE("tandem-run: after a failure all ranks start again, as often as was asked for") {
  const std::string script =
      "echo attempt $TANDEM_RESTART_COUNT of $RANK; test $RANK = 0 || test $TANDEM_RESTART_COUNT = 2 || exit 9";
  Finished r = run({"-n", "2", "--max-restarts", "2"}, script);
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(lines_with(r.output, "attempt 2 of").size() == 2);
  CHECK(lines_with(r.output, "failed first").size() == 2);
  CHECK(says(r.output, "starting again, 2 of 2 restarts"));
  r = run({"-n", "2", "--max-restarts", "1"}, script);
  CHECK(r.code == 9);
  CHECK(says(r.output, "(attempt 1 of 0 to 1)"));
}

TEST_CASE("tandem-run: tee marks whole lines with their rank, and keeps them where there is a log folder") {
  TemporaryFolder tmp;
  const std::string script =
      "for i in 1 2 3 4 5; do printf 'a %s' $RANK; sleep 0.01; echo ' b'; done; echo e >&2; printf end";
  Finished r = run({"-n", "2", "--tee", "3"}, script);
  INFO(r.output);
  for (const char* rank : {"0", "1"}) {
    CHECK(lines_with(r.output, message("[", rank, "]: a ", rank, " b")).size() == 5);
    CHECK(lines_with(r.output, message("[", rank, "]: e")) ==
          std::vector<std::string>{message("[", rank, "]: e"), message("[", rank, "]: end")});
  }
  r = run({"-n", "2", "-t", "0:1,1:2"}, script);
  CHECK(lines_with(r.output, "[0]: a").size() == 5);
  CHECK(!says(r.output, "[1]: a"));
  CHECK(says(r.output, "[1]: e\n"));
  for (auto& option : {std::vector<std::string>{}, {"--tee", "3"}}) {
    std::vector<std::string> options{"-n", "2", "--log-dir", tmp / message("logs", option.size())};
    options.insert(options.end(), option.begin(), option.end());
    r = run(options, script);
    CHECK(lines_with(r.output, "[1]: a 1 b").size() == 5);
    CHECK(lines_with(read_text(options[3] + "/attempt_0/1/stdout.log"), "a 1 b").size() == 5);
    CHECK(read_text(options[3] + "/attempt_0/0/stderr.log") == "e\n");
  }
}

TEST_CASE("tandem-run: redirected streams go to their files alone, and their last lines are still told") {
  TemporaryFolder tmp;
  const std::string script = "echo out $RANK; echo err $RANK >&2; exit $RANK";
  Finished r = run({"-n", "2", "--redirects", "3", "--log-dir", tmp / "logs"}, script);
  INFO(r.output);
  CHECK(r.code == 1);
  CHECK(!says(r.output, "out 0"));
  CHECK(!says(r.output, "err 0"));
  CHECK(says(r.output, "its last lines:\n  | err 1\n  log: " + tmp / "logs/attempt_0/1"));
  CHECK(read_text(tmp / "logs/attempt_0/0/stdout.log") == "out 0\n");
  CHECK(read_text(tmp / "logs/attempt_0/1/stderr.log") == "err 1\n");
  r = run({"-n", "2", "--redirects", "1:1", "--log-dir", tmp / "others"}, "echo out $RANK");
  CHECK(r.output.ends_with("out 0\n"));
}

TEST_CASE("tandem-run: whoever reads its output may stop reading") {
  TemporaryFolder tmp;
  const std::string launcher = std::string(TANDEM_PROGRAM_DIR) + "/tandem-run";
  Finished r = run({}, message("'", launcher, "' -n 2 --tee 1 sh -c 'seq 100000' | head -n 1"));
  CHECK(r.code == 0);
  CHECK(lines_with(r.output, "]: 1").size() == 1);
}

TEST_CASE("tandem-run: what makes no sense is refused, with what to do") {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "PROGRAM is required"},
      {{"--nproc", "2", "true"}, "--nproc"},
      {{"-n", "0", "true"}, "'0' is no number from 1 to 1024"},
      {{"-n", "many", "true"}, "'many' is no number from 1 to 1024"},
      {{"--node-rank", "1", "true"}, "1 of 1 nodes: they are numbered from 0"},
      {{"--nnodes", "2", "true"}, "say the address of the first one"},
      {{"--nnodes", "2", "--master-addr", "10.0.0.1", "true"}, "export TANDEM_TOKEN"},
      {{"--nnodes", "2", "--rdzv-endpoint", "10.0.0.1:0", "true"}, "a free port could not be known to the others"},
      {{"--standalone", "--nnodes", "2", "true"}, "this machine alone"},
      {{"--rdzv-endpoint", "a:1", "--master-port", "2", "true"}, "give the one or the others"},
      {{"--redirects", "3", "true"}, "where to?"},
      {{"--tee", "4", "true"}, "'4' is no number from 0 to 3"},
      {{"--tee", "0:1,x:1", "true"}, "'x' is no number"},
  };
  for (auto& [options, why] : cases) {
    Finished r = run_program("tandem-run", options);
    INFO(r.output);
    CHECK(r.code == 2);
    CHECK(says(r.output, why));
  }
  Finished r = run_program("tandem-run", {"no-such-program-anywhere"});
  CHECK(r.code == 1);
  CHECK(says(r.output, "can't start no-such-program-anywhere: there is no such program along PATH"));
}

TEST_CASE("tandem-run: inside srun and mpirun it steps aside") {
  {
    Variable size("OMPI_COMM_WORLD_SIZE", "4");
    Finished r = run({"-n", "2"}, "true");
    CHECK(r.code == 2);
    CHECK(says(r.output,
               "this is one of 4 tasks that mpirun has started, and each would start 2 ranks. Leave tandem-run out"));
  }
  Variable step("SLURM_STEP_ID", "0"), tasks("SLURM_STEP_NUM_TASKS", "2"), nodes("SLURM_NNODES", "2"),
      token("TANDEM_TOKEN", "t");
  Finished r = run({"-n", "2"}, "true");
  CHECK(r.code == 2);
  CHECK(says(r.output, "`srun sh ...` makes each task a rank"));
  r = run({"--nnodes", "2", "--master-addr", "10.0.0.1"}, "true");  // one launcher per node
  CHECK(r.code == 0);
  Variable one("SLURM_STEP_NUM_TASKS", "1");
  r = run({"-n", "2"}, "true");
  CHECK(r.code == 0);
  CHECK(says(r.output, "this SLURM job has 2 nodes and only this one is used: `srun sh ...`"));
}
