// DistributedDataParallel::join: ranks with different numbers of batches.
#include "tests/support/op_case.h"
#include "tests/support/text.h"

#include <tandem/core/autograd.h>
#include <tandem/core/generator.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/sync_batch_norm.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>

using namespace tandem;
using namespace tandem::test;

namespace {

struct TwoLayers : nn::Module {
  nn::Linear fc1{6, 7}, fc2{7, 3};
  TwoLayers() {
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

const DistributedDataParallelOptions kSmallBuckets{.bucket_cap_mb = 0.0001, .first_bucket_cap_mb = 0.00005};
constexpr int64_t kBatch = 2;
const nn::SGD::Options kSgd{.lr = 0.1, .momentum = 0.9};

// The batch of a step on a rank.
Tensor input(int step, int rank) {
  manual_seed(uint64_t(100 + step * 10 + rank));
  return randn({kBatch, 6}, {.device = cpu()}).to(Dtype::f64).to(current_device());
}
Tensor target(int step, int rank) {
  manual_seed(uint64_t(500 + step * 10 + rank));
  return randint(0, 3, {kBatch}, {.dtype = Dtype::i64, .device = cpu()}).to(current_device());
}

std::vector<double> values_of(const nn::Module& m) {
  std::vector<double> all;
  for (auto& [name, t] : m.state_dict())
    for (double v : t.to_vector<double>()) all.push_back(v);
  return all;
}

// On one device: each step on the batches of the ranks that still have one, and one more step on all.
std::vector<double> alone(const std::vector<int>& batches, bool one_more) {
  manual_seed(1);
  TwoLayers net;
  net.to(Dtype::f64);
  nn::SGD sgd(net.parameters(), kSgd);
  const int steps = *std::max_element(batches.begin(), batches.end());
  for (int s = 0; s < steps + one_more; ++s) {
    sgd.zero_grad();
    double ranks = 0;
    for (int n : batches) ranks += s < n || s == steps;
    for (int r = 0; r < int(batches.size()); ++r)
      if (s < batches[size_t(r)] || s == steps) (cross_entropy(net(input(s, r)), target(s, r)) / ranks).backward();
    sgd.step();
  }
  return values_of(net);
}

std::vector<std::vector<double>> together(const std::vector<int>& batches, bool step_along, bool one_more) {
  const int steps = *std::max_element(batches.begin(), batches.end());
  std::vector<std::vector<double>> all(batches.size());
  run_replicas(int(batches.size()), [&](int rank) {
    manual_seed(1);
    TwoLayers net;
    net.to(Dtype::f64);
    nn::SGD sgd(net.parameters(), kSgd);
    DistributedDataParallel ddp(net, kSmallBuckets);
    auto train = [&](int s) {
      sgd.zero_grad();
      cross_entropy(ddp(input(s, rank).to(current_device())), target(s, rank).to(current_device())).backward();
      sgd.step();
    };
    int answered = 0;
    JoinOptions options;
    if (step_along) options.after_backward = [&] { sgd.step(), ++answered; };
    ddp.join(
        [&] {
          for (int s = 0; s < batches[size_t(rank)]; ++s) train(s);
        },
        options);
    if (step_along) CHECK(answered == steps - batches[size_t(rank)]);
    if (one_more) train(steps);
    all[size_t(rank)] = values_of(net);
  });
  return all;
}

}  // namespace

TEST_CASE("ranks that run out leave the mean to the others, and get their parameters") {
  for (const std::vector<int>& batches : {std::vector<int>{3, 5}, {4, 1, 2}, {0, 2}, {2, 0, 1, 0}, {2, 2}}) {
    const auto want = alone(batches, false);
    for (bool step_along : {false, true}) {
      const auto got = together(batches, step_along, false);
      for (auto& values : got) {
        CHECK(values == got[0]);
        for (size_t i = 0; i < want.size(); ++i) CHECK(values[i] == doctest::Approx(want[i]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("an optimizer that steps along has the others' state after the join") {
  const std::vector<int> batches{1, 4, 2};
  const auto want = alone(batches, true);
  const auto got = together(batches, true, true);
  for (auto& values : got) {
    CHECK(values == got[0]);
    for (size_t i = 0; i < want.size(); ++i) CHECK(values[i] == doctest::Approx(want[i]).epsilon(1e-12));
  }
}

TEST_CASE("no rank has a batch") {
  run_replicas(2, [](int) {
    nn::Linear net(2, 2);
    DistributedDataParallel ddp(net);
    ddp.join([] {});
    sum(ddp(ones({1, 2}))).backward();
    CHECK(net.bias.grad().to_vector() == std::vector<float>{1, 1});
  });
}

TEST_CASE("averages by rank are over the ranks that have a batch, or over all as PyTorch's") {
  for (bool divide_by_all : {false, true})
    run_replicas(2, [&](int rank) {
      nn::Linear net(1, 1, {.bias = false});
      DistributedDataParallel ddp(net, {.average = DistributedDataParallelOptions::Average::by_rank});
      std::vector<float> gradients;
      auto note = [&] { gradients.push_back(net.weight.grad().item()); };
      ddp.join(
          [&] {
            for (int s = 0; s < (rank == 0 ? 3 : 2); ++s) {
              net.zero_grad();
              sum(ddp(ones({1, 1}))).backward();
              note();
            }
          },
          {.after_backward = note, .divide_by_initial_world_size = divide_by_all});
      CHECK(gradients == std::vector<float>{1, 1, divide_by_all ? 0.5f : 1.f});
    });
}

TEST_CASE("buffers come from the first rank that has a batch") {
  run_replicas(3, [](int rank) {
    nn::BatchNorm2d bn(1, {.momentum = 1.0});
    DistributedDataParallel ddp(bn);
    ddp.join([&] {
      for (int s = 0; s < 1 + rank; ++s) sum(ddp(full({2, 1, 1, 2}, 10.0 * s + rank))).backward();
    });
    CHECK(bn.running_mean.item() == 22);
    CHECK(bn.num_batches_tracked.item<int64_t>() == 3);
  });
}

TEST_CASE("gradients that are accumulated or compressed, parameters that some miss") {
  struct Heads : nn::Module {
    nn::Linear body{1, 1, {.bias = false}}, head{1, 1, {.bias = false}};
    Heads() {
      add("body", body);
      add("head", head);
    }
  };
  run_replicas(2, [](int rank) {
    Heads net;
    NoGradGuard no_grad;
    net.body.weight.fill_(1), net.head.weight.fill_(1);
    EnableGradGuard grad;
    DistributedDataParallel ddp(net, {.find_unused_parameters = true});
    ddp.register_comm_hook(fp16_compress_hook());
    int answered = 0;
    auto check_gradients = [&](float body, bool head) {
      CHECK(net.body.weight.grad().item() == body);
      CHECK(net.head.weight.grad().defined() == head);
    };
    ddp.join(
        [&] {
          for (int s = 0; s < (rank == 0 ? 1 : 3); ++s) {
            net.zero_grad();
            Tensor h = net.body(full({1, 1}, 1.0 + s));
            const bool head = s == 2;
            {
              auto held = ddp.no_sync();
              sum(net.body(full({1, 1}, 1.0))).backward();
            }
            sum(head ? net.head(h) : h).backward();
            check_gradients(2.f + float(s), head);
          }
        },
        {.after_backward = [&] {
          ++answered;
          check_gradients(2.f + float(answered), answered == 2);
          net.zero_grad();
        }});
    CHECK(answered == (rank == 0 ? 2 : 0));
  });
  run_replicas(2, [](int rank) {
    nn::Linear net(1, 1, {.bias = false});
    DistributedDataParallel ddp(net);
    ddp.accumulate(2);
    int answered = 0;
    ddp.join(
        [&] {
          for (int s = 0; s < (rank == 0 ? 3 : 6); ++s) {
            if (s % 2 == 0) net.zero_grad();
            (sum(ddp(full({1, 1}, s))) / 2.0).backward();
          }
        },
        {.after_backward = [&] { ++answered; }});
    // Rank 0's third backward was not synchronised, and counts for nothing.
    CHECK(net.weight.grad().item() == 4.5f);
    CHECK(answered == (rank == 0 ? 2 : 0));
  });
}

TEST_CASE("throw_on_early_termination ends all ranks' loops in the same backward, and the group goes on") {
  run_replicas(3, [](int rank) {
    nn::Linear net(1, 1);
    DistributedDataParallel ddp(net);
    int done = 0;
    const std::string error = error_of<std::exception>([&] {
      ddp.join(
          [&] {
            for (int s = 0; s < (rank == 1 ? 2 : 4); ++s) {
              sum(ddp(ones({1, 1}))).backward();
              ++done;
            }
          },
          {.throw_on_early_termination = true});
    });
    CHECK(error == "[join] ranks that have no more batches, while others have: 1");
    CHECK(done == 2);
    net.zero_grad();
    sum(ddp(ones({1, 1}))).backward();
    CHECK(net.bias.grad().item() == 1);
    ddp.join([&] { sum(ddp(ones({1, 1}))).backward(); }, {.throw_on_early_termination = true});
  });
}

TEST_CASE("a loop that throws on one rank ends the others, naming it") {
  std::map<int, std::string> errors;
  std::mutex mutex;
  (void)error_of<std::exception>([&] {
    run_replicas(2, [&](int rank) {
      nn::Linear net(1, 1);
      DistributedDataParallel ddp(net);
      current_process_group().barrier();  // all are there before one of them ends it
      const std::string error = error_of<std::exception>([&] {
        ddp.join([&] {
          if (rank == 1) throw std::runtime_error("no such file");
        });
      });
      std::lock_guard lock(mutex);
      errors[rank] = error;
    });
  });
  CHECK(errors[1] == "no such file");
  CAPTURE(errors[0]);
  CHECK(says(errors[0], "rank 1"));
  CHECK(says(errors[0], "no such file"));
}

TEST_CASE("what a join can't do, it refuses") {
  run_replicas(2, [](int) {
    nn::Linear net(1, 1);
    DistributedDataParallel ddp(net);
    current_process_group().barrier();  // all are there before one of them ends it
    CHECK(says(error_of<std::exception>([&] { ddp.join([] {}, {.divide_by_initial_world_size = true}); }),
               "averages by rank"));
    CHECK(says(error_of<std::exception>([&] { ddp.join([&] { ddp.join([] {}); }); }), "within another one"));
  });
  run_replicas(2, [](int) {
    nn::BatchNorm2d bn(1);
    convert_sync_batchnorm(bn);
    DistributedDataParallel ddp(bn);
    CHECK(says(error_of<std::exception>([&] { ddp.join([] {}); }), "statistics of all ranks"));
  });
}
