// Collectives of GPUs: by NCCL or by way of the host, and their failures.
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/core/tensor.h>
#include <tandem/ops/binary.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>
#include <simgpu/nccl_faults.h>
#include <simgpu/simgpu.h>

#include <atomic>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

namespace {

simgpu_counts counts() {
  simgpu_counts c;
  simgpu_get_counts(&c);
  return c;
}

Communicator& world() { return current_process_group().communicator(); }

// Values that say whether a sum over ranks 0 to n - 1 is right.
void check_sum(int n) {
  Tensor x = full({1000}, double(world().rank() + 1));
  world().all_reduce(x);
  CHECK(x.to_vector()[999] == n * (n + 1) / 2);
}

struct Mended {
  ~Mended() { simgpu_nccl_mend(); }
};

}  // namespace

TEST_CASE("values go by NCCL where each rank has a GPU, and by way of the host where asked for") {
  for (const char* backend : {"", "nccl", "cpu"}) {
    CAPTURE(backend);
    simgpu_reset_counts();
    run_replicas(3, [](int) { check_sum(3); }, {.backend = backend});
    CHECK((counts().library_calls == 3) == (std::string(backend) != "cpu"));
    // Through the host each rank reads its values and writes the sums.
    CHECK(counts().host_copy_bytes >= (std::string(backend) == "cpu" ? 3 * 3 * 4000u : 3 * 4000u));
  }
}

TEST_CASE("two ranks on one GPU: by way of the host, and nccl says why it can't") {
  const LogCapture quiet;
  auto on_one_gpu = [](const std::string& backend) {
    run_replicas(2,
                 [](int) {
                   DeviceGuard same(test_device(1));
                   check_sum(2);
                 },
                 {.backend = backend});
  };
  simgpu_reset_counts();
  on_one_gpu("");
  CHECK(counts().library_calls == 0);
  CHECK_THROWS_WITH_AS(on_one_gpu("nccl"),
                       doctest::Contains("[init_process_group] backend nccl: ranks 0 and 1 use the same GPU, which "
                                         "NCCL does not allow. Backend \"cpu\" takes the way through the host"),
                       DeviceError);
}

TEST_CASE("asynchronous ones return at once, and are ordered with the stream's work") {
  run_replicas(2, [](int rank) {
    world().all_reduce(zeros({1}));
    Tensor x = full({50'000}, 1), y = full({50'000}, 2);
    if (rank == 1) std::this_thread::sleep_for(50ms);
    const auto begin = std::chrono::steady_clock::now();
    Work a = world().all_reduce_async(x), b = world().all_reduce_async(y);
    if (rank == 0) {
      CHECK(std::chrono::steady_clock::now() - begin < 40ms);
      CHECK_FALSE(b.is_completed());
    }
    a.wait();
    x.mul_(1);  // on the stream, after the sum
    b.wait();
    CHECK(x.to_vector()[49'999] == 2);
    CHECK(y.to_vector()[0] == 4);
    CHECK(a.is_completed());
    CHECK(b.is_completed());
    CHECK_FALSE(a.error());
  });
}

TEST_CASE("a tensor that is let go while it is being reduced is not handed out again") {
  run_replicas(2, [](int rank) {
    world().all_reduce(zeros({1}));
    for (int i = 0; i < 20; ++i) {
      Tensor mine = full({4096}, 1);
      Work w = world().all_reduce_async(mine);
      mine = {};
      Tensor other = full({4096}, rank + 10);  // would be the same memory
      w.wait();
      CHECK(other.to_vector()[0] == rank + 10);
    }
  });
}

TEST_CASE("a GPU whose collective does not end: the deadline names nobody wrongly, and its result is not read") {
  const LogCapture quiet;
  Mended mended;
  std::atomic<int> told{0}, lost{0};
  run_replicas(2,
               [&](int) {
                 check_sum(2);
                 current_process_group().barrier();
                 simgpu_nccl_hang_rank(1);
                 Tensor x = full({10}, 1);
                 world().all_reduce(x, {.label = "gradient"});
                 try {
                   (void)x.to_vector();
                 } catch (const CommError& e) {
                   CHECK(says(e.what(), "was to write is lost"));
                   CHECK(says(e.what(), "all_reduce of 10 f32 (sum) 'gradient'"));
                   ++lost;
                 }
                 try {
                   world().barrier();
                 } catch (const CommError& e) {
                   CHECK(says(e.what(), "after 0.3 s"));
                   ++told;
                 }
               },
               {.timeout = 300ms});
  CHECK(told == 2);
  CHECK(lost == 2);
}

TEST_CASE("what NCCL finds is told with the causes to look for") {
  const LogCapture quiet;
  Mended mended;
  std::atomic<int> told{0};
  run_replicas(2,
               [&](int rank) {
                 check_sum(2);
                 current_process_group().barrier();
                 if (rank == 0) simgpu_nccl_lose_rank(1);
                 current_process_group().barrier();
                 try {
                   Tensor x = full({10}, 1);
                   world().all_reduce(x);
                   (void)x.to_vector();
                   world().barrier();
                 } catch (const CommError& e) {
                   const std::string why = e.what();
                   CAPTURE(why);
                   CHECK(says(why, "remote process exited"));
                   CHECK(says(why, "Most often: another rank has died"));
                   ++told;
                 }
               },
               {.timeout = 20s});
  CHECK(told == 2);
}

TEST_CASE("a slow link delays, and nothing else") {
  Mended mended;
  run_replicas(2, [](int) {
    simgpu_nccl_slow_link(1, 20);
    for (int i = 0; i < 3; ++i) check_sum(2);
  });
}

TEST_CASE("a rank that throws ends the others' work on their GPUs, naming it") {
  const LogCapture quiet;
  std::atomic<int> named{0};
  CHECK_THROWS_WITH(run_replicas(3,
                                 [&](int rank) {
                                   check_sum(3);
                                   if (rank == 2) throw std::runtime_error("no such file");
                                   try {
                                     for (;;) check_sum(3);
                                   } catch (const CommError& e) {
                                     CHECK(e.rank == 2);
                                     CHECK(says(e.what(), "no such file"));
                                     ++named;
                                   }
                                 }),
                    "no such file");
  CHECK(named == 2);
}
