// Steps of several devices as graphs: replicas and ranks, whose replays are what their eager steps are. (On CPUs all
// run eagerly.)
#include "tests/parallel/data_parallel_support.h"

#include <tandem/core/step_graph.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/sync_batch_norm.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct NormNet : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1}};
  nn::BatchNorm2d norm{8};
  nn::Linear fc{8 * 4 * 4, 5};
  NormNet() {
    add("conv", conv);
    add("norm", norm);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(flatten(max_pool2d(relu(norm(conv(x))), 2), 1)); }
};

constexpr int kSteps = 7;

using State = std::vector<std::vector<double>>;
State state_of(const nn::Module& net) {
  State all;
  for (auto& [name, t] : net.state_dict()) all.push_back(t.to_vector<double>());
  return all;
}

struct Samples {
  Tensor x, y;  // on the CPU
};

// The step's own, the same in every run.
Samples samples_of(int step, int64_t n, int rank) {
  manual_seed(uint64_t(100 * step + rank));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(i * 7 % 5);
  return {randn({n, 3, 8, 8}, {.device = cpu()}), from_vector(labels, {n}, {.device = cpu()})};
}

struct Course {
  bool graph = false;
  bool sync_norm = false;
  int64_t last = 6;       // samples of rank 1 from step 4 on
  int micro_batches = 1;  // of a step
  int check_every = 0;
};

std::vector<State> train_ranks(int n, const Course& course) {
  std::vector<State> states(static_cast<size_t>(n));
  run_replicas(n, [&](int rank) {
    manual_seed(3);
    NormNet net;
    if (course.sync_norm) convert_sync_batchnorm(net);
    DistributedDataParallel ddp(
        net, {.bucket_cap_mb = 0.001, .first_bucket_cap_mb = 0.0001, .check_parameters_every = course.check_every});
    if (course.micro_batches > 1) ddp.accumulate(course.micro_batches);
    nn::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Tensor x, y, loss;
    auto one = [&] {
      sgd.zero_grad();
      for (int i = 0; i < course.micro_batches; ++i) {
        loss = cross_entropy(ddp(x), y);
        loss.backward();
      }
      sgd.step();
    };
    StepGraph step(one, {.devices = {current_device()}, .warm_up = 2, .inputs = {&x, &y}});
    for (int s = 0; s < kSteps; ++s) {
      const Samples b = samples_of(s, rank == 1 && s >= 4 ? course.last : 6, rank);
      if (x && x.size(0) == b.x.size(0)) {
        x.copy_(b.x.to(current_device()));
        y.copy_(b.y.to(current_device()));
      } else {
        x = b.x.to(current_device());
        y = b.y.to(current_device());
      }
      if (course.graph)
        step();
      else
        one();
      if (course.graph && s == 3) CHECK(step.is_captured() == !on_cpu());
    }
    states[size_t(rank)] = state_of(net);
  });
  return states;
}

void check_graph_is_eager(int n, Course course) {
  const auto eager = train_ranks(n, course);
  course.graph = true;
  const auto replayed = train_ranks(n, course);
  for (int r = 0; r < n; ++r) {
    CAPTURE(r);
    CHECK(replayed[size_t(r)] == eager[size_t(r)]);
  }
}

}  // namespace

TEST_CASE("replays of ranks' steps, their all-reduces in the graph, are the eager steps bit for bit") {
  for (int n : {1, 2, 4}) {
    CAPTURE(n);
    check_graph_is_eager(n, {});
  }
}

TEST_CASE("one rank has fewer samples from some step on: all take up the new weights") {
  check_graph_is_eager(2, {.last = 3});
  check_graph_is_eager(3, {.last = 1});
}

TEST_CASE("captured: accumulation, synchronised batch norm, parameters compared from time to time") {
  check_graph_is_eager(2, {.micro_batches = 2});
  check_graph_is_eager(2, {.sync_norm = true});
  check_graph_is_eager(2, {.check_every = 2});
}

TEST_CASE("a captured step knows when its wrapper or its group has ended") {
  run_replicas(2, [](int) {
    nn::Linear net(3, 2);
    nn::SGD sgd(net.parameters(), {.lr = 0.1});
    Tensor x = ones({4, 3});
    auto ddp = std::make_unique<DistributedDataParallel>(net);
    StepGraph step([&] { sgd.zero_grad(), mean((*ddp)(x)).backward(), sgd.step(); },
                   {.devices = {current_device()}, .warm_up = 1});
    for (int i = 0; i < 3; ++i) step();
    if (on_cpu()) return;
    REQUIRE(step.is_captured());
    ddp = nullptr;
    CHECK(says(error_of([&] { step(); }), "data-parallel wrapper that has ended"));

    auto own = current_process_group().new_communicator();
    StepGraph sum([&] { own->all_reduce(x); }, {.devices = {current_device()}, .warm_up = 1});
    for (int i = 0; i < 3; ++i) sum();
    CHECK(x.to_vector()[0] == 8);
    own = nullptr;
    CHECK(says(error_of([&] { sum(); }), "a communicator that has ended"));
  });
}

TEST_CASE("replays of DataParallel's steps are the eager ones bit for bit") {
  for (bool whole_steps : {false, true})
    for (int n : {1, 2, 3}) {
      CAPTURE(whole_steps);
      CAPTURE(n);
      auto train = [&](bool graph) {
        manual_seed(3);
        NormNet net;
        DataParallel dp(net, test_devices(n), small_buckets());
        nn::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
        nn::CrossEntropyLoss criterion;
        Tensor x = zeros({7, 3, 8, 8}), y = zeros({7}, {.dtype = Dtype::i64});
        auto one = [&] {
          sgd.zero_grad();
          if (whole_steps)
            dp.step(x, y, criterion);
          else
            criterion(dp(x), y).backward();
          sgd.step();
        };
        StepGraph step(one, {.devices = test_devices(n), .warm_up = 2});
        for (int s = 0; s < kSteps; ++s) {
          const Samples b = samples_of(s, 7, 0);
          x.copy_(b.x.to(test_device()));
          y.copy_(b.y.to(test_device()));
          if (graph)
            step();
          else
            one();
        }
        if (graph) CHECK(step.is_captured() == !on_cpu());
        return state_of(net);
      };
      CHECK(train(true) == train(false));
    }
}
