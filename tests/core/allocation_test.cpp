// A warm training step takes nothing from the system for tensors, and few small blocks for its tape.
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/pool.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/linear.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

using namespace tandem;
using namespace tandem::test;

namespace {

thread_local int64_t small_allocations = 0;

void* counted(std::size_t bytes) {
  ++small_allocations;
  void* p = std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

// The library's calls come here, too: a program's own operator new takes the place of the standard one.
void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace {

// Linear, ReLU, Linear and a loss, with every gradient.
struct Step {
  Tensor x = random_tensor({30, 5}, {}), y = random_tensor({30, 2}, {});
  Tensor w1 = weight({8, 5}), b1 = weight({8}), w2 = weight({2, 8}), b2 = weight({2});
  static Tensor weight(const Dims& shape) { return random_tensor(shape, {}).set_requires_grad(); }
  void operator()() const {
    for (const Tensor* t : {&w1, &b1, &w2, &b2}) t->zero_grad();
    mse_loss(linear(relu(linear(x, w1, b1)), w2, b2), y).backward();
  }
};

int64_t allocations_of(const Step& step) {
  const int64_t before = small_allocations;
  step();
  return small_allocations - before;
}

}  // namespace

TEST_CASE("allocations are counted, those of the library included") {
  const int64_t before = small_allocations;
  Tensor x = zeros({3});
  CHECK(small_allocations > before);
}

TEST_CASE("a warm step grows no pool, and allocates the same few small blocks each time") {
  Step step;
  for (int i = 0; i < 3; ++i) step();
  const PoolStats warm = pool(cpu()).stats();
  const int64_t n = allocations_of(step);
  for (int i = 0; i < 20; ++i) CHECK(allocations_of(step) == n);
  const PoolStats after = pool(cpu()).stats();
  CHECK(after.allocated == warm.allocated);
  if (const char* mode = std::getenv("TANDEM_POOL"); !mode || std::string(mode) != "off")
    CHECK(after.system_calls == warm.system_calls);
  // Four ops: a node, a result, its memory and what was saved of it for each, and the gradients in between.
  CHECK(n <= 26);
}
