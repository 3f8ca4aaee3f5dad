// Programs started, watched and ended; small shell scripts stand for them.
#include "tests/support/temporary_folder.h"

#include <tandem/core/error.h>
#include <tandem/parallel/child_process.h>
#include <tandem/parallel/rank_environment.h>
#include <tandem/parallel/tcp_socket.h>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <numeric>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

ChildProcessOptions shell(const std::string& script) { return {.command = {"sh", "-c", script}}; }

std::string end_of(ChildProcess& p) {
  const auto ended = p.wait_until(Clock::now() + 10s);
  return ended ? to_string(*ended) : "still runs";
}

std::string read_all(const Descriptor& fd) {
  std::string all;
  char buffer[512];
  for (ssize_t n; (n = ::read(fd.get(), buffer, sizeof buffer)) > 0;) all.append(buffer, size_t(n));
  return all;
}

std::string output_of(ChildProcessOptions o) {
  Pipe pipe = make_pipe();
  o.output = pipe.write.get();
  ChildProcess p(o);
  pipe.write = Descriptor();
  return read_all(pipe.read);
}

// A zombie is not: who adopted it may take its time.
bool alive(pid_t pid) {
  const std::string stat = read_text(message("/proc/", pid, "/stat"));
  const auto name_ends = stat.rfind(") ");
  return name_ends != stat.npos && stat[name_ends + 2] != 'Z';
}
bool gone_within(pid_t pid, std::chrono::milliseconds time) {
  for (const auto until = Clock::now() + time; alive(pid); std::this_thread::sleep_for(2ms))
    if (Clock::now() > until) return false;
  return true;
}

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

}  // namespace

TEST_CASE("child_process: says how a program has ended, signals by name") {
  const std::pair<const char*, const char*> cases[] = {
      {"exit 0", "exited with code 0"},
      {"exit 3", "exited with code 3"},
      {"kill -KILL $$", "was killed by SIGKILL (Killed)"},
      {"kill -SEGV $$", "was killed by SIGSEGV (Segmentation fault)"},
      {"kill -ABRT $$", "was killed by SIGABRT (Aborted)"},
  };
  for (auto& [script, end] : cases) {
    ChildProcess p(shell(script));
    CHECK(end_of(p) == end);
    CHECK(p.ended()->well() == (std::string(script) == "exit 0"));
    CHECK(end_of(p) == end);  // asked again
  }
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(200) == "signal 200");
}

TEST_CASE("child_process: what can't be started is an error that says why") {
  auto why = [](ChildProcessOptions o) -> std::string {
    try {
      ChildProcess p(o);
    } catch (const Error& e) {
      return e.what();
    }
    return "started";
  };
  CHECK(why({.command = {"no-such-program-anywhere"}}).find("no such program along PATH") != std::string::npos);
  CHECK(why({.command = {"/no/such/program"}}) == "can't start /no/such/program: No such file or directory");
  CHECK(why({.command = {"/"}}) == "can't start /: Permission denied");
  CHECK(why({.command = {"sh", "-c", "exit"}, .cores = {1023}}).find("Invalid argument") != std::string::npos);
  CHECK(why({}).find("which program?") != std::string::npos);
}

TEST_CASE("child_process: arguments and environment reach the program as they are") {
  ChildProcessOptions o{
      .command = {"sh", "-c", R"(printf '%s|' "$@" "$TANDEM_A" "$HOME")", "name", "a b", "", "--c=\"d\""},
      .environment = {{"TANDEM_A", "x = 'y'"}, {"HOME", "elsewhere"}}};
  CHECK(output_of(o) == "a b||--c=\"d\"|x = 'y'|elsewhere|");
}

TEST_CASE("child_process: standard descriptors are pipes or files; nothing else is inherited but what is passed") {
  TemporaryFolder tmp;
  const std::string file = tmp / "errors";
  const Descriptor errors(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const Descriptor open_to_all(::open("/dev/null", O_RDONLY));  // not close-on-exec, as other libraries' are
  Pipe in = make_pipe(), passed = make_pipe();
  ChildProcessOptions o = shell("read line; echo \"got $line\"; echo oops >&2; echo told >&3");
  o.input = in.read.get();
  o.error = errors.get();
  o.pass = passed.write.get();
  REQUIRE(::write(in.write.get(), "it\n", 3) == 3);
  CHECK(output_of(o) == "got it\n");
  CHECK(read_text(file) == "oops\n");
  passed.write = Descriptor();
  CHECK(read_all(passed.read) == "told\n");
  CHECK(output_of({.command = {"ls", "/proc/self/fd"}}) == "0\n1\n2\n3\n");  // the last is ls's own
  CHECK(output_of({.command = {"ls", "/proc/self/fd"}, .pass = in.write.get()}) == "0\n1\n2\n3\n4\n");
}

TEST_CASE("child_process: descriptors may have the numbers that others are to get") {
  Pipe out = make_pipe(), errors = make_pipe();
  ChildProcessOptions o = shell("echo out; echo err >&2; echo passed >&3");
  o.output = STDERR_FILENO;  // the two of this process, exchanged
  o.error = STDOUT_FILENO;
  Descriptor was_out(::dup(STDOUT_FILENO)), was_err(::dup(STDERR_FILENO));
  REQUIRE(::dup2(out.write.get(), STDERR_FILENO) == STDERR_FILENO);
  REQUIRE(::dup2(errors.write.get(), STDOUT_FILENO) == STDOUT_FILENO);
  std::string failure;
  try {
    o.pass = out.write.get();
    ChildProcess p(o);
    p.wait_until(Clock::now() + 10s);
  } catch (const Error& e) {
    failure = e.what();
  }
  ::dup2(was_out.get(), STDOUT_FILENO);
  ::dup2(was_err.get(), STDERR_FILENO);
  out.write = Descriptor();
  errors.write = Descriptor();
  CHECK(failure.empty());
  CHECK(read_all(out.read) == "out\npassed\n");
  CHECK(read_all(errors.read) == "err\n");
}

TEST_CASE("child_process: blocked signals of this thread are not blocked in the program") {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::string mask;
  try {
    mask = output_of(shell("grep SigBlk /proc/self/status"));
  } catch (const Error& e) {
    mask = e.what();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(mask == "SigBlk:\t0000000000000000\n");
}

TEST_CASE("child_process: runs on the cores it is given") {
  const std::vector<int> cores = usable_cores();
  REQUIRE(!cores.empty());
  ChildProcessOptions o = shell("sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status");
  o.cores = {cores.back()};
  CHECK(output_of(o) == message(cores.back(), '\n'));
}

TEST_CASE("child_process: a deadline passes, and the event tells of the end") {
  ChildProcess p(shell("exec sleep 1000"));
  const auto began = Clock::now();
  CHECK(!p.wait_until(began + 50ms));
  CHECK(!p.ended());
  CHECK(seconds_since(began) >= 0.05);
  p.signal(SIGTERM);
  CHECK(end_of(p) == "was killed by SIGTERM (Terminated)");
}

TEST_CASE("child_process: stop asks first, and kills what does not listen within the grace") {
  std::vector<ChildProcess> all;
  Pipe ready = make_pipe();
  ChildProcessOptions deaf = shell("trap '' TERM; echo >&3; while :; do sleep 0.01; done 2>/dev/null");
  ChildProcessOptions polite = shell("trap 'exit 7' TERM; echo >&3; while :; do sleep 0.01; done 2>/dev/null");
  deaf.pass = polite.pass = ready.write.get();
  all.emplace_back(deaf);
  all.emplace_back(polite);
  all.emplace_back(shell("exit 2"));
  char bytes[2];
  for (ssize_t got = 0; got < 2;) got += ::read(ready.read.get(), bytes, 1);
  CHECK(end_of(all[2]) == "exited with code 2");
  const auto began = Clock::now();
  stop(all, 200ms);
  const double took = seconds_since(began);
  CHECK(to_string(*all[0].ended()) == "was killed by SIGKILL (Killed)");
  CHECK(to_string(*all[1].ended()) == "exited with code 7");
  CHECK(took >= 0.2);
  CHECK(took < 1);
}

TEST_CASE("child_process: what a program has started goes with it") {
  Pipe out = make_pipe();
  ChildProcessOptions o = shell("sleep 1000 & echo $!; exit 0");
  o.output = out.write.get();
  pid_t started = 0;
  {
    ChildProcess p(o);
    char text[32] = {};
    REQUIRE(::read(out.read.get(), text, sizeof text - 1) > 0);
    started = pid_t(std::stol(text));
    CHECK(end_of(p) == "exited with code 0");
    CHECK(alive(started));
  }
  CHECK(gone_within(started, 1s));
}

TEST_CASE("child_process: a program ends with the thread that started it") {
  std::optional<ChildProcess> p;
  std::thread([&] { p.emplace(shell("sleep 1000")); }).join();
  CHECK(end_of(*p) == "was killed by SIGKILL (Killed)");
}

TEST_CASE("child_process: without a group of its own it stays in this one") {
  ChildProcessOptions o = shell("cut -d ' ' -f 5 /proc/self/stat");
  o.own_group = false;
  CHECK(output_of(o) == message(::getpgrp(), '\n'));
  o.own_group = true;
  CHECK(output_of(o) != message(::getpgrp(), '\n'));
}

TEST_CASE("child_process: a hundred leave no descriptor behind") {
  auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  for (int i = 0; i < 100; ++i) {
    ChildProcess p({.command = {"true"}});
    if (i % 2) p.wait_until(Clock::now() + 10s);
  }
  CHECK(descriptors() == before);
}

TEST_CASE("rank_environment: the variables of a rank, and the user's own threads") {
  const RankEnvironment e{.rank = 3,
                          .world_size = 4,
                          .local_rank = 1,
                          .local_world_size = 2,
                          .master_addr = "10.0.0.1",
                          .master_port = 29500,
                          .token = "abc",
                          .threads = 6};
  auto v = variables_of(e);
  CHECK(v["RANK"] == "3");
  CHECK(v["WORLD_SIZE"] == "4");
  CHECK(v["LOCAL_RANK"] == "1");
  CHECK(v["LOCAL_WORLD_SIZE"] == "2");
  CHECK(v["MASTER_ADDR"] == "10.0.0.1");
  CHECK(v["MASTER_PORT"] == "29500");
  CHECK(v["TANDEM_TOKEN"] == "abc");
  CHECK(v.contains("OMP_NUM_THREADS") == !std::getenv("OMP_NUM_THREADS"));
}

TEST_CASE("rank_environment: a reserved port is given to nobody, and a store can listen there") {
  const ReservedPort port("127.0.0.1");
  CHECK(port.number() > 0);
  const SocketAddress there = resolve("127.0.0.1", port.number()).front();
  {
    const Descriptor other(::socket(there.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));  // a program that asks for it
    CHECK(::bind(other.get(), reinterpret_cast<const sockaddr*>(&there.storage), there.length) != 0);
  }
  const Descriptor store = listen_at(there);
  std::string why;
  CHECK(connect_to(there, Clock::now() + 5s, why));
  CHECK(why.empty());
}

TEST_CASE("rank_environment: a token is 128 random bits, or the user's") {
  if (!std::getenv("TANDEM_TOKEN")) {
    const std::string a = make_token(), b = make_token();
    CHECK(a.size() == 32);
    CHECK(a.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(a != b);
  } else {
    CHECK(make_token() == std::getenv("TANDEM_TOKEN"));
  }
}

TEST_CASE("rank_environment: cores are divided into neighbours, evenly to one") {
  std::vector<int> cores(11);
  std::iota(cores.begin(), cores.end(), 0);
  for (int n = 1; n <= 11; ++n) {
    std::vector<int> together;
    size_t least = 11, most = 0;
    for (auto& share : divide_cores(cores, n)) {
      together.insert(together.end(), share.begin(), share.end());
      least = std::min(least, share.size());
      most = std::max(most, share.size());
    }
    CHECK(together == cores);
    CHECK(most - least <= 1);
  }
  for (auto& share : divide_cores(cores, 12)) CHECK(share.empty());
}
