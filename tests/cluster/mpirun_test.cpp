// The programs, unchanged, as ranks that a real mpirun starts, with backend cpu and with mpi.
#include "tests/cluster/mpirun.h"
#include "tests/cluster/training.h"

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("mpirun: the same losses, whatever moves the bytes") {
  const auto toy = toy_losses(finished(ours("tandem-run", {"-n", "2", "toy_distributed"})).output);
  REQUIRE(toy.size() == 4);
  for (const char* name : {"cpu", "mpi"}) {
    CAPTURE(name);
    Variable backend("TANDEM_BACKEND", name);
    {
      Mpirun run(2, ours("toy_distributed"));
      CHECK(run.wait() == 0);
      CHECK(toy_losses(run.output()) == toy);
    }
    TemporaryFolder tmp;
    Mpirun run(4, training(tmp / "run", {"--parallel", "ddp"}));
    const int code = run.wait();
    INFO(run.output());
    CHECK(code == 0);
    CHECK(says(run.output(), "4 ranks as processes: batches of 32, 8 each"));
    check_same_losses(tmp / "run");
  }
}

TEST_CASE("mpirun: a rank that is killed is named by all others, before mpirun ends them or without that") {
  for (const char* name : {"cpu", "mpi"})
    for (int victim : {2, 0})
      for (bool recovery : {false, true}) {
        CAPTURE(name);
        CAPTURE(recovery);
        Variable backend("TANDEM_BACKEND", name);
        TemporaryFolder tmp;
        Mpirun run(4, training(tmp / "run", endless()),
                   recovery ? std::vector<std::string>{"--enable-recovery"} : std::vector<std::string>{});
        check_kill(tmp / "run", 4, victim, "OMPI_COMM_WORLD_RANK", [&](int rank) { return run.error_of(rank); });
        const int code = run.wait();
        INFO(run.output());
        CHECK((code != 0 || recovery));  // with which mpirun finds nothing wrong
      }
}
