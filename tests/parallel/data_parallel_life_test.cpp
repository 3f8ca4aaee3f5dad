// What a wrapper refuses, what it does after errors and missed deadlines, and how long things live.
#include "tests/parallel/data_parallel_support.h"

#include <tandem/core/copy.h>
#include <tandem/core/node.h>
#include <tandem/core/replica.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/reduce.h>

#include <atomic>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

TEST_CASE("a replica's error reaches the caller with its type, replica and device, and the wrapper goes on") {
  struct Failing : nn::Module {
    nn::Linear fc{2, 2};
    std::atomic<int> where{-1}, kind{0};
    Failing() { add("fc", fc); }
    void fail() {
      if (kind == 0) throw ShapeError("[op] no shape");
      if (kind == 1) throw CommError("lost", 3);
      if (kind == 2) throw std::invalid_argument("bad");
      if (kind == 3) throw 7;
    }
    Tensor forward(const Tensor& x) override {
      if (x.device().index == where) fail();
      Tensor y = fc(x);
      if (y.requires_grad())
        y.register_hook([this, d = x.device().index](const Tensor&) {
          if (d + 10 == where) fail();
          return Tensor();
        });
      return y;
    }
  } net;
  DataParallel dp(net, test_devices(3), small_buckets());
  Tensor x = random_tensor({6, 2}, {});
  auto run = [&] { sum(dp(x)).backward(); };
  run();
  const Tensor good = copy_of(net.fc.weight.grad(), {});
  net.zero_grad();
  for (int backward : {0, 10})
    for (int r = 0; r < 3; ++r) {
      const std::string name = message("[DataParallel] replica ", r, " on ", test_device(r), ": ");
      net.where = r + backward;
      net.kind = 0;
      CHECK_THROWS_WITH_AS(run(), (name + "[op] no shape").c_str(), ShapeError);
      CHECK_FALSE(net.fc.weight.grad().defined());
      net.kind = 1;
      try {
        run();
        FAIL("no error");
      } catch (const CommError& e) {
        CHECK(e.what() == name + "lost");
        CHECK(e.rank == 3);
        CHECK_THROWS_WITH(std::rethrow_if_nested(e), "lost");
      }
      net.kind = 2;
      try {
        run();
        FAIL("no error");
      } catch (const Error& e) {
        CHECK(e.what() == name + "bad");
        CHECK_THROWS_AS(std::rethrow_if_nested(e), std::invalid_argument);
      }
      net.kind = 3;
      CHECK_THROWS_AS(run(), Error);
      net.where = -1;
      run();
      CHECK(same_bits(net.fc.weight.grad(), good));
      net.zero_grad();
    }
}

TEST_CASE("after a missed deadline every call is refused, and the late replica ends by itself") {
  struct Late : nn::Module {
    nn::Linear fc{2, 2};
    std::atomic<bool> hang{false}, hung{false};
    Late() { add("fc", fc); }
    Tensor forward(const Tensor& x) override {
      if (x.device() == test_device(1) && hang) {
        while (hang) std::this_thread::sleep_for(1ms);
        Tensor y = fc(x);
        hung = true;
        return y;
      }
      return fc(x);
    }
  };
  // Long enough for the first forward, however busy the machine is.
  constexpr auto kDeadline = 2s;
  // On a busy machine any of these forwards may be late, and the module must outlive the replica that is.
  static Late& net = *new Late;
  Tensor x = random_tensor({4, 2}, {}), earlier;
  {
    DataParallel dp(net, test_devices(2), {.timeout = kDeadline});
    earlier = sum(dp(x));
    net.hang = true;
    const std::string name = message("replica 1 on ", test_device(1));
    const std::string why = "[DataParallel] " + name + ": no end of its forward within 2000 ms";
    CHECK_THROWS_WITH_AS(dp(x), why.c_str(), CommError);
    CHECK(says(error_of([&] { dp(x); }), name));
    CHECK(says(error_of([&] { dp.step(x, x, nn::MSELoss()); }), "can't be used any more"));
    CHECK(says(error_of([&] { earlier.backward(); }), "can't be used any more"));
  }
  earlier = {};
  net.hang = false;
  const auto& handles = net.fc.weight.impl()->refs;  // the replica's task holds one, by way of the wrapper's state
  for (int i = 0; i < 5000 && handles > 1; ++i) std::this_thread::sleep_for(1ms);
  CHECK(net.hung);
  CHECK(handles == 1);
  CHECK(says(error_of([&] { DataParallel(net, test_devices(2)); }), "another data-parallel wrapper holds fc.weight"));
  CHECK_NOTHROW(sum(net(x)).backward());
}

TEST_CASE("several wrappers in one graph, and one module per wrapper") {
  auto a = make<SmallNet>(Dtype::f64), b = make<SmallNet>(Dtype::f64);
  auto a_alone = make<SmallNet>(Dtype::f64), b_alone = make<SmallNet>(Dtype::f64);
  DataParallel dp_a(*a, test_devices(2), small_buckets()), dp_b(*b, test_devices(3), small_buckets());
  Batch batch(5, Dtype::f64);
  for (int i = 0; i < 2; ++i) {
    sum(dp_a(batch.x) * dp_b(batch.x)).backward();
    sum((*a_alone)(batch.x) * (*b_alone)(batch.x)).backward();
  }
  check_same(*a, *a_alone, kF64);
  check_same(*b, *b_alone, kF64);
  CHECK(says(error_of([&] { DataParallel(*a, test_devices(2)); }), "another data-parallel wrapper holds conv.weight"));
  CHECK_NOTHROW(sum(dp_a(batch.x)).backward());
}

TEST_CASE("a graph outlives its wrapper") {
  auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
  Batch b(5, Dtype::f64);
  Tensor y;
  {
    DataParallel dp(*net, test_devices(2));
    y = sum(dp(b.x));
  }
  y.backward();
  y = {};
  sum((*alone)(b.x)).backward();
  check_same(*net, *alone, kF64);
  CHECK_FALSE(net->conv.weight.impl()->twins);
  CHECK(net->conv.weight.leaf()->observer == nullptr);
  CHECK_NOTHROW(net->to(Dtype::f32));
}

TEST_CASE("a wrapper leaves the module's keys alone, holds its place, and says what it can't take") {
  auto net = make<SmallNet>();
  auto keys = [&] {
    std::vector<std::string> list;
    for (auto& [name, t] : net->state_dict()) list.push_back(name);
    return list;
  };
  const auto before = keys();
  {
    DataParallel dp(*net, test_devices(2));
    CHECK(keys() == before);
    CHECK(says(error_of([&] { net->to(Dtype::f64); }), "a data-parallel wrapper holds conv.weight"));
    net->requires_grad_(false);
    CHECK(says(error_of([&] { net->to(test_device(1)); }), "a data-parallel wrapper holds conv.weight"));
    net->requires_grad_();
  }
  CHECK_THROWS_AS(DataParallel(*net, {test_device(0), test_device(1), test_device(0)}), DeviceError);
  CHECK_THROWS_AS(DataParallel(*net, {test_device(0), test_device(63)}), DeviceError);
  CHECK(says(error_of([&] {
               DataParallel(*net, {test_device(1), test_device(0)});
             }),
             message("conv.weight is on ", test_device(0), ", the first replica on ", test_device(1))));
  net->to(test_device(1));
  DataParallel dp(*net, {test_device(1), test_device(0)});
  Batch b(4);
  Tensor y = dp(b.x);
  CHECK(y.device() == test_device(1));
  sum(y).backward();
  CHECK(net->conv.weight.grad().device() == test_device(1));
}
