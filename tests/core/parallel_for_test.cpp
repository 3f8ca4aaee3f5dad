#include <tandem/core/error.h>
#include <tandem/core/parallel_for.h>

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

using namespace tandem;

TEST_CASE("parallel_for covers each index once, whatever the threads and the grain") {
  for (int threads : {1, 2, 3, 7})
    for (int64_t grain : {1, 5, 16, 1000})
      for (int64_t n : {0, 1, 2, 15, 16, 17, 63, 64, 100, 1000, 4099}) {
        set_num_threads(threads);
        std::vector<std::atomic<int>> hits(size_t(n) + 1);
        parallel_for(n, grain, [&](int64_t a, int64_t b) {
          CHECK(a < b);
          for (int64_t i = a; i < b; ++i) ++hits[size_t(i)];
        });
        bool once = hits[size_t(n)] == 0;
        for (int64_t i = 0; i < n; ++i) once = once && hits[size_t(i)] == 1;
        CAPTURE(threads);
        CAPTURE(grain);
        CAPTURE(n);
        CHECK(once);
      }
  set_num_threads(1);
}

TEST_CASE("up to the grain, and with one thread, it runs in the caller") {
  auto threads_of = [](int64_t n, int64_t grain) {
    std::mutex m;
    std::set<std::thread::id> ids;
    parallel_for(n, grain, [&](int64_t, int64_t) {
      std::lock_guard l(m);
      ids.insert(std::this_thread::get_id());
    });
    return ids;
  };
  const std::set<std::thread::id> self{std::this_thread::get_id()};
  set_num_threads(4);
  CHECK(threads_of(100, 100) == self);
  CHECK(threads_of(1000, 10).size() > 1);
  CHECK(threads_of(1000, 10).size() <= 4);
  set_num_threads(1);
  CHECK(threads_of(1000, 10) == self);
}

TEST_CASE("an exception of any part reaches the caller, and the next loop runs") {
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    CHECK_THROWS_WITH_AS(parallel_for(1000, 1,
                                      [](int64_t, int64_t b) {
                                        if (b == 1000) throw ShapeError("from the last part");
                                      }),
                         "from the last part", ShapeError);
    std::atomic<int64_t> sum = 0;
    parallel_for(1000, 1, [&](int64_t a, int64_t b) { sum += b - a; });
    CHECK(sum == 1000);
  }
  set_num_threads(1);
}

TEST_CASE("a loop inside a loop still covers everything") {
  set_num_threads(2);
  std::atomic<int64_t> sum = 0;
  parallel_for(8, 1, [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) parallel_for(100, 1, [&](int64_t c, int64_t d) { sum += d - c; });
  });
  CHECK(sum == 800);
  set_num_threads(1);
}

TEST_CASE("the number of threads is at least one") {
  CHECK_THROWS_WITH_AS(set_num_threads(0), "set_num_threads: at least 1, got 0", Error);
  set_num_threads(5);
  CHECK(num_threads() == 5);
  set_num_threads(1);
  int elsewhere = 0;
  std::thread([&] { elsewhere = num_threads(); }).join();
  CHECK(elsewhere >= 1);
}
