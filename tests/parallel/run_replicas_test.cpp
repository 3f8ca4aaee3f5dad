// Ranks as threads: their collectives, their contexts, and what becomes of the others when one of them fails.
#include "tests/support/collective_cases.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/core/autograd.h>
#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/random.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

#include <map>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

namespace {

// What each rank's collective ended in, as text; empty where all went well.
struct Outcomes {
  std::mutex mutex;
  std::map<int, std::string> text;
  std::map<int, int> culprit;
  std::map<int, std::chrono::milliseconds> after;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  template <class F>
  void of(int rank, F f) {
    std::string what;
    int who = -2;
    try {
      f();
    } catch (const CommError& e) {
      what = e.what();
      who = e.rank;
    }
    std::lock_guard lock(mutex);
    text[rank] = what;
    culprit[rank] = who;
    after[rank] = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  }
};

}  // namespace

TEST_CASE("collectives of threads") {
  for (int n : {1, 2, 3, 4, 8}) {
    CAPTURE(n);
    run_replicas(n, [&](int rank) {
      Communicator& c = current_process_group().communicator();
      CHECK(c.rank() == rank);
      CHECK(c.size() == n);
      check_collectives(c, n <= 4 ? 20'000 : 3'000);
    });
  }
}

TEST_CASE("ten million elements") {
  run_replicas(2, [](int rank) {
    Tensor x = full({10'000'000}, rank + 1, {.dtype = Dtype::i32});
    current_process_group().communicator().all_reduce(x);
    for (int32_t v : x.to_vector<int32_t>())
      if (v != 3) FAIL("a wrong sum");
  });
}

TEST_CASE("each rank has a device, a generator, threads and a group of its own, and the caller's modes") {
  manual_seed(7);
  Generator expected = default_generator();
  const uint32_t first = expected.random();
  NoGradGuard no_grad;
  const int share = std::max(1, num_threads() / 3);
  run_replicas(3, [&](int rank) {
    CHECK(current_device() == test_device(rank));
    CHECK(zeros({1}).device() == test_device(rank));
    CHECK(default_generator().random() == first);
    CHECK_FALSE(context().grad);
    CHECK(num_threads() == share);
    CHECK(current_process_group().rank() == rank);
    CHECK(current_process_group().local_rank() == rank);
    CHECK(current_process_group().local_size() == 3);
  });
  CHECK(context().process_group == nullptr);
  CHECK_THROWS_AS(current_process_group(), Error);
}

TEST_CASE("groups in a group, each with an order of its own") {
  run_replicas(4, [](int rank) {
    ProcessGroup& g = current_process_group();
    auto even = g.new_group({0, 2}), odd = g.new_group({1, 3}), all = g.new_communicator();
    CHECK((even == nullptr) == (rank % 2 == 1));
    Communicator& mine = rank % 2 ? *odd : *even;
    CHECK(mine.size() == 2);
    CHECK(mine.rank() == rank / 2);
    Tensor x = full({5000}, rank), y = full({5}, rank);
    Work w = g.communicator().all_reduce_async(x);
    mine.all_reduce(y);
    w.wait();
    CHECK(x.to_vector()[4999] == 6);
    CHECK(y.to_vector()[0] == (rank % 2 ? 4 : 2));
    Tensor z = full({1}, 1);
    all->all_reduce(z);
    CHECK(z.item() == 4);
    CHECK_THROWS_AS((void)g.new_group({2, 1}), Error);
    CHECK_THROWS_AS((void)g.new_group({0, 4}), Error);
  });
}

TEST_CASE("another collective on one rank is an error on all, showing both sides") {
  Outcomes o;
  run_replicas(3, [&](int rank) {
    Communicator& c = current_process_group().communicator();
    c.barrier();
    o.of(rank, [&] {
      if (rank == 1)
        c.all_reduce(zeros({4}));
      else
        c.all_reduce(zeros({5}));
    });
    CHECK_THROWS_AS(c.barrier(), CommError);
  });
  for (int r = 0; r < 3; ++r) {
    CAPTURE(o.text[r]);
    CHECK(says(o.text[r], "all_reduce of 4 f32"));
    CHECK(says(o.text[r], "all_reduce of 5 f32"));
  }
}

TEST_CASE("a rank that throws is named by all who need it, with its reason, and the caller gets what it threw") {
  Outcomes o;
  struct Own : std::runtime_error {
    using runtime_error::runtime_error;
  };
  CHECK_THROWS_WITH_AS(run_replicas(3,
                                    [&](int rank) {
                                      Communicator& c = current_process_group().communicator();
                                      c.barrier();
                                      if (rank == 2) throw Own("out of luck");
                                      o.of(rank, [&] { c.all_reduce(zeros({3})); });
                                    }),
                       "out of luck", Own);
  for (int r = 0; r < 2; ++r) {
    CAPTURE(o.text[r]);
    CHECK(o.culprit[r] == 2);
    CHECK(says(o.text[r], "rank 2 has left the group: out of luck"));
    CHECK(o.after[r] < 1s);
  }
}

TEST_CASE("a rank may leave early if nobody needs it any more") {
  run_replicas(4, [](int rank) {
    ProcessGroup& g = current_process_group();
    auto two = g.new_group({0, 1});
    g.barrier();
    if (rank > 1) return;
    std::this_thread::sleep_for(20ms);
    Tensor x = full({70'000}, 1);
    two->all_reduce(x);
    CHECK(x.to_vector()[0] == 2);
  });
}

TEST_CASE("a rank that does not come is named at the deadline") {
  auto o = std::make_shared<Outcomes>();  // the late rank may be left behind
  CHECK_THROWS_AS(run_replicas(3,
                               [o](int rank) {
                                 Communicator& c = current_process_group().communicator();
                                 c.barrier();
                                 if (rank == 1) std::this_thread::sleep_for(400ms);
                                 o->of(rank, [&] { c.all_reduce(zeros({3}), {.label = "loss"}); });
                                 if (rank != 1) throw CommError("as seen", 1);
                               },
                               {.timeout = 150ms}),
                  CommError);
  while (o.use_count() > 1) std::this_thread::sleep_for(1ms);
  std::lock_guard lock(o->mutex);
  for (int r : {0, 2}) {
    CAPTURE(o->text[r]);
    CHECK(o->culprit[r] == 1);
    CHECK(says(o->text[r], "'loss'"));
    CHECK(says(o->text[r], "rank 1 lags behind"));
    CHECK(o->after[r] < 2s);
  }
}

TEST_CASE("a rank that never ends is named to the caller") {
  auto stuck = std::make_shared<std::atomic<bool>>(true);
  CHECK_THROWS_WITH_AS(run_replicas(2,
                                    [stuck](int rank) {
                                      if (rank == 0) throw Error("first");
                                      while (*stuck) std::this_thread::sleep_for(1ms);
                                    },
                                    {.timeout = 100ms}),
                       doctest::Contains("ranks 1 still run"), CommError);
  *stuck = false;
  while (stuck.use_count() > 1) std::this_thread::sleep_for(1ms);  // the thread left behind has let go of everything
}

TEST_CASE("rank0_only lets the others wait, and tells them of an error") {
  run_replicas(3,
               [](int rank) {
                 ProcessGroup& g = current_process_group();
                 int ran = 0;
                 g.rank0_only([&] {
                   std::this_thread::sleep_for(300ms);  // longer than a collective may take
                   ++ran;
                 });
                 CHECK(ran == (rank == 0));
               },
               {.timeout = 100ms});
  Outcomes o;
  CHECK_THROWS_WITH_AS(run_replicas(2,
                                    [&](int rank) {
                                      ProcessGroup& g = current_process_group();
                                      g.barrier();
                                      if (rank == 0) g.rank0_only([] { throw IoError("disk full"); });
                                      o.of(rank, [&] { g.rank0_only([] {}); });
                                    }),
                       "disk full", IoError);
  CHECK(says(o.text[1], "disk full"));
}

TEST_CASE("an outstanding collective does not hold up the end of its group") {
  const auto start = std::chrono::steady_clock::now();
  Outcomes o;
  run_replicas(2, [&](int rank) {
    Communicator& c = current_process_group().communicator();
    c.barrier();
    if (rank == 0) {
      Work w = c.all_reduce_async(zeros({100'000}));
      return;
    }
    std::this_thread::sleep_for(50ms);
    o.of(rank, [&] { c.all_reduce(zeros({100'000})); });
  });
  CHECK(says(o.text[1], "rank 0 has ended a communicator while collectives were under way"));
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE(
    "a communicator that is let go with work under way is missed by those who use it, and nothing of it is read") {
  Outcomes o;
  run_replicas(2, [&](int rank) {
    auto c = current_process_group().new_communicator();
    c->all_reduce(zeros({1}));  // connects what there is to connect
    if (rank == 0) {
      Work w = c->all_reduce_async(zeros({100'000}));
      std::this_thread::sleep_for(20ms);
      c.reset();
      CHECK_THROWS_AS(w.wait(), CommError);
      std::this_thread::sleep_for(100ms);  // its group lives on
      return;
    }
    std::this_thread::sleep_for(60ms);
    o.of(rank, [&] { c->all_reduce(zeros({100'000})); });
  });
  CHECK(o.culprit[1] == 0);
  CHECK(o.after[1] < 5s);
}

TEST_CASE("a rank that leaves while another still makes a communicator is named, with its reason") {
  Outcomes o;
  CHECK_THROWS_WITH_AS(run_replicas(2,
                                    [&](int rank) {
                                      current_process_group().barrier();
                                      if (rank == 1) throw Error("no data here");
                                      std::this_thread::sleep_for(30ms);
                                      o.of(rank, [] {
                                        auto c = current_process_group().new_communicator();
                                        c->barrier();
                                      });
                                    }),
                       "no data here", Error);
  CHECK(o.culprit[0] == 1);
  CHECK(says(o.text[0], "no data here"));
  CHECK(o.after[0] < 5s);
}

TEST_CASE("arguments that can't be") {
  run_replicas(2, [](int rank) {
    Communicator& c = current_process_group().communicator();
    CHECK_THROWS_AS(c.broadcast(zeros({1}), 2), Error);
    CHECK_THROWS_AS(c.all_reduce(zeros({2, 2}, {.dtype = Dtype::i32}), {.op = ReduceOp::mean}), DtypeError);
    CHECK_THROWS_AS(c.all_reduce(zeros({4, 4}).slice(1, 0, 4, 2)), ShapeError);
    CHECK_THROWS_AS(c.all_gather(zeros({3, 2}), zeros({2})), ShapeError);
    CHECK_THROWS_AS(c.all_gather(zeros({2, 2}), zeros({2}, {.dtype = Dtype::f64})), DtypeError);
    CHECK_THROWS_AS(c.send(zeros({1}), rank), Error);
    CHECK_THROWS_AS(c.all_reduce(zeros({2}), {.premultiply = tensor({1.f, 2.f})}), ShapeError);
    CHECK_THROWS_AS(c.all_reduce(Tensor()), Error);
    c.barrier();
  });
  CHECK_THROWS_AS(run_replicas(0, [](int) {}), Error);
}
