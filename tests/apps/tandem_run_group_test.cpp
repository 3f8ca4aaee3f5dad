// tandem-run with ranks that are a group: this binary, executed with the (skipped) case below.
#include "tests/support/program.h"
#include "tests/support/text.h"

#include <tandem/core/tensor.h>
#include <tandem/parallel/process_group.h>

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

using namespace tandem;
using namespace tandem::test;

namespace {

void train(const std::string& end) {
  ProcessGroup group = init_process_group({.timeout = std::chrono::seconds(20)});
  Tensor x = full({1000}, group.rank() + 1.0);
  group.communicator().all_reduce(x);
  std::cout << message("rank ", group.rank(), " of ", group.size(), ": ", x.to_vector<float>()[999], '\n')
            << std::flush;
  if (end == "well") return;
  for (int step = 0;; ++step) {
    if (group.rank() == 1 && step == 100) {
      if (end == "exception") throw Error("the loss is NaN");
      if (end == "kill") ::raise(SIGKILL);
    }
    group.communicator().all_reduce(x);
  }
}

Finished run_ranks(int n, const std::string& end) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  return run_program("tandem-run",
                     {"-n", message(n), "env", "END=" + end, self, "--no-skip", "--test-case=a rank of tandem-run"});
}

}  // namespace

TEST_CASE("a rank of tandem-run" * doctest::skip()) {
  int code = 0;
  try {
    train(std::getenv("END"));
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    code = 1;
  }
  ::_exit(code);
}

TEST_CASE("tandem-run: the ranks meet by env:// and sum") {
  for (int n : {1, 2, 3}) {
    Finished r = run_ranks(n, "well");
    INFO(r.output);
    CHECK(r.code == 0);
    for (int rank = 0; rank < n; ++rank)
      CHECK(says(r.output, message("rank ", rank, " of ", n, ": ", double(n * (n + 1) / 2), '\n')));
  }
}

TEST_CASE("tandem-run: of ranks that fail together, the one that the others fail for is named") {
  Finished r = run_ranks(3, "kill");
  {
    INFO(r.output);
    CHECK(r.code == 137);
    CHECK(says(r.output, "tandem-run: rank 1 failed first: it was killed by SIGKILL (Killed) after "));
    CHECK(says(r.output, "the others say: "));
    CHECK(says(r.output, "has died: "));
  }
  for (int repeat = 0; repeat < 5; ++repeat) {
    r = run_ranks(3, "exception");
    INFO(r.output);
    CHECK(r.code == 1);
    CHECK(says(r.output, "tandem-run: rank 1 failed first: it exited with code 1 after "));
    CHECK(says(r.output, "its last lines:\n  | the loss is NaN\n"));
  }
}
