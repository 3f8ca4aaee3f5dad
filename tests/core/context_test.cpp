#include <tandem/core/autograd.h>
#include <tandem/core/context.h>
#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/binary.h>

#include <doctest/doctest.h>

#include <thread>

using namespace tandem;

TEST_CASE("each thread has a context of its own") {
  NoGradGuard no_grad;
  set_num_threads(3);
  manual_seed(5);
  bool grad = false;
  int threads = 0;
  uint64_t seed = 0;
  std::thread([&] {
    grad = context().grad;
    threads = context().threads;
    seed = default_generator().initial_seed();
    context().deterministic = true;
    set_num_threads(2);
  }).join();
  CHECK(grad);
  CHECK(threads == 0);
  CHECK(seed != 5);
  CHECK_FALSE(context().deterministic);
  CHECK(num_threads() == 3);
  set_num_threads(1);
}

TEST_CASE("a task carries its poster's context") {
  set_cpu_devices(2);
  DeviceGuard device(cpu(1));
  NoGradGuard no_grad;
  context().random = {.seed = 1, .step = 2, .call = 3, .row_offset = 4};
  Context posted = context();
  Device seen;
  bool grad = true;
  int64_t row_offset = 0;
  std::thread([&] {
    {
      ContextGuard guard(posted);
      seen = current_device();
      grad = context().grad;
      row_offset = context().random.row_offset;
      context().random.call = 9;
    }
    CHECK(context().grad);
    CHECK(current_device() == cpu(0));
  }).join();
  CHECK(seen == cpu(1));
  CHECK_FALSE(grad);
  CHECK(row_offset == 4);
  CHECK(context().random.call == 3);
  context().random = {};
}

TEST_CASE("a copied context draws on by itself, from where the original stands") {
  manual_seed(3);
  (void)default_generator().random();
  Generator expected = default_generator();
  Context posted = context();
  const uint32_t next = expected.random();
  uint32_t there = 0;
  std::thread([&] {
    ContextGuard guard(posted);
    there = default_generator().random();
  }).join();
  CHECK(there == next);
  CHECK(default_generator().random() == next);
}

TEST_CASE("guards nest, and put back what was") {
  Tensor x = ones({1}, {.requires_grad = true});
  CHECK((x + x).requires_grad());
  {
    NoGradGuard off;
    CHECK_FALSE((x + x).requires_grad());
    {
      EnableGradGuard on;
      CHECK((x + x).requires_grad());
    }
    CHECK_FALSE((x + x).requires_grad());
    DetectAnomalyGuard anomaly;
    CHECK(context().detect_anomaly);
  }
  CHECK_FALSE(context().detect_anomaly);
  CHECK((x + x).requires_grad());
  use_deterministic_algorithms(true);
  CHECK(context().deterministic);
  use_deterministic_algorithms(false);
}

TEST_CASE("what a GPU may do for speed is off, belongs to the thread and is carried with its context") {
  CHECK_FALSE(context().tf32_matmul);
  CHECK_FALSE(context().tf32_convolution);
  CHECK_FALSE(context().benchmark);
  ContextGuard restore(context());
  allow_tf32_matmul(true);
  allow_tf32_convolution(true);
  benchmark_convolutions(true);
  bool alone = true, carried = false;
  std::thread([&, posted = context()] {
    alone = context().tf32_matmul || context().tf32_convolution || context().benchmark;
    ContextGuard task(posted);
    carried = context().tf32_matmul && context().tf32_convolution && context().benchmark;
  }).join();
  CHECK_FALSE(alone);
  CHECK(carried);
}
