// run_replicas in processes that a launcher has started: their threads are one group. The processes are this binary
// again, with a launcher's variables.
#include "tests/support/child.h"
#include "tests/support/environment.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/core/generator.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/rank_environment.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>
#include <signal.h>

#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

namespace {

std::string variable(const char* name) {
  const char* v = std::getenv(name);
  return v ? v : "";
}
int number(const char* name) { return std::atoi(variable(name).c_str()); }

void say(const std::string& name, const std::string& text) { write_text(variable("TEST_FOLDER") + name, text); }

std::map<std::string, std::string> process(int p, int processes, int threads, int port, const TemporaryFolder& tmp) {
  auto v = variables_of(
      {.rank = p, .world_size = processes, .local_rank = p, .local_world_size = processes, .master_port = port});
  v["TEST_THREADS"] = message(threads);
  v["TEST_FOLDER"] = tmp / "";
  v["TANDEM_ERROR_FILE"] = tmp / message("verdict", p);
  return v;
}

std::vector<Child> start(const std::string& test_case, std::vector<int> threads, const TemporaryFolder& tmp) {
  std::vector<Child> children;
  const int port = free_port(), n = int(threads.size());
  for (int p = 0; p < n; ++p) children.emplace_back(test_case, process(p, n, threads[size_t(p)], port, tmp));
  return children;
}

// Bits of a few steps' gradients, from batches that differ in size.
std::string train(int rank) {
  manual_seed(4);
  nn::Linear net(40, 300);
  DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.01, .first_bucket_cap_mb = 0.001});
  std::string bits;
  for (int step = 0; step < 3; ++step) {
    net.zero_grad();
    manual_seed(uint64_t(10 * step + rank));
    Tensor x = randn({2 + rank, 40});
    Tensor y = ddp(x);
    mean(y * y).backward();
    for (auto& p : net.parameters())
      for (float v : p.grad().to_vector()) bits += message(std::bit_cast<uint32_t>(v), '\n');
  }
  return bits;
}

}  // namespace

TEST_CASE("a process whose threads train" * doctest::skip()) {
  const int threads = number("TEST_THREADS"), first = number("RANK") * threads;
  run_replicas(threads, [&](int rank) {
    ProcessGroup& group = current_process_group();
    const int n = number("WORLD_SIZE") * threads;
    CHECK(group.rank() == rank);
    CHECK(group.size() == n);
    CHECK(group.local_rank() == rank);
    CHECK(group.local_size() == n);
    CHECK(current_device() == (on_cpu() ? cpu(rank - first) : test_device(rank)));
    say(message("bits", rank), train(rank));
  });
}

TEST_CASE("threads of processes, processes and threads train alike, bit for bit") {
  std::vector<std::string> want(4);
  run_replicas(4, [&](int rank) { want[size_t(rank)] = train(rank); });
  CHECK(want[0] == want[3]);
  for (const std::vector<int>& threads : {std::vector{2, 2}, std::vector{1, 1, 1, 1}, std::vector{4}}) {
    CAPTURE(threads.size());
    TemporaryFolder tmp;
    for (auto& child : start("a process whose threads train", threads, tmp)) CHECK(child.wait() == 0);
    for (int r = 0; r < 4; ++r) CHECK(read_text(tmp / message("bits", r)) == want[size_t(r)]);
  }
}

TEST_CASE("a process that numbers its threads itself" * doctest::skip()) {
  const int n = number("TEST_THREADS"), world = number("WORLD_SIZE") * n;
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([=] {
      auto group = init_process_group({.rank = number("RANK") * n + i, .world_size = world, .timeout = 20s});
      Tensor x = full({50'000}, group.rank());
      group.communicator().all_reduce(x);
      say(message("said", group.rank()),
          message(x.to_vector()[49'999], ' ', group.local_rank(), ' ', group.local_size()));
    });
  for (auto& t : threads) t.join();
}

TEST_CASE("threads may join by numbers of their own, too; who shares the machine is then found out") {
  TemporaryFolder tmp;
  for (auto& child : start("a process that numbers its threads itself", {2, 2}, tmp)) CHECK(child.wait() == 0);
  for (int r = 0; r < 4; ++r) CHECK(read_text(tmp / message("said", r)) == message("6 ", r, " 4"));
}

TEST_CASE("a process that stays alone" * doctest::skip()) {
  run_replicas(2,
               [](int rank) {
                 CHECK(current_process_group().size() == 2);
                 run_replicas(3, [&](int) { CHECK(current_process_group().size() == 3); });  // of a rank's own
                 CHECK(current_process_group().rank() == rank);
               },
               {.alone = true});
}

TEST_CASE("with `alone`, and within a group, threads are a group by themselves") {
  TemporaryFolder tmp;
  CHECK(passes_in_child("a process that stays alone", process(1, 2, 2, free_port(), tmp)));
}

// What each rank's loop of collectives ended in, and what became of the whole.
TEST_CASE("a process with a rank that fails" * doctest::skip()) {
  std::string end = "well";
  try {
    run_replicas(number("TEST_THREADS"),
                 [](int rank) {
                   try {
                     for (int i = 0;; ++i) {
                       Tensor x = full({20'000}, rank);
                       current_process_group().communicator().all_reduce(x);
                       if (i < 20 || rank != 3) continue;
                       if (variable("TEST_END") == "kill") ::raise(SIGKILL);
                       throw ShapeError("[linear] these do not fit");
                     }
                   } catch (const CommError& e) {
                     say(message("rank", rank), message(e.rank, ' ', e.what()));
                     throw;
                   }
                 },
                 {.timeout = 20s});
  } catch (const std::exception& e) {
    end = e.what();
  }
  say(message("process", number("RANK")), end);
}

TEST_CASE("a process that dies is named with its ranks") {
  Variable end("TEST_END", "kill");
  TemporaryFolder tmp;
  const auto begin = std::chrono::steady_clock::now();
  auto children = start("a process with a rank that fails", {2, 2}, tmp);
  CHECK(children[1].wait() == -SIGKILL);
  CHECK(children[0].wait() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < 15s);
  for (int r : {0, 1}) {
    const std::string said = read_text(tmp / message("rank", r));
    CAPTURE(said);
    CHECK((said.starts_with("2 ") || said.starts_with("3 ")));
    CHECK(says(said, "ranks 2"));
    CHECK(says(said, "3"));
  }
  CHECK(read_text(tmp / "verdict0").starts_with("1 "));  // the launcher knows processes
}

TEST_CASE("what a thread throws reaches its process's caller, and the other process as that rank's end") {
  Variable end("TEST_END", "throw");
  TemporaryFolder tmp;
  for (auto& child : start("a process with a rank that fails", {2, 2}, tmp)) CHECK(child.wait() == 0);
  CHECK(read_text(tmp / "process1") == "[linear] these do not fit");
  for (int r : {0, 1, 2}) {
    const std::string said = read_text(tmp / message("rank", r));
    CAPTURE(said);
    CHECK(said.starts_with("3 "));
    CHECK(says(said, "[linear] these do not fit"));
  }
}

TEST_CASE("processes that disagree on the number of threads are told so") {
  Variable end("TEST_END", "throw");
  TemporaryFolder tmp;
  for (auto& child : start("a process with a rank that fails", {2, 1}, tmp)) CHECK(child.wait() == 0);
  for (int p : {0, 1}) {
    const std::string said = read_text(tmp / message("process", p));
    CAPTURE(said);
    CHECK(says(said, "the ranks disagree on the world size"));
  }
}
