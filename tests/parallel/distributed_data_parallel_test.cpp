// DistributedDataParallel over ranks as threads: what it computes is what one device computes on all the samples.
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/core/autograd.h>
#include <tandem/core/checkpoint.h>
#include <tandem/core/generator.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/max_pool2d.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

#include <cmath>
#include <map>

using namespace tandem;
using namespace tandem::test;

namespace {

struct SmallNet : nn::Module {
  nn::Conv2d conv{3, 4, {.kernel = 3, .padding = 1}};
  nn::Linear fc1{4 * 4 * 4, 16}, fc2{16, 5};
  SmallNet() {
    add("conv", conv);
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(flatten(max_pool2d(relu(conv(x)), 2), 1)))); }
};

constexpr int kSteps = 3;
// A bucket for each parameter, nearly: the sums must come out in whatever pieces.
const DistributedDataParallelOptions kSmallBuckets{.bucket_cap_mb = 0.001, .first_bucket_cap_mb = 0.0001};

struct Data {
  Tensor x, y;  // [n,3,8,8], [n]
};

Data data_of(int64_t n, Dtype t) {
  manual_seed(5);
  Tensor x = randn({kSteps * n, 3, 8, 8}).to(t);
  return {x, randint(0, 5, {kSteps * n})};
}

std::vector<std::vector<double>> values_of(const nn::Module& m) {
  std::vector<std::vector<double>> v;
  for (auto& p : m.parameters()) v.push_back(p.to_vector<double>());
  return v;
}

void check_close(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b, double tol) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    double largest = 0, worst = 0;
    for (size_t k = 0; k < a[i].size(); ++k) {
      largest = std::max(largest, std::abs(a[i][k]));
      worst = std::max(worst, std::abs(a[i][k] - b[i][k]));
    }
    CAPTURE(i);
    CHECK(worst <= tol * largest);
  }
}

// On all samples at once.
std::vector<std::vector<double>> train_alone(int64_t n, Dtype t) {
  Data d = data_of(n, t);
  manual_seed(1);
  SmallNet net;
  net.to(t);
  nn::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  for (int s = 0; s < kSteps; ++s) {
    sgd.zero_grad();
    cross_entropy(net(d.x.narrow(0, s * n, n)), d.y.narrow(0, s * n, n)).backward();
    sgd.step();
  }
  return values_of(net);
}

// Each rank on its share: `sizes` says how many of each step's samples.
std::vector<std::vector<double>> train_together(const std::vector<int64_t>& sizes, Dtype t,
                                                DistributedDataParallelOptions options = kSmallBuckets) {
  int64_t n = 0;
  for (int64_t s : sizes) n += s;
  Data d = data_of(n, t);
  std::vector<std::vector<std::vector<double>>> all(sizes.size());
  run_replicas(int(sizes.size()), [&](int rank) {
    manual_seed(1 + uint64_t(rank));  // rank 0's values count
    SmallNet net;
    net.to(t);
    nn::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
    DistributedDataParallel ddp(net, options);
    int64_t from = 0;
    for (int r = 0; r < rank; ++r) from += sizes[size_t(r)];
    const int64_t mine = sizes[size_t(rank)];
    for (int s = 0; s < kSteps; ++s) {
      sgd.zero_grad();
      Tensor x = d.x.narrow(0, s * n + from, mine).to(current_device());
      Tensor y = d.y.narrow(0, s * n + from, mine).to(current_device());
      cross_entropy(ddp(x), y).backward();
      sgd.step();
    }
    all[size_t(rank)] = values_of(net);
  });
  for (auto& v : all) CHECK(v == all[0]);
  return all[0];
}

}  // namespace

TEST_CASE("n ranks with b samples each are one with n times b") {
  for (int n : {1, 2, 3, 4}) {
    CAPTURE(n);
    const std::vector<int64_t> sizes(size_t(n), 12 / n);
    check_close(train_alone(12, Dtype::f64), train_together(sizes, Dtype::f64), 1e-12);
    check_close(train_alone(12, Dtype::f32), train_together(sizes, Dtype::f32), 1e-5);
  }
}

TEST_CASE("uneven batches give the true mean; a rank without samples is not read") {
  check_close(train_alone(4, Dtype::f64), train_together({1, 3}, Dtype::f64), 1e-12);
  check_close(train_alone(4, Dtype::f64), train_together({1, 0, 3}, Dtype::f64), 1e-12);
  // Averaged over ranks, PyTorch's way, it is something else.
  auto by_rank = kSmallBuckets;
  by_rank.average = DistributedDataParallelOptions::Average::by_rank;
  CHECK(train_together({1, 3}, Dtype::f64, by_rank) != train_together({1, 3}, Dtype::f64));
  CHECK(train_together({2, 2}, Dtype::f32, by_rank) == train_together({2, 2}, Dtype::f32));
}

TEST_CASE("the size of buckets changes no bit") {
  const auto one = train_together({4, 4, 4}, Dtype::f32, {});
  CHECK(train_together({4, 4, 4}, Dtype::f32, {}) == one);
  if (on_cpu())
    CHECK(train_together({4, 4, 4}, Dtype::f32) == one);
  else  // NCCL's order of a sum depends on where in a bucket it stands
    check_close(train_together({4, 4, 4}, Dtype::f32), one, 1e-6);
}

TEST_CASE("accumulation: backwards that are held back add up, and count with all their samples") {
  Data d = data_of(12, Dtype::f64);
  manual_seed(1);
  SmallNet alone;
  alone.to(Dtype::f64);
  cross_entropy(alone(d.x.narrow(0, 0, 12)), d.y.narrow(0, 0, 12)).backward();
  for (bool by_guard : {true, false}) {
    run_replicas(2, [&](int rank) {
      manual_seed(1);
      SmallNet net;
      net.to(Dtype::f64);
      DistributedDataParallel ddp(net, kSmallBuckets);
      auto loss = [&](int64_t from) {
        Tensor x = d.x.narrow(0, from, 3).to(current_device()), y = d.y.narrow(0, from, 3).to(current_device());
        return cross_entropy(ddp(x), y) * 0.5;
      };
      if (by_guard) {
        Tensor first = loss(rank * 6);
        {
          auto held = ddp.no_sync();  // what counts is where the backward begins
          first.backward();
        }
        loss(rank * 6 + 3).backward();
      } else {
        ddp.accumulate(2);
        loss(rank * 6).backward();
        loss(rank * 6 + 3).backward();
      }
      auto p = net.parameters(), q = alone.parameters();
      for (size_t i = 0; i < p.size(); ++i) CHECK(allclose(p[i].grad().to(q[i].device()), q[i].grad(), 1e-10, 1e-14));
    });
  }
}

TEST_CASE("samples(n) says what a rank counts for, calling the module past the wrapper is synchronised all the same") {
  run_replicas(2, [](int rank) {
    nn::Linear net(1, 1, {.bias = false});
    DistributedDataParallel ddp(net);
    // The gradient of rank r is r + 1.
    auto backward = [&](bool wrapped) {
      net.zero_grad();
      Tensor x = full({1, 1}, rank + 1);
      sum(wrapped ? ddp(x) : net(x)).backward();
      return net.weight.grad().item();
    };
    CHECK(backward(true) == 1.5f);
    CHECK(backward(false) == 1.5f);
    ddp.samples(rank == 0 ? 1 : 3);
    CHECK(backward(true) == 1.75f);
    ddp.samples(rank == 0 ? 0 : 5);
    CHECK(backward(false) == 2.f);
    if (rank == 0) ddp.samples(1);
    CHECK(says(error_of<std::exception>([&] { (void)backward(true); }),
               "1 from samples(n); 1 from the size of its forward's input"));
  });
}

TEST_CASE("two wrapped models in one graph, with uneven batches") {
  run_replicas(2, [](int rank) {
    nn::Linear a(2, 3), b(3, 1);
    manual_seed(3);
    DistributedDataParallel first(a), second(b);
    const int64_t n = rank == 0 ? 1 : 3;
    Tensor x = full({n, 2}, rank + 1.0);
    mean(second(first(x))).backward();
    // dL/db.bias is 1 on each rank; the weight's is the mean of a's output over all four samples.
    CHECK(b.bias.grad().item() == doctest::Approx(1));
    Tensor one = a(full({1, 2}, 1.0)), two = a(full({1, 2}, 2.0));
    for (int j = 0; j < 3; ++j)
      CHECK(b.weight.grad().to_vector()[size_t(j)] ==
            doctest::Approx((one.to_vector()[size_t(j)] + 3 * two.to_vector()[size_t(j)]) / 4));
  });
}

namespace {

struct TwoHeads : nn::Module {
  nn::Linear body{2, 2}, left{2, 1}, right{2, 1};
  TwoHeads() {
    add("body", body);
    add("left", left);
    add("right", right);
  }
};

}  // namespace

TEST_CASE("a parameter that a backward misses is an error on all ranks, at the end of that backward") {
  run_replicas(2, [](int rank) {
    TwoHeads net;
    DistributedDataParallel ddp(net);
    Tensor h = net.body(ones({1, 2}));
    Tensor y = rank == 0 ? net.left(h) + net.right(h) : net.left(h);
    const std::string error = error_of<std::exception>([&] { sum(y).backward(); });
    CAPTURE(error);
    CHECK(says(error, "right.weight (reached on 1 of 2 ranks)"));
    CHECK(says(error, "right.bias"));
    CHECK_FALSE(says(error, "left"));
  });
}

TEST_CASE("find_unused_parameters: missed on some ranks counts as zero, missed on all is no gradient") {
  run_replicas(3, [](int rank) {
    TwoHeads net;
    DistributedDataParallel ddp(net, {.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      Tensor h = net.body(ones({1, 2}));
      const bool both = step == 1 && rank == 2;
      sum(both ? net.left(h) + net.right(h) : net.left(h)).backward();
      CHECK(net.left.bias.grad().item() == doctest::Approx(1));
      CHECK(net.right.bias.grad().defined() == (step == 1));
      if (step == 1) CHECK(net.right.bias.grad().item() == doctest::Approx(1.0 / 3));
    }
  });
}

TEST_CASE("what a backward that was held back has reached counts at the synchronised one, on all ranks") {
  run_replicas(2, [](int rank) {
    TwoHeads net;
    DistributedDataParallel ddp(net, {.find_unused_parameters = true});
    for (int step = 0; step < 2; ++step) {
      net.zero_grad();
      {
        auto held = ddp.no_sync();
        Tensor h = net.body(ones({1, 2}));
        sum(rank == 1 ? net.left(h) + net.right(h) : net.left(h)).backward();
      }
      sum(net.left(net.body(ones({1, 2})))).backward();
      REQUIRE(net.right.bias.grad().defined());
      CHECK(net.right.bias.grad().item() == doctest::Approx(0.5));
      CHECK(net.left.bias.grad().item() == doctest::Approx(2));
    }
  });
}

TEST_CASE("a parameter that was frozen and thawed has another gradient, which is said") {
  run_replicas(2, [](int) {
    nn::Linear net(2, 2);
    DistributedDataParallel ddp(net);
    net.bias.set_requires_grad(false);
    net.bias.set_requires_grad(true);
    CHECK(says(error_of<std::exception>([&] { sum(ddp(ones({1, 2}))).backward(); }), "bias was frozen and thawed"));
  });
}

TEST_CASE("an error of one rank before or after its closures ends the others' step, with its text") {
  struct Failing final : CommHook {
    int rank, at;
    std::unique_ptr<CommHook> inner = allreduce_hook();
    Failing(int r, int a) : rank(r), at(a) {}
    Work start(GradBucket& b, Communicator& c) override {
      if (rank == 1 && at == 0) throw std::runtime_error("no memory left");
      return inner->start(b, c);
    }
    void finish(GradBucket&) override {
      if (rank == 1 && at == 1) throw std::runtime_error("no memory left");
    }
  };
  for (int at : {0, 1}) {
    std::map<int, std::string> errors;
    std::mutex mutex;
    run_replicas(2, [&](int rank) {
      SmallNet net;
      DistributedDataParallel ddp(net, kSmallBuckets);
      ddp.register_comm_hook(std::make_unique<Failing>(rank, at));
      std::string e = error_of<std::exception>([&] { sum(ddp(ones({2, 3, 8, 8}))).backward(); });
      if (e.empty())
        e = error_of<std::exception>([&] { sum(ddp(ones({2, 3, 8, 8}))).backward(); });  // it had all it needed
      std::lock_guard lock(mutex);
      errors[rank] = e;
    });
    CHECK(errors[1] == "no memory left");
    CAPTURE(errors[0]);
    CHECK(says(errors[0], "rank 1"));
    CHECK(says(errors[0], "no memory left"));
  }
}

TEST_CASE("frozen parameters, one used several times, checkpointed parts") {
  run_replicas(2, [](int rank) {
    SmallNet net;
    net.conv.requires_grad_(false);
    DistributedDataParallel ddp(net);
    Tensor x = full({2, 3, 8, 8}, rank + 1.0);
    sum(ddp(x)).backward();
    CHECK_FALSE(net.conv.weight.grad().defined());
    CHECK(net.fc1.weight.grad().defined());
  });
  run_replicas(2, [](int rank) {
    nn::Linear net(2, 2);
    DistributedDataParallel ddp(net);
    Tensor x = full({1, 2}, rank + 1.0);
    Tensor y = checkpoint([&](std::span<const Tensor> t) { return net(relu(net(t[0]))); }, {x});
    sum(y + net(x)).backward();
    Tensor mine = net.weight.grad().clone();
    Tensor all = zeros({2, 2, 2});
    current_process_group().communicator().all_gather(all, mine.contiguous());
    CHECK(equal(all.select(0, 0), all.select(0, 1)));
  });
}

namespace {

struct WithNorm : nn::Module {
  nn::Conv2d conv{2, 3, {.kernel = 1}};
  nn::BatchNorm2d bn{3};
  WithNorm() {
    add("conv", conv);
    add("bn", bn);
  }
  Tensor forward(const Tensor& x) override { return bn(conv(x)); }
};

}  // namespace

TEST_CASE("buffers: all ranks have rank 0's after a step, and a second forward before backward is no error") {
  run_replicas(2, [](int rank) {
    manual_seed(2);
    WithNorm net;
    DistributedDataParallel ddp(net);
    manual_seed(10 + uint64_t(rank));
    for (int step = 0; step < 2; ++step) {
      Tensor a = ddp(randn({2, 2, 3, 3})), b = ddp(randn({2, 2, 3, 3}));
      sum(a * a + b).backward();
      Tensor all = zeros({2, 3});
      current_process_group().communicator().all_gather(all, net.bn.running_mean);
      CHECK(equal(all.select(0, 0), all.select(0, 1)));
      CHECK(net.bn.running_mean.to_vector()[0] != 0);
    }
  });
}

TEST_CASE("the first bucket is on its way before the last closure runs, and buckets start in order") {
  struct Recorder final : CommHook {
    std::vector<std::string>& events;
    std::unique_ptr<CommHook> inner = allreduce_hook();
    explicit Recorder(std::vector<std::string>& e) : events(e) {}
    Work start(GradBucket& b, Communicator& c) override {
      events.push_back(message("bucket ", b.index));
      return inner->start(b, c);
    }
  };
  run_replicas(2, [](int) {
    std::vector<std::string> events;
    SmallNet net;
    DistributedDataParallel ddp(net, kSmallBuckets);
    ddp.register_comm_hook(std::make_unique<Recorder>(events));
    for (int step = 0; step < 2; ++step) {
      events.clear();
      Tensor x = ones({2, 3, 8, 8});
      Tensor first = net.conv(x);
      first.register_hook([&](const Tensor&) {
        events.push_back("gradient of the first layer's output");
        return Tensor();
      });
      Tensor y = net.fc2(relu(net.fc1(flatten(max_pool2d(relu(first), 2), 1))));
      sum(y).backward();
      REQUIRE(ddp.bucket_bytes().size() >= 3);
      std::vector<std::string> buckets;
      for (auto& e : events)
        if (says(e, "bucket")) buckets.push_back(e);
      REQUIRE(buckets.size() == ddp.bucket_bytes().size());
      for (size_t b = 0; b < buckets.size(); ++b) CHECK(buckets[b] == message("bucket ", b));
      CHECK(events.front() == "bucket 0");
      CHECK(events.back() == message("bucket ", buckets.size() - 1));
      CHECK(std::count(events.begin(), events.end(), "gradient of the first layer's output") == 1);
    }
  });
}

TEST_CASE("compressed gradients") {
  for (bool half : {true, false})
    run_replicas(2, [&](int rank) {
      nn::Linear net(3, 2);
      DistributedDataParallel ddp(net);
      ddp.register_comm_hook(half ? fp16_compress_hook() : bf16_compress_hook());
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        sum(ddp(full({1, 3}, rank + 1.0))).backward();
        CHECK(net.weight.grad().to_vector() == std::vector<float>(6, 1.5f));
      }
    });
}

TEST_CASE("models that are not the same: every rank is told every difference") {
  run_replicas(3, [](int rank) {
    nn::Linear two(2, 2), three(2, 3);
    const std::string error = error_of<std::exception>(
        [&] { DistributedDataParallel ddp(rank == 1 ? static_cast<nn::Module&>(three) : two); });
    CAPTURE(error);
    CHECK(says(error, "rank 0 has weight [2,2] f32 requires grad, rank 1 has weight [3,2] f32 requires grad"));
    CHECK(says(error, "rank 1 has bias [3]"));
    CHECK_FALSE(says(error, "rank 2 has"));
  });
}

TEST_CASE("a backward that throws on one rank ends the others', naming it") {
  std::map<int, std::string> errors;
  std::mutex mutex;
  const std::string thrown = error_of<std::exception>([&] {
    run_replicas(2, [&](int rank) {
      SmallNet net;
      DistributedDataParallel ddp(net, kSmallBuckets);
      Tensor x = ones({2, 3, 8, 8});
      Tensor h = net.conv(x);
      if (rank == 1)
        h.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("a hook of mine failed"); });
      Tensor y = net.fc2(relu(net.fc1(flatten(max_pool2d(relu(h), 2), 1))));
      const std::string e = error_of<std::exception>([&] { sum(y).backward(); });
      std::lock_guard lock(mutex);
      errors[rank] = e;
    });
  });
  CHECK(errors[1] == "a hook of mine failed");
  CAPTURE(errors[0]);
  CHECK(says(errors[0], "rank 1"));
  CHECK(says(errors[0], "a hook of mine failed"));
}

TEST_CASE("parameters that drift apart are found by the periodic check") {
  run_replicas(2, [](int rank) {
    nn::Linear net(2, 2);
    DistributedDataParallel ddp(net, {.check_parameters_every = 2});
    auto step = [&] { sum(ddp(ones({1, 2}))).backward(); };
    step();
    step();
    NoGradGuard no_grad;
    if (rank == 1) net.bias.add_(1e-6);
    EnableGradGuard grad;
    step();
    const std::string error = error_of<std::exception>(step);
    CHECK(says(error, "rank 1: bias"));
    CHECK_FALSE(says(error, "weight"));
  });
}

TEST_CASE("a module belongs to one wrapper at a time, and stays where it is") {
  run_replicas(2, [](int) {
    nn::Linear net(2, 2);
    {
      DistributedDataParallel ddp(net);
      CHECK(says(error_of<std::exception>([&] { DistributedDataParallel again(net); }),
                 "belongs to another data-parallel wrapper"));
      CHECK_THROWS_AS(net.to(Dtype::f64), Error);
    }
    net.to(Dtype::f64);
    DistributedDataParallel ddp(net);
    sum(ddp(ones({1, 2}, {.dtype = Dtype::f64}))).backward();
    CHECK(net.bias.grad().dtype() == Dtype::f64);
  });
}
