// NCCL's communicators: how they are made, split and ended, and which calls are refused.
#include <doctest/doctest.h>

#include <cstring>

#include "nccl_ranks.h"

using namespace simgpu_test;

TEST_CASE("communicators that don't block are asked until they are done") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  Rank ranks[] = {Rank(0), Rank(1)};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  CHECK_CUDA(cudaSetDevice(0));
  CHECK(ncclCommInitRankConfig(&ranks[0].comm, 2, id, 0, &config) == ncclInProgress);
  CHECK(async_error(ranks[0].comm) == ncclInProgress);
  TypedValues<float> x(of_rank(0, 5));
  CHECK(ncclAllReduce(x, x, 5, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream) == ncclInvalidArgument);
  CHECK_CUDA(cudaSetDevice(1));
  TypedValues<float> y(of_rank(1, 5));
  CHECK(ncclCommInitRankConfig(&ranks[1].comm, 2, id, 1, &config) == ncclInProgress);
  for (Rank& r : ranks) {
    CHECK(async_error(r.comm) == ncclSuccess);
    CHECK(async_error(r.comm) == ncclSuccess);
  }
  REQUIRE(ncclGroupStart() == ncclSuccess);
  ncclAllReduce(x, x, 5, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream);
  ncclAllReduce(y, y, 5, ncclFloat, ncclSum, ranks[1].comm, ranks[1].stream);
  CHECK(ncclGroupEnd() == ncclInProgress);
  CHECK(ncclAllReduce(x, x, 5, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream) == ncclInvalidArgument);
  for (Rank& r : ranks) {
    CHECK(async_error(r.comm) == ncclInProgress);
    CHECK(async_error(r.comm) == ncclSuccess);
  }
  CHECK(y.read(ranks[1].stream) == summed(2, 5));
  for (Rank& r : ranks) CHECK(ncclCommFinalize(r.comm) == ncclInProgress);
  CHECK(async_error(ranks[0].comm) == ncclInProgress);
  CHECK(async_error(ranks[1].comm) == ncclSuccess);
  CHECK(async_error(ranks[0].comm) == ncclSuccess);
}

TEST_CASE("a communicator is split by colors, in the order of keys") {
  Ranks ranks(4);
  ncclComm_t parts[4];
  REQUIRE(ranks.group([&](int r) {
    ncclCommSplit(ranks[r].comm, r == 3 ? NCCL_SPLIT_NOCOLOR : r % 2, -r, &parts[r], nullptr);
  }) == ncclSuccess);
  CHECK(parts[3] == nullptr);
  const int expected[] = {1, 0, 0};  // ranks 0 and 2 turned around by their keys; rank 1 alone
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 5); });
  for (int r = 0; r < 3; ++r) {
    int rank = -1, count = 0, device = -1;
    CHECK(ncclCommUserRank(parts[r], &rank) == ncclSuccess);
    CHECK(ncclCommCount(parts[r], &count) == ncclSuccess);
    CHECK(ncclCommCuDevice(parts[r], &device) == ncclSuccess);
    CHECK(rank == expected[r]);
    CHECK(count == (r == 1 ? 1 : 2));
    CHECK(device == r);
  }
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 3; ++r)
    CHECK(ncclAllReduce(x[r], x[r], 5, ncclFloat, ncclSum, parts[r], ranks[r].stream) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  std::vector<double> sum = of_rank(0, 5);
  for (size_t i = 0; i < 5; ++i) sum[i] += of_rank(2, 5)[i];
  CHECK(x.read(0) == sum);
  CHECK(x.read(2) == sum);
  CHECK(x.read(1) == of_rank(1, 5));
  for (int r = 0; r < 3; ++r) CHECK(ncclCommDestroy(parts[r]) == ncclSuccess);
  // Once more: what was posted for the first split is not mistaken.
  REQUIRE(ranks.group([&](int r) { ncclCommSplit(ranks[r].comm, 0, r, &parts[r], nullptr); }) == ncclSuccess);
  int count = 0;
  CHECK(ncclCommCount(parts[3], &count) == ncclSuccess);
  CHECK(count == 4);
  for (int r = 0; r < 4; ++r) CHECK(ncclCommDestroy(parts[r]) == ncclSuccess);
}

TEST_CASE("two ranks on one GPU are refused") {
  const int twice[] = {1, 1}, missing[] = {0, 17};
  ncclComm_t comms[2];
  CHECK(ncclCommInitAll(comms, 2, twice) == ncclInvalidUsage);
  CHECK(ncclCommInitAll(comms, 2, missing) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, 5, nullptr) == ncclInvalidArgument);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK_CUDA(cudaSetDevice(0));
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclCommInitRank(&comms[0], 2, id, 0) == ncclSuccess);
  CHECK(ncclCommInitRank(&comms[1], 2, id, 1) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(comms[0] == nullptr);
  CHECK(std::strstr(ncclGetLastError(nullptr), "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0"));
}

TEST_CASE("ranks that can't be are refused where they join") {
  ncclUniqueId id, nonsense{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr, again = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(nullptr, 1, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 1, nonsense, 0) == ncclInvalidArgument);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommInitRank(&again, 2, id, 0) == ncclInvalidArgument);  // that rank has come
  CHECK(ncclCommInitRank(&again, 3, id, 1) == ncclInvalidArgument);  // of another number of ranks
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  CHECK(ncclCommInitRank(&again, 1, id, 0) == ncclSystemError);  // an id is for one communicator
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  config.blocking = 2;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  config = {};
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
}

TEST_CASE("arguments that can't be are refused") {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  const ncclComm_t comm = ranks[0].comm;
  const cudaStream_t stream = ranks[0].stream;
  CHECK(ncclAllReduce(x[0], x[0], 8, ncclFloat, ncclSum, nullptr, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(nullptr, x[0], 8, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(x[0], nullptr, 8, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(x[0], x[0], 8, ncclDataType_t(12), ncclSum, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(x[0], x[0], 8, ncclFloat, ncclRedOp_t(7), comm, stream) == ncclInvalidArgument);
  CHECK(ncclBroadcast(x[0], x[0], 8, ncclFloat, 2, comm, stream) == ncclInvalidArgument);
  CHECK(ncclSend(x[0], 8, ncclFloat, -1, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(reinterpret_cast<char*>(x[0]) + 2, x[0], 1, ncclFloat, ncclSum, comm, stream) ==
        ncclInvalidArgument);
  CHECK(ncclAllReduce(x[0], x[0], 8, ncclFloat, ncclSum, comm, ranks[1].stream) == ncclUnhandledCudaError);
  CHECK(ncclAllReduce(x[0], x[0], 0, ncclFloat, ncclSum, comm, stream) == ncclSuccess);  // nothing happens
  CHECK(ncclCommCount(comm, nullptr) == ncclInvalidArgument);
  CHECK(std::strcmp(ncclGetErrorString(ncclInvalidUsage), "invalid usage (run with NCCL_DEBUG=WARN for details)") == 0);
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == NCCL_VERSION_CODE);
}

TEST_CASE("a group's error is that of its calls, and nothing of it happens") {
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  CHECK(ranks.group([&](int r) {
    ncclAllReduce(x[r], r == 1 ? nullptr : x[r], 8, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclInvalidArgument);
  CHECK(x.read(0) == of_rank(0, 8));
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t other = nullptr;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclCommInitRank(&other, 1, id, 0) == ncclSuccess);
  CHECK(ncclAllReduce(x[0], x[0], 8, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(other == nullptr);
}

TEST_CASE("a finalized communicator takes no more calls") {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 8); });
  REQUIRE(ranks.group([&](int r) {
    ncclAllReduce(x[r], x[r], 8, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  REQUIRE(ranks.group([&](int r) { ncclCommFinalize(ranks[r].comm); }) == ncclSuccess);
  CHECK(cudaStreamQuery(ranks[0].stream) == cudaSuccess);  // what was queued has run
  CHECK(ncclAllReduce(x[0], x[0], 8, ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream) == ncclInvalidUsage);
  CHECK(x.read(0) == summed(2, 8));
}
