// Groups with backend "mpi" under a real mpirun: its ranks are this binary, executed with the (skipped) cases below.
#include "tests/cluster/mpirun.h"
#include "tests/support/collective_cases.h"

#include <tandem/ops/compare.h>
#include <tandem/parallel/process_group.h>

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> this_binary(const std::string& test_case) {
  return {std::filesystem::read_symlink("/proc/self/exe"), "--no-skip", "--minimal", "--test-case=" + test_case};
}

int number(const char* variable) { return std::atoi(std::getenv(variable)); }

}  // namespace

TEST_CASE("a rank by MPI" * doctest::skip()) {
  // Ours are the other way round than MPI's.
  const int size = number("OMPI_COMM_WORLD_SIZE"), rank = size - 1 - number("OMPI_COMM_WORLD_RANK");
  ::setenv("TANDEM_BACKEND", "mpi", 1);
  const ProcessGroup::Options meet{.init_method = "file://" + std::string(std::getenv("TEST_FILE")),
                                   .rank = rank,
                                   .world_size = size,
                                   .timeout = 60s};
  { ProcessGroup first(meet); }  // MPI outlives a group
  ProcessGroup group(meet);
  check_collectives(group.communicator(), 300'000);
  auto own_order = group.new_communicator();
  auto some = group.new_group(size > 2 ? std::vector<int>{0, size - 1} : std::vector<int>{size - 1});
  Tensor a = full({100'000}, rank + 1.0), b = full({10}, rank + 1.0);
  Work slow = group.communicator().all_reduce_async(a);  // on two threads at once
  own_order->all_reduce(b);
  slow.wait();
  CHECK(equal(a, full({100'000}, size * (size + 1) / 2.0)));
  CHECK(equal(b, full({10}, size * (size + 1) / 2.0)));
  CHECK((some != nullptr) == (rank == size - 1 || (rank == 0 && size > 2)));
  if (some) check_collectives(*some, 1000);
  if (rank == 0) std::cout << "the rank is through" << std::endl;
}

TEST_CASE("backend mpi: collectives between 1 to 4 processes, whichever MPI ranks they have") {
  for (int n = 1; n <= 4; ++n) {
    TemporaryFolder folder;
    Variable file("TEST_FILE", folder / "meet");
    Mpirun run(n, this_binary("a rank by MPI"));
    const int code = run.wait();
    INFO(run.output());
    CHECK(code == 0);
    CHECK(says(run.output(), "the rank is through"));
    for (int rank = 0; rank < n; ++rank) CHECK(run.error_of(rank) == "");
  }
}

TEST_CASE("a rank by MPI that ends in an error" * doctest::skip()) {
  const std::string end = std::getenv("TEST_END");
  try {
    ProcessGroup group({.backend = "mpi", .timeout = end == "stop" ? 2s : 60s});
    Tensor x = ones({1'000'000});
    for (int step = 0;; ++step) {
      if (group.rank() == 1 && step == 20) {
        if (end == "kill") ::raise(SIGKILL);
        if (end == "stop") ::raise(SIGSTOP);
        if (end == "exception") throw Error("the loss is NaN");
        if (end == "mismatch") group.communicator().barrier();
      }
      group.communicator().all_reduce(x, {.label = "the gradients"});
    }
  } catch (const Error& e) {
    std::cerr << "ENDED: " << e.what() << std::endl;
    std::exit(3);
  }
}

TEST_CASE("backend mpi: all others hear of the rank that fails, and end, whether mpirun ends them or not") {
  struct Case {
    const char *end, *others_say;
  };
  for (const Case& c : {Case{"kill", "rank 1 (process "}, Case{"exception", "rank 1 has left the group"},
                        Case{"mismatch", "different collectives"}})
    for (bool recovery : {false, true}) {
      CAPTURE(c.end);
      CAPTURE(recovery);
      Variable end("TEST_END", c.end);
      Mpirun run(3, this_binary("a rank by MPI that ends in an error"),
                 recovery ? std::vector<std::string>{"--enable-recovery"} : std::vector<std::string>{});
      const int code = run.wait();
      INFO(run.output());
      CHECK((code != 0 || recovery));  // with which mpirun finds nothing wrong
      for (int rank : {0, 2}) {
        INFO("rank ", rank, " said: ", run.error_of(rank));
        CHECK(says(run.error_of(rank), c.others_say));
      }
    }
}

TEST_CASE("backend mpi: a rank that stands still is named at the deadline") {
  Variable end("TEST_END", "stop");
  Mpirun run(3, this_binary("a rank by MPI that ends in an error"));
  CHECK(run.wait() != 0);
  INFO(run.output());
  for (int rank : {0, 2}) {
    INFO("rank ", rank, " said: ", run.error_of(rank));
    CHECK(says(run.error_of(rank), "rank 1 (process "));
    CHECK(says(run.error_of(rank), "is silent"));
  }
}

TEST_CASE("backend mpi: ranks that no mpirun has started together are told so") {
  std::vector<std::string> words{"-n", "2", "env", "TEST_END=kill"};
  const auto rank = this_binary("a rank by MPI that ends in an error");
  words.insert(words.end(), rank.begin(), rank.end());
  Finished r = run_program("tandem-run", words);
  INFO(r.output);
  CHECK(r.code == 3);
  CHECK(says(r.output, "is not of the MPI job of rank"));
  CHECK(says(r.output, "start all ranks by one mpirun"));
}
