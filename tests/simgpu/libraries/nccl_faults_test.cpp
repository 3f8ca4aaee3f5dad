// NCCL between processes; peers that die, hang or are slow; and use that would hang or corrupt on real hardware.
#include <doctest/doctest.h>
#include <simgpu/nccl_faults.h>
#include <tests/support/environment.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "nccl_ranks.h"
#include "refusals.h"

using namespace simgpu_test;
using tandem::test::Program;
using tandem::test::Variable;

namespace {

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  char two[3];
  for (const char c : id.internal) text += (std::snprintf(two, sizeof two, "%02x", unsigned(uint8_t(c))), two);
  return text;
}
ncclUniqueId id_of_environment() {
  const std::string text = std::getenv("TEST_NCCL_ID");
  ncclUniqueId id;
  for (size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = char(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

/// A process that runs the (skipped) case as that rank.
std::unique_ptr<Program> start_rank(const std::string& test_case, const ncclUniqueId& id, int rank, int ranks) {
  const Variable v1("TEST_NCCL_ID", to_hex(id)), v2("TEST_RANK", std::to_string(rank)),
      v3("TEST_RANKS", std::to_string(ranks));
  return std::make_unique<Program>("tests_simgpu_libraries",
                                   std::vector<std::string>{"--test-case=" + test_case, "--no-skip=true"});
}

int number(const char* variable) { return std::atoi(std::getenv(variable)); }

}  // namespace

TEST_CASE("process: a rank" * doctest::skip()) {
  const int n = number("TEST_RANKS"), r = number("TEST_RANK");
  Rank rank(r);
  REQUIRE(ncclCommInitRank(&rank.comm, n, id_of_environment(), r) == ncclSuccess);
  const size_t count = 1'500'000;
  TypedValues<float> x(of_rank(r, count)), y(zeros(100)), z(zeros(100 * size_t(n)));
  CHECK(ncclAllReduce(x, x, count, ncclFloat, ncclSum, rank.comm, rank.stream) == ncclSuccess);
  CHECK(x.read(rank.stream) == summed(n, count));
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclSend(x, 100, ncclFloat, (r + 1) % n, rank.comm, rank.stream) == ncclSuccess);
  CHECK(ncclRecv(y, 100, ncclFloat, (r + n - 1) % n, rank.comm, rank.stream) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(y.read(rank.stream) == summed(n, 100));
  ncclComm_t half = nullptr;
  REQUIRE(ncclCommSplit(rank.comm, r % 2, -r, &half, nullptr) == ncclSuccess);
  int size = 0;
  CHECK(ncclCommCount(half, &size) == ncclSuccess);
  CHECK(size == (n + 1 - r % 2) / 2);
  CHECK(ncclCommDestroy(half) == ncclSuccess);
  CHECK(ncclCommFinalize(rank.comm) == ncclSuccess);
}

TEST_CASE("ranks as processes") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::unique_ptr<Program>> children;
  for (int r = 0; r < 3; ++r) children.push_back(start_rank("process: a rank", id, r, 3));
  for (auto& c : children) {
    const int code = c->wait();
    INFO(c->output());
    CHECK(code == 0);
  }
}

TEST_CASE("process: a rank that never calls" * doctest::skip()) {
  Rank rank(1);
  REQUIRE(ncclCommInitRank(&rank.comm, 2, id_of_environment(), 1) == ncclSuccess);
  std::this_thread::sleep_for(std::chrono::minutes(1));
}

TEST_CASE("the death of a peer's process is an asynchronous error, and an abort ends what waits for it") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  const auto child = start_rank("process: a rank that never calls", id, 1, 2);
  Rank rank(0);
  REQUIRE(ncclCommInitRank(&rank.comm, 2, id, 0) == ncclSuccess);
  TypedValues<float> x(of_rank(0, 5));
  REQUIRE(ncclAllReduce(x, x, 5, ncclFloat, ncclSum, rank.comm, rank.stream) == ncclSuccess);
  CHECK(async_error(rank.comm) == ncclSuccess);
  CHECK(cudaStreamQuery(rank.stream) == cudaErrorNotReady);
  child->signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  while (async_error(rank.comm) != ncclRemoteError) {
    REQUIRE(std::chrono::steady_clock::now() - killed < std::chrono::seconds(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(std::strstr(ncclGetLastError(rank.comm), "rank 1 is gone"));
  CHECK(ncclAllReduce(x, x, 5, ncclFloat, ncclSum, rank.comm, rank.stream) == ncclRemoteError);
  CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  rank.comm = nullptr;
  rank.stream.wait();
}

namespace {

struct Faults {
  ~Faults() { simgpu_nccl_mend(); }
};

}  // namespace

TEST_CASE("a rank that is lost, or hangs") {
  for (const bool lost : {true, false}) {
    CAPTURE(lost);
    const Faults faults;
    Ranks ranks(2);
    RankValues<float> x(ranks, [](int r) { return of_rank(r, 5); });
    simgpu_nccl_hang_rank(1);
    REQUIRE(ncclAllReduce(x[0], x[0], 5, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream) == ncclSuccess);
    std::thread([&] {
      CHECK_CUDA(cudaSetDevice(1));
      CHECK(ncclAllReduce(x[1], x[1], 5, ncclFloat, ncclSum, ranks[1].comm, ranks[1].stream) == ncclSuccess);
    }).join();
    if (lost) simgpu_nccl_lose_rank(1);
    for (int i = 0; i < 20; ++i) CHECK(cudaStreamQuery(ranks[0].stream) == cudaErrorNotReady);
    CHECK(async_error(ranks[0].comm) == (lost ? ncclRemoteError : ncclSuccess));
    for (int r = 0; r < 2; ++r) {
      CHECK(ncclCommAbort(ranks[r].comm) == ncclSuccess);
      ranks[r].comm = nullptr;
    }
    for (int r = 0; r < 2; ++r) ranks[r].stream.wait();
  }
}

TEST_CASE("an abort is an asynchronous error of the peers") {
  Ranks ranks(2);
  CHECK(ncclCommAbort(ranks[1].comm) == ncclSuccess);
  ranks[1].comm = nullptr;
  CHECK(async_error(ranks[0].comm) == ncclRemoteError);
}

TEST_CASE("a slow link delays its rank's operations") {
  const Faults faults;
  simgpu_nccl_slow_link(1, 50);
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 5); });
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(ranks.group([&](int r) {
    ncclAllReduce(x[r], x[r], 5, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  CHECK(x.read(0) == summed(2, 5));
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(50));
}

namespace {

void call_by_two_threads(Ranks& ranks, const std::function<void(int)>& f) {
  std::thread other([&] {
    CHECK_CUDA(cudaSetDevice(1));
    f(1);
  });
  f(0);
  other.join();
  for (int r = 0; r < 2; ++r) ranks[r].stream.wait();
}

}  // namespace

TEST_CASE("fault: ranks that call different collectives" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  call_by_two_threads(ranks, [&](int r) {
    if (r == 0)
      ncclAllReduce(x[r], x[r], 8, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
    else
      ncclBroadcast(x[r], x[r], 8, ncclFloat, 0, ranks[r].comm, ranks[r].stream);
  });
}
TEST_CASE("fault: ranks that reduce different numbers of elements" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  ranks.group(
      [&](int r) { ncclAllReduce(x[r], x[r], size_t(8 - r), ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream); });
  ranks[0].stream.wait();
}
TEST_CASE("fault: a message of another length than is received" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  ranks.group([&](int r) {
    if (r == 0)
      ncclSend(x[r], 8, ncclFloat, 1, ranks[r].comm, ranks[r].stream);
    else
      ncclRecv(x[r], 7, ncclFloat, 0, ranks[r].comm, ranks[r].stream);
  });
  ranks[1].stream.wait();
}
TEST_CASE("fault: one thread for two ranks without a group" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  for (int r = 0; r < 2; ++r) ncclAllReduce(x[r], x[r], 8, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
}
TEST_CASE("fault: buffers of a collective overlap" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  ncclAllReduce(x[0], x[0] + 1, 7, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream);
}
TEST_CASE("fault: a buffer that is too short" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  RankValues<float> y(ranks, [](int r) { return of_rank(r, 8); });
  ranks.group([&](int r) { ncclAllGather(x[r], y[r], 8, ncclFloat, ranks[r].comm, ranks[r].stream); });
  ranks[0].stream.wait();
}
TEST_CASE("fault: one thread joins for two ranks without a group" * doctest::skip()) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm;
  ncclCommInitRank(&comm, 2, id, 0);
}
TEST_CASE("fault: a collective whose peer never calls" * doctest::skip()) {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  ncclAllReduce(x[0], x[0], 8, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream);
  ranks[0].stream.wait();
}
TEST_CASE("fault: a destroyed communicator" * doctest::skip()) {
  Ranks ranks(1);
  const ncclComm_t comm = ranks[0].comm;
  ncclCommDestroy(comm);
  ncclCommDestroy(comm);
}

TEST_CASE("use that real hardware would hang or corrupt on ends the process") {
  const Variable patience("SIMGPU_PEER_TIMEOUT", "0.5");
  const char* differ = "ranks call different collectives as number 1 of their communicator";
  check_fault("fault: ranks that call different collectives", differ);
  check_fault("fault: ranks that call different collectives", "rank 0: ncclAllReduce of 8 x float32, sum, root 0");
  check_fault("fault: ranks that call different collectives", "rank 1: ncclBroadcast of 8 x float32");
  check_fault("fault: ranks that reduce different numbers of elements", differ);
  check_fault("fault: a message of another length than is received",
              "rank 0 sends 8 x float32 to rank 1, which receives 7 x float32");
  check_fault("fault: one thread for two ranks without a group", "must stand between ncclGroupStart and ncclGroupEnd");
  check_fault("fault: buffers of a collective overlap", "the buffers overlap, and not as they do in place");
  check_fault("fault: a buffer that is too short", "which lie in no live allocation");
  check_fault("fault: one thread joins for two ranks without a group",
              "ncclCommInitRank of rank 0 of 2 has waited 0 s for its peers");
  check_fault("fault: a collective whose peer never calls", "a collective whose peers don't come");
  check_fault("fault: a destroyed communicator", "was destroyed, or never created");
}
