// NCCL's collectives and messages: numbers of all types and kinds, in groups, threads and graphs.
#include <doctest/doctest.h>

#include <barrier>
#include <cmath>
#include <thread>

#include "nccl_ranks.h"

using namespace simgpu_test;

TEST_CASE_TEMPLATE("collectives of one thread, in groups", T, float, double, __half, __nv_bfloat16, int32_t, uint8_t,
                   int64_t) {
  for (const int n : {1, 2, 3, 4})
    for (const size_t count : {size_t(1), size_t(5), size_t(1000)}) {
      CAPTURE(n);
      CAPTURE(count);
      Ranks ranks(n);
      const auto type = TypeOf<T>::nccl;
      const size_t whole = count * size_t(n);
      RankValues<T> from(ranks, [&](int r) { return of_rank(r, whole); });
      RankValues<T> to(ranks, [&](int) { return zeros(whole); });
      const auto sum = summed(n, whole);

      REQUIRE(ranks.group([&](int r) {
        CHECK(ncclAllReduce(from[r], to[r], whole, type, ncclSum, ranks[r].comm, ranks[r].stream) == ncclSuccess);
      }) == ncclSuccess);
      for (int r = 0; r < n; ++r) CHECK(to.read(r) == sum);

      const int root = n - 1;
      REQUIRE(ranks.group([&](int r) {
        ncclReduce(from[r], r == root ? to[r] : nullptr, count, type, ncclSum, root, ranks[r].comm, ranks[r].stream);
      }) == ncclSuccess);
      REQUIRE(ranks.group([&](int r) {
        ncclBroadcast(r == root ? to[r] : nullptr, to[r], whole, type, root, ranks[r].comm, ranks[r].stream);
      }) == ncclSuccess);
      for (int r = 0; r < n; ++r) CHECK(to.read(r) == sum);

      REQUIRE(ranks.group([&](int r) { ncclAllGather(from[r], to[r], count, type, ranks[r].comm, ranks[r].stream); }) ==
              ncclSuccess);
      std::vector<double> gathered;
      for (int r = 0; r < n; ++r) {
        const auto part = of_rank(r, count);
        gathered.insert(gathered.end(), part.begin(), part.end());
      }
      for (int r = 0; r < n; ++r) CHECK(to.read(r) == gathered);

      REQUIRE(ranks.group([&](int r) {
        ncclReduceScatter(from[r], to[r], count, type, ncclSum, ranks[r].comm, ranks[r].stream);
      }) == ncclSuccess);
      for (int r = 0; r < n; ++r) {
        const auto found = to.read(r);
        const auto begin = sum.begin() + int64_t(size_t(r) * count);
        CHECK(std::vector<double>(found.begin(), found.begin() + int64_t(count)) ==
              std::vector<double>(begin, begin + int64_t(count)));
      }
    }
}

TEST_CASE("more values than the windows between ranks hold") {
  Ranks ranks(3);
  const size_t count = 2'500'003;
  RankValues<float> from(ranks, [&](int r) { return of_rank(r, count); });
  RankValues<float> to(ranks, [&](int) { return zeros(count); });
  for (int turn = 0; turn < 2; ++turn)
    REQUIRE(ranks.group([&](int r) {
      ncclAllReduce(from[r], to[r], count, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
    }) == ncclSuccess);
  const auto sum = summed(3, count);
  for (int r = 0; r < 3; ++r) CHECK(to.read(r) == sum);
  REQUIRE(ranks.group([&](int r) {
    ncclReduceScatter(from[r], to[r], count / 3, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  for (int r = 0; r < 3; ++r) {
    const auto found = to.read(r);
    bool same = true;
    for (size_t i = 0; i < count / 3; ++i) same &= found[i] == sum[size_t(r) * (count / 3) + i];
    CHECK(same);
  }
}

TEST_CASE("in place") {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 6); });
  REQUIRE(ranks.group([&](int r) {
    ncclAllReduce(x[r], x[r], 6, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  const auto sum = summed(2, 6);
  for (int r = 0; r < 2; ++r) CHECK(x.read(r) == sum);
  RankValues<float> y(ranks, [](int r) { return of_rank(r, 6); });
  REQUIRE(ranks.group([&](int r) {
    ncclReduceScatter(y[r], y[r] + 3 * r, 3, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  REQUIRE(ranks.group([&](int r) {
    ncclAllGather(y[r] + 3 * r, y[r], 3, ncclFloat, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  for (int r = 0; r < 2; ++r) CHECK(y.read(r) == sum);
}

TEST_CASE("reductions of all kinds") {
  const int n = 3;
  Ranks ranks(n);
  RankValues<float> from(ranks, [](int r) { return of_rank(r, 20); });
  RankValues<float> to(ranks, [](int) { return zeros(20); });
  RankValues<int32_t> integers(ranks, [](int r) { return of_rank(r, 20); });
  const auto reduced = [&](ncclRedOp_t op) {
    REQUIRE(ranks.group([&](int r) {
      ncclAllReduce(from[r], to[r], 20, ncclFloat, op, ranks[r].comm, ranks[r].stream);
    }) == ncclSuccess);
    return to.read(1);
  };
  CHECK(reduced(ncclProd) == combined(n, 20, std::multiplies<double>()));
  CHECK(reduced(ncclMax) == combined(n, 20, [](double a, double b) { return std::max(a, b); }));
  CHECK(reduced(ncclMin) == combined(n, 20, [](double a, double b) { return std::min(a, b); }));
  const auto sum = summed(n, 20), average = reduced(ncclAvg);
  for (size_t i = 0; i < 20; ++i) CHECK(average[i] == doctest::Approx(sum[i] / n).epsilon(1e-6));
  REQUIRE(ranks.group([&](int r) {
    ncclAllReduce(integers[r], integers[r], 20, ncclInt32, ncclAvg, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  for (size_t i = 0; i < 20; ++i) CHECK(integers.read(0)[i] == std::floor(sum[i] / n));
}

TEST_CASE("half types are rounded at each addition, as on the ring") {
  Ranks ranks(3);
  RankValues<__nv_bfloat16> x(ranks, [](int r) { return std::vector<double>(3, r == 0 ? 256 : 1); });
  REQUIRE(ranks.group([&](int r) {
    ncclAllReduce(x[r], x[r], 3, ncclBfloat16, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  // 256 + 1 is rounded to 256; 1 + 1 + 256 to 258. Element i is the rank's whose sum begins with the next.
  CHECK(x.read(0) == std::vector<double>{258, 256, 256});
  CHECK(x.read(1) == x.read(0));
}

TEST_CASE("sums of values multiplied first, by a host's or a device's scalar") {
  Ranks ranks(2);
  RankValues<float> from(ranks, [](int r) { return of_rank(r, 4); }), to(ranks, [](int) { return zeros(4); });
  RankValues<float> scalar(ranks, [](int r) { return std::vector<double>{r == 0 ? 0.5 : 4.}; });
  for (const auto residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
    ncclRedOp_t ops[2];
    for (int r = 0; r < 2; ++r) {
      float on_host = r == 0 ? 0.5f : 4.f;
      REQUIRE(ncclRedOpCreatePreMulSum(&ops[r], residence == ncclScalarDevice ? scalar[r] : &on_host, ncclFloat,
                                       residence, ranks[r].comm) == ncclSuccess);
    }
    REQUIRE(ranks.group([&](int r) {
      ncclAllReduce(from[r], to[r], 4, ncclFloat, ops[r], ranks[r].comm, ranks[r].stream);
    }) == ncclSuccess);
    for (size_t i = 0; i < 4; ++i) CHECK(to.read(1)[i] == 0.5 * of_rank(0, 4)[i] + 4 * of_rank(1, 4)[i]);
    CHECK(ncclAllReduce(from[0], to[0], 2, ncclHalf, ops[0], ranks[0].comm, ranks[0].stream) == ncclInvalidArgument);
    for (int r = 0; r < 2; ++r) CHECK(ncclRedOpDestroy(ops[r], ranks[r].comm) == ncclSuccess);
    CHECK(ncclAllReduce(from[0], to[0], 4, ncclFloat, ops[0], ranks[0].comm, ranks[0].stream) == ncclInvalidArgument);
    CHECK(ncclRedOpDestroy(ops[0], ranks[0].comm) == ncclInvalidArgument);
  }
  CHECK(ncclRedOpDestroy(ncclSum, ranks[0].comm) == ncclInvalidArgument);
}

TEST_CASE("messages around a ring, several in one group, and to oneself") {
  const int n = 3;
  const size_t count = 200'000;
  Ranks ranks(n);
  RankValues<float> from(ranks, [&](int r) { return of_rank(r, count); });
  RankValues<float> to(ranks, [&](int) { return zeros(count); });
  REQUIRE(ranks.group([&](int r) {
    const int next = (r + 1) % n, previous = (r + n - 1) % n;
    const auto& x = ranks[r];
    ncclSend(from[r], count / 4, ncclFloat, next, x.comm, x.stream);
    ncclSend(from[r] + count / 4, count - count / 4, ncclFloat, next, x.comm, x.stream);
    ncclRecv(to[r], count / 4, ncclFloat, previous, x.comm, x.stream);
    ncclRecv(to[r] + count / 4, count - count / 4, ncclFloat, previous, x.comm, x.stream);
  }) == ncclSuccess);
  for (int r = 0; r < n; ++r) CHECK(to.read(r) == of_rank((r + n - 1) % n, count));
  REQUIRE(ranks.group([&](int r) {
    ncclSend(from[r], 10, ncclFloat, r, ranks[r].comm, ranks[r].stream);
    ncclRecv(to[r], 10, ncclFloat, r, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  for (int r = 0; r < n; ++r) CHECK(to.read(r)[9] == of_rank(r, 10)[9]);
}

TEST_CASE("a message waits for its receiver") {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 3); });
  REQUIRE(ncclSend(x[0], 3, ncclFloat, 1, ranks[0].comm, ranks[0].stream) == ncclSuccess);
  for (int i = 0; i < 20; ++i) CHECK(cudaStreamQuery(ranks[0].stream) == cudaErrorNotReady);
  std::thread([&] {
    CHECK_CUDA(cudaSetDevice(1));
    CHECK(ncclRecv(x[1], 3, ncclFloat, 0, ranks[1].comm, ranks[1].stream) == ncclSuccess);
  }).join();
  ranks[0].stream.wait();
  CHECK(x.read(1) == of_rank(0, 3));
}

TEST_CASE("ranks as threads, without groups") {
  const int n = 4;
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> found(size_t{n});
  std::barrier ready(n);
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      Rank rank(r);
      CHECK(ncclCommInitRank(&rank.comm, n, id, r) == ncclSuccess);
      int size = 0, number = -1, device = -1;
      CHECK(ncclCommCount(rank.comm, &size) == ncclSuccess);
      CHECK(ncclCommUserRank(rank.comm, &number) == ncclSuccess);
      CHECK(ncclCommCuDevice(rank.comm, &device) == ncclSuccess);
      CHECK(size == n);
      CHECK(number == r);
      CHECK(device == r);
      TypedValues<float> x(of_rank(r, 1000));
      ready.arrive_and_wait();  // memory is not freed while a peer's collective runs: a free would wait for it
      for (int i = 0; i < 3; ++i)
        CHECK(ncclAllReduce(x, x, 1000, ncclFloat, ncclSum, rank.comm, rank.stream) == ncclSuccess);
      found[size_t(r)] = x.read(rank.stream);
      CHECK(ncclCommFinalize(rank.comm) == ncclSuccess);
    });
  for (auto& t : threads) t.join();
  auto expected = summed(n, 1000);
  for (double& e : expected) e *= n * n;
  for (const auto& f : found) CHECK(f == expected);
}

TEST_CASE("collectives are nodes of graphs") {
  Ranks ranks(2);
  RankValues<float> x(ranks, [](int r) { return of_rank(r, 5); });
  cudaGraph_t graphs[2];
  cudaGraphExec_t execs[2];
  for (int r = 0; r < 2; ++r) CHECK_CUDA(cudaStreamBeginCapture(ranks[r].stream, cudaStreamCaptureModeThreadLocal));
  REQUIRE(ranks.group([&](int r) {
    ncclAllReduce(x[r], x[r], 5, ncclFloat, ncclSum, ranks[r].comm, ranks[r].stream);
  }) == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    CHECK_CUDA(cudaSetDevice(r));
    CHECK_CUDA(cudaStreamEndCapture(ranks[r].stream, &graphs[r]));
    CHECK_CUDA(cudaGraphInstantiate(&execs[r], graphs[r], 0));
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (int r = 0; r < 2; ++r) {
      CHECK_CUDA(cudaSetDevice(r));
      CHECK_CUDA(cudaGraphLaunch(execs[r], ranks[r].stream));
    }
    // One outside graphs, in between.
    REQUIRE(ranks.group([&](int r) {
      ncclAllReduce(x[r], x[r], 5, ncclFloat, ncclMax, ranks[r].comm, ranks[r].stream);
    }) == ncclSuccess);
  }
  auto expected = summed(2, 5);
  for (double& e : expected) e *= 4;
  for (int r = 0; r < 2; ++r) CHECK(x.read(r) == expected);
  for (int r = 0; r < 2; ++r) {
    CHECK_CUDA(cudaGraphExecDestroy(execs[r]));
    CHECK_CUDA(cudaGraphDestroy(graphs[r]));
  }
  CHECK_CUDA(cudaSetDevice(0));
}
