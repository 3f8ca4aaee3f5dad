// tandem-run on several machines: network namespaces on this one, with a launcher in each.
#include "tests/cluster/network.h"
#include "tests/cluster/training.h"
#include "tests/support/environment.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>

#include <memory>

using namespace tandem;
using namespace tandem::test;

namespace {

// The launchers of two nodes, each with as many ranks.
class Launchers {
 public:
  Launchers(const Network& network, int ranks, const std::vector<std::string>& command,
            const std::vector<std::string>& options = {}) {
    for (int node : {1, 2}) {
      auto words = ours("tandem-run", {"--nnodes", "2", "--node-rank", message(node - 1), "--master-addr",
                                       Network::address(1), "-n", message(ranks)});
      words.insert(words.end(), options.begin(), options.end());
      words.insert(words.end(), command.begin(), command.end());
      words = network.at(node, words);
      programs_.push_back(std::make_unique<Program>(words[0], std::vector(words.begin() + 1, words.end())));
    }
  }
  int code(int node) { return programs_[size_t(node - 1)]->wait(); }
  std::string output() const { return programs_[0]->output() + programs_[1]->output(); }

 private:
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace

TEST_CASE("tandem-run on two nodes: the same losses, over the network between them") {
  const Network network(2);
  Variable token("TANDEM_TOKEN", "a secret of the job");
  TemporaryFolder tmp;
  const auto toy = toy_losses(finished(ours("tandem-run", {"-n", "2", "toy_distributed"})).output);
  REQUIRE(toy.size() == 4);
  {
    Launchers run(network, 1, ours("toy_distributed"));
    const int codes[] = {run.code(1), run.code(2)};
    INFO(run.output());
    CHECK(codes[0] == 0);
    CHECK(codes[1] == 0);
    CHECK(toy_losses(run.output()) == toy);
  }
  const int64_t before[] = {network.bytes_sent(1), network.bytes_sent(2)};
  Launchers run(network, 2, training(tmp / "run", {"--parallel", "ddp"}));
  const int codes[] = {run.code(1), run.code(2)};
  INFO(run.output());
  CHECK(codes[0] == 0);
  CHECK(codes[1] == 0);
  check_same_losses(tmp / "run");
  // Each of 22 steps, every rank gives at least its own quarter of the gradients to the two others of the other node.
  for (int node : {1, 2}) CHECK(network.bytes_sent(node) - before[node - 1] > 10'000'000);
}

TEST_CASE("tandem-run on two nodes: a rank that is killed is named by all others, on both") {
  const Network network(2);
  Variable token("TANDEM_TOKEN", "a secret of the job");
  for (int victim : {3, 0}) {
    TemporaryFolder tmp;
    Launchers run(network, 2, training(tmp / "run", endless()), {"--log-dir", tmp / "log"});
    check_kill(tmp / "run", 4, victim, "RANK",
               [&](int rank) { return read_text(tmp / message("log/attempt_0/", rank, "/stderr.log")); });
    const int codes[] = {run.code(1), run.code(2)};
    INFO(run.output());
    CHECK(codes[victim / 2] == 137);
    CHECK(codes[1 - victim / 2] == 1);
    CHECK(says(run.output(), message("tandem-run: rank ", victim, " failed first: it was killed by SIGKILL")));
  }
}

TEST_CASE("tandem-run on two nodes: after a kill the ranks of both are started again, and meet") {
  const Network network(2);
  Variable token("TANDEM_TOKEN", "a secret of the job");
  TemporaryFolder tmp;
  auto saving = [&](const std::string& folder) {
    return training(tmp / folder,
                    {"--parallel", "ddp", "--net", "small", "--epochs", "8", "--save-every", "5", "--resume", "auto"});
  };
  Launchers straight(network, 1, saving("straight"));
  REQUIRE(straight.code(1) == 0);
  REQUIRE(straight.code(2) == 0);
  Launchers run(network, 1, saving("run"), {"--max-restarts", "3"});
  kill_rank(tmp / "run", "RANK=1");
  const int codes[] = {run.code(1), run.code(2)};
  INFO(run.output());
  CHECK(codes[0] == 0);
  CHECK(codes[1] == 0);
  CHECK(count(run.output(), "starting again, 1 of 3 restarts") == 2);
  CHECK(says(run.output(), "resumed from "));
  CHECK(last_checkpoint(tmp / "run") == last_checkpoint(tmp / "straight"));
}

TEST_CASE("tandem-run on two nodes: without the token, none starts") {
  const Network network(2);
  Launchers run(network, 1, ours("toy_distributed"));
  const int codes[] = {run.code(1), run.code(2)};
  INFO(run.output());
  CHECK(codes[0] == 2);
  CHECK(codes[1] == 2);
  CHECK(count(run.output(), "export TANDEM_TOKEN, the same on all") == 2);
}
