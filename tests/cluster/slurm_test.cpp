// The programs, unchanged, as ranks that a real SLURM's srun starts, on two nodes.
#include "tests/cluster/slurm.h"
#include "tests/cluster/training.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Errors of each rank in a file.
std::vector<std::string> srun(int ranks, const std::string& folder, const std::vector<std::string>& command) {
  return std::vector<std::string>{"srun", "--nodes=2", message("--ntasks=", ranks), "--overcommit",
                                  "--error=" + folder + "/error.%t"} +
         command;
}

std::string errors_of(const std::string& folder, int rank) { return read_text(message(folder, "/error.", rank)); }

}  // namespace

TEST_CASE("srun on two nodes: the programs, unchanged") {
  const Network network(2);
  const Slurm slurm(network);
  const auto toy = toy_losses(finished(ours("tandem-run", {"-n", "2", "toy_distributed"})).output);
  REQUIRE(toy.size() == 4);
  TemporaryFolder tmp;

  // Without the token none starts, and each says what to do.
  Finished r = finished(slurm.on_hub(srun(2, tmp.path(), ours("toy_distributed"))));
  CHECK(r.code != 0);
  for (int rank : {0, 1}) {
    INFO(errors_of(tmp.path(), rank));
    CHECK(says(errors_of(tmp.path(), rank), "there is no token to keep strangers out: export TANDEM_TOKEN"));
  }

  Variable token("TANDEM_TOKEN", "a secret of the job");
  const int64_t before = network.bytes_sent(1);
  r = finished(slurm.on_hub(srun(4, tmp.path(), training(tmp / "run", {"--parallel", "ddp"}))));
  {
    INFO(r.output, errors_of(tmp.path(), 0), errors_of(tmp.path(), 3));
    CHECK(r.code == 0);
    check_same_losses(tmp / "run");
    CHECK(network.bytes_sent(1) - before > 10'000'000);
  }

  // The user's own address and port count for more.
  {
    Variable address("MASTER_ADDR", Network::address(1)), port("MASTER_PORT", "31000");
    r = finished(slurm.on_hub(srun(2, tmp.path(), ours("toy_distributed"))));
    INFO(r.output, errors_of(tmp.path(), 0), errors_of(tmp.path(), 1));
    CHECK(r.code == 0);
    CHECK(toy_losses(r.output) == toy);
  }

  // The steps of a job run side by side, since each has a port of its own.
  write_text(tmp / "two", message("#!/bin/sh\nfor i in 1 2; do srun --overlap --ntasks=2 --output='", tmp / "out",
                                  "'$i ", ours("toy_distributed")[0], " 20 & done; wait"));
  slurm.batch({"--nodes=2", "--ntasks=2", "--output=" + (tmp / "two.out"), tmp / "two"});
  INFO(read_text(tmp / "two.out"));
  for (const char* step : {"1", "2"}) CHECK(toy_losses(read_text(tmp / ("out" + std::string(step)))).size() == 80);
}

TEST_CASE("srun on two nodes: a rank that is killed is named by all others") {
  const Network network(2);
  const Slurm slurm(network);
  Variable token("TANDEM_TOKEN", "a secret of the job");
  for (int victim : {2, 0}) {
    TemporaryFolder tmp;
    auto command = srun(4, tmp.path(), training(tmp / "run", endless()));
    if (victim == 0) command.insert(command.begin() + 1, "--kill-on-bad-exit=1");
    const auto words = slurm.on_hub(command);
    Program run(words[0], {words.begin() + 1, words.end()});
    check_kill(tmp / "run", 4, victim, "SLURM_PROCID", [&](int rank) { return errors_of(tmp.path(), rank); });
    CHECK(run.wait() != 0);
  }
}
