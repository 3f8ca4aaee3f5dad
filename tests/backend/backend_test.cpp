#include "tests/backend/fake_backend.h"
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/generator.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/conv2d.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/dropout.h>
#include <tandem/ops/linear.h>
#include <tandem/ops/max_pool2d.h>
#include <tandem/ops/random.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

using Values = std::vector<float>;
using Events = std::vector<std::string>;

FakePool& memory_of(Stream& s) { return static_cast<FakePool&>(s.pool()); }

// What `f` makes the backend do.
template <class F>
Events during(F&& f) {
  fake();
  events().clear();
  f();
  return events();
}

}  // namespace

TEST_CASE("devices of a backend exist") {
  fake();
  CHECK(device_count(DeviceKind::cuda) == 2);
  CHECK_NOTHROW(require_device(cuda(1)));
  CHECK_THROWS_WITH_AS(require_device(cuda(2)), "cuda:2: there are 2 devices of this kind", DeviceError);
  for (int index : {2, 63, 64, 255}) CHECK_THROWS_AS(zeros({2}, {.device = cuda(index)}), DeviceError);
}

TEST_CASE("tensors on another kind of device: made there, brought back, printed") {
  fake();
  Tensor x = tensor({1.f, 2.f}, {.device = cuda(1)});
  CHECK(x.device() == cuda(1));
  CHECK(x.to_vector() == Values{1, 2});
  CHECK(full({}, 3, {.device = cuda()}).item() == 3);
  CHECK(arange(0, 3, 1, {.dtype = Dtype::i64, .device = cuda()}).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  CHECK(zeros_like(x).device() == cuda(1));
  CHECK_THROWS_WITH_AS(x.data<float>(), "[data] this tensor is on cuda:1: to(cpu()) brings it to the host",
                       DeviceError);
  CHECK(to_string(x) == "tensor([1., 2.], device='cuda:1')");
  CHECK(x.to(cpu()).data<float>()[1] == 2);
  CHECK(x.to(cuda(0)).device() == cuda(0));
  CHECK(during([] { zeros({4}, {.device = cuda()}); }) == Events{"zero 16 bytes on cuda:0"});
  CHECK(during([] { tensor({1.f, 2.f}, {.device = cuda()}); }) == Events{"copy 8 bytes cpu:0 to cuda:0"});
  manual_seed(1);
  Tensor here = rand({5});
  manual_seed(1);
  CHECK(rand({5}, {.device = cuda()}).to_vector() == here.to_vector());
}

TEST_CASE("between kinds of device it is the other one's kernel that copies") {
  fake();
  static int copies = 0;
  auto was = copy_forward.fn[int(DeviceKind::cuda)];
  static auto cpu_copy = copy_forward.get(DeviceKind::cpu);
  register_kernel(copy_forward, DeviceKind::cuda, [](Out y, const Tensor& x) {
    ++copies;
    cpu_copy(std::move(y), x);
  });
  Tensor host = ones({2, 3}), there = ones({2, 3}, {.device = cuda()});
  copies = 0;
  copy_into({there, 0}, host);
  CHECK(copies == 1);
  copy_into({host, 1}, there);
  CHECK(copies == 2);
  CHECK(host.to_vector() == Values(6, 2));
  copies = 0;
  copy_into({host, 0}, ones({2, 3}));
  CHECK(copies == 0);
  copy_forward.fn[int(DeviceKind::cuda)] = was;
}

TEST_CASE("an op without a kernel there says so") {
  fake();
  auto was = relu_forward.fn[int(DeviceKind::cuda)];
  relu_forward.fn[int(DeviceKind::cuda)] = nullptr;
  CHECK_THROWS_WITH_AS(relu(ones({2}, {.device = cuda()})), "relu_forward: no kernel for cuda", Error);
  relu_forward.fn[int(DeviceKind::cuda)] = was;
  CHECK_THROWS_AS(add(ones({2}), ones({2}, {.device = cuda()})), DeviceError);
  CHECK_THROWS_AS(add(ones({2}, {.device = cuda(0)}), ones({2}, {.device = cuda(1)})), DeviceError);
}

TEST_CASE("memory comes from the current stream's pool, and returns there") {
  Stream& own = fake().default_stream(0);
  Stream& side = fake().new_stream(0);
  CHECK(&current_stream(cuda(0)) == &own);
  CHECK(&pool(cuda(0)) == &own.pool());
  const size_t before = memory_of(own).stats().allocated;
  Tensor a = empty({4}, {.device = cuda()}), b;
  {
    StreamGuard on(side);
    CHECK(&current_stream(cuda(0)) == &side);
    CHECK(&current_stream(cuda(1)) == &fake().default_stream(1));
    b = empty({8}, {.device = cuda()});
    CHECK(memory_of(side).stats().allocated == 32);
    a = {};  // goes back to its own stream's pool, on whichever stream it dies
    CHECK(memory_of(own).stats().allocated == before);
  }
  CHECK(memory_of(side).stats().allocated == 32);
  b = {};
  CHECK(memory_of(side).stats().allocated == 0);
  CHECK(max_memory_allocated(cuda()) >= 16);
  CHECK(during([] { empty_cache(cuda()); }) == Events{"release"});
  set_memory_limit(8, cuda(1));
  CHECK_THROWS_AS(empty({64}, {.device = cuda(1)}), OutOfMemoryError);
  set_memory_limit(0, cuda(1));
}

TEST_CASE("a stream guard joins at both ends, and nests") {
  Stream& own = fake().default_stream(1);
  Stream& one = fake().new_stream(1);
  Stream& two = fake().new_stream(1);
  auto name = [](Stream& s) { return static_cast<FakeStream&>(s).name; };
  const Events seen = during([&] {
    StreamGuard outer(one);
    { StreamGuard inner(two); }
    events().push_back("work");
  });
  CHECK(seen == Events{name(one) + " waits for " + name(own), name(two) + " waits for " + name(one),
                       name(one) + " waits for " + name(two), "work", name(own) + " waits for " + name(one)});
  CHECK(&current_stream(cuda(1)) == &own);
}

TEST_CASE("a whole step on the backend gives the CPU's numbers") {
  fake();
  auto run = [](Device d) {
    manual_seed(5);
    Tensor x = rand({4, 3, 8, 8}), y = arange(0, 4);
    std::vector<Tensor> weights;
    for (const Dims& shape : {Dims{6, 3, 3, 3}, Dims{6}, Dims{5, 96}, Dims{5}}) {
      Tensor w = rand(shape).to(d);
      weights.push_back(w.set_requires_grad());
    }
    Tensor h = relu(conv2d(x.to(d), weights[0], weights[1], {.padding = 1}));
    h = dropout(max_pool2d(h, 2), 0.3).flatten(1);
    cross_entropy(linear(h, weights[2], weights[3]), y.to(d)).backward();
    std::vector<Values> grads;
    for (auto& w : weights) {
      CHECK(w.grad().device() == d);
      grads.push_back(w.grad().to_vector());
    }
    return grads;
  };
  const size_t before = memory_of(fake().default_stream(0)).stats().allocated;
  CHECK(run(cuda()) == run(cpu()));
  CHECK(memory_of(fake().default_stream(0)).stats().allocated == before);
}

TEST_CASE("storages are laid out and moved between kinds of device") {
  fake();
  Tensor a = full({3}, 1, {.device = cuda()}), b = full({2}, 2, {.device = cuda()});
  Storage* parts[] = {a.storage().get(), b.storage().get()};
  lay_out(parts);
  CHECK(b.ptr<float>() - a.ptr<float>() == 16);
  CHECK(a.to_vector() == Values{1, 1, 1});
  a.storage()->move_to(cpu());
  CHECK(a.data<float>()[2] == 1);
  a.storage()->move_to(cuda(1));
  CHECK(a.device() == cuda(1));
  CHECK(a.to_vector() == Values{1, 1, 1});
  CHECK(b.to_vector() == Values{2, 2});
}
