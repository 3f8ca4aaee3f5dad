// The bucket table: how leaves are cut, how their windows lie, when a bucket is complete.
#include "tests/support/op_case.h"

#include <tandem/ops/binary.h>
#include <tandem/ops/reduce.h>
#include <tandem/parallel/buckets.h>

#include <doctest/doctest.h>

#include <thread>

using namespace tandem;

namespace {

// Parameters of so many f32 numbers each, and their leaves in order.
struct Parameters {
  std::vector<Tensor> tensors;
  std::vector<Leaf*> leaves;
  void add(int64_t n, Dtype dtype = Dtype::f32, Device device = cpu()) {
    tensors.push_back(ones({n}, {.dtype = dtype, .device = device, .requires_grad = true}));
    leaves.push_back(tensors.back().leaf());
  }
};

using Indices = std::vector<std::vector<int>>;

Indices indices_of(const Buckets& b) {
  Indices r;
  for (size_t i = 0; i < b.size(); ++i) {
    r.emplace_back();
    for (Leaf* l : b[i].leaves) r.back().push_back(l->index);
  }
  return r;
}

}  // namespace

TEST_CASE("a bucket closes once its size has reached its limit, the first one sooner") {
  Parameters p;
  for (int64_t n : {2, 3, 1, 9, 10, 1, 30, 1}) p.add(n);
  Buckets b(p.leaves, {.first_bucket_bytes = 20, .bucket_bytes = 80});
  CHECK(indices_of(b) == Indices{{0, 1}, {2, 3, 4}, {5, 6}, {7}});
  for (size_t i = 0; i < p.leaves.size(); ++i) {
    CHECK(p.leaves[i]->index == int(i));
    CHECK(b.leaves()[i] == p.leaves[i]);
  }
  CHECK(b.bucket_of(4) == 1);
  Buckets each(p.leaves, {.first_bucket_bytes = 0, .bucket_bytes = 0});
  CHECK(each.size() == p.leaves.size());
  CHECK(Buckets({}, {}).size() == 0);
}

TEST_CASE("gradients are windows of the flat tensor, whose gaps are zero") {
  Parameters p;
  for (int64_t n : {3, 20, 0, 5}) p.add(n);
  Tensor loss = sum(p.tensors[1] * 2.0) + sum(p.tensors[3] * 3.0);
  loss.backward();
  Tensor before = p.tensors[1].grad();
  Buckets b(p.leaves, {.first_bucket_bytes = 80, .bucket_bytes = 1000});
  REQUIRE(indices_of(b) == Indices{{0, 1}, {2, 3}});
  CHECK(before.to_vector() == std::vector<float>(20, 2));  // what was written has come along
  CHECK_FALSE(p.tensors[0].grad());
  sum(p.tensors[0] * 1.0).backward();
  std::vector<float> want(16 + 20);
  for (size_t i = 0; i < want.size(); ++i) want[i] = i < 3 ? 1 : i < 16 ? 0 : 2;
  CHECK(b[0].flat.to_vector() == want);
  CHECK(b[1].flat.to_vector() == std::vector<float>(5, 3));
  Tensor flat = b[1].flat;
  flat.fill_(7);
  CHECK(p.tensors[3].grad().to_vector() == std::vector<float>(5, 7));
  // All of one dtype lie side by side, so an optimizer updates them in one pass.
  CHECK(b[1].flat.ptr<float>() == b[0].flat.ptr<float>() + 48);

  const void* at = b[0].flat.raw();
  Buckets again(p.leaves, {.first_bucket_bytes = 80, .bucket_bytes = 1000});
  CHECK(again[0].flat.raw() == at);  // the same order moves nothing
}

TEST_CASE("windows that are new take no memory but the block's, and none where there is not enough") {
  set_cpu_devices(4);
  Parameters p;
  for (int i = 0; i < 2; ++i) p.add(1 << 16, Dtype::f32, cpu(3));
  reset_peak_memory_stats(cpu(3));
  const size_t before = max_memory_allocated(cpu(3));
  set_memory_limit(memory_reserved(cpu(3)), cpu(3));
  CHECK_THROWS_AS(Buckets(p.leaves, {}), OutOfMemoryError);
  set_memory_limit(0, cpu(3));
  for (Leaf* l : p.leaves) CHECK_FALSE(l->window);
  Buckets b(p.leaves, {});
  CHECK(max_memory_allocated(cpu(3)) - before <= (2 * 4 << 16) + (64 << 10));
}

TEST_CASE("a bucket holds one dtype and one device, and buckets are numbered by their last leaf") {
  set_cpu_devices(2);
  Parameters p;
  p.add(4);
  p.add(4, Dtype::f64);
  p.add(4, Dtype::f32, cpu(1));
  p.add(4);
  p.add(4, Dtype::f64);
  Buckets b(p.leaves, {.first_bucket_bytes = 30, .bucket_bytes = 1000});
  CHECK(indices_of(b) == Indices{{1}, {2}, {0, 3}, {4}});
  for (size_t i = 0; i < b.size(); ++i) {
    CHECK(b[i].flat.dtype() == b[i].leaves[0]->meta.dtype);
    CHECK(b[i].flat.device() == b[i].leaves[0]->meta.device);
  }
}

TEST_CASE("the countdown names the one call that completes a bucket") {
  Parameters p;
  for (int64_t n : {4, 4, 4}) p.add(n);
  Buckets b(p.leaves, {.first_bucket_bytes = 32, .bucket_bytes = 32});
  for (int round = 0; round < 3; ++round) {
    b.expect(4);
    std::array<std::atomic<int>, 2> completed{};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 3; ++i)
          if (b.count_down(i)) ++completed[b.bucket_of(i)];
      });
    for (auto& t : threads) t.join();
    CHECK(completed[0] == 1);
    CHECK(completed[1] == 1);
  }
}
