// ZeroRedundancyOptimizer: the optimizer alone, bit for bit, with one n-th of its state on each rank.
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/core/generator.h>
#include <tandem/nn/adam.h>
#include <tandem/nn/checkpoint.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sgd.h>
#include <tandem/nn/step_lr.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/zero_redundancy_optimizer.h>

#include <doctest/doctest.h>

#include <mutex>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Net : nn::Module {
  nn::Conv2d conv{2, 5, {.kernel = 3, .padding = 1}};
  nn::Linear fc1{5 * 4 * 4, 33}, fc2{33, 3}, extra{7, 1};
  Net() {
    add("conv", conv);
    add("fc1", fc1);
    add("fc2", fc2);
    add("extra", extra);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(flatten(relu(conv(x)), 1)))); }
};

constexpr int kSteps = 4;

// `extra` has a gradient in the third step alone.
template <class Optimizer>
void train(DistributedDataParallel& ddp, Optimizer& optimizer, int rank, int first = 0) {
  for (int s = first; s < first + kSteps; ++s) {
    manual_seed(uint64_t(100 * s + rank));
    Tensor x = randn({2, 2, 4, 4}), y = randint(0, 3, {2});
    optimizer.zero_grad();
    Tensor loss = cross_entropy(ddp(x), y);
    if (s % kSteps == 2) loss = loss + sum(static_cast<Net&>(ddp.module()).extra(ones({1, 7})));
    loss.backward();
    optimizer.step();
  }
}

const DistributedDataParallelOptions kUnused{.bucket_cap_mb = 0.005, .find_unused_parameters = true};

bool same_tensors(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].first != b[i].first || !same_bits(a[i].second.to(cpu()), b[i].second.to(cpu()))) return false;
  return true;
}

size_t bytes_of(const nn::NamedTensors& state) {
  size_t bytes = 0;
  for (auto& [key, t] : state) bytes += size_t(t.numel()) * size_of(t.dtype());
  return bytes;
}

// Trains with and without, from the same seed, and holds parameters and state against each other.
template <class Optimizer>
void check_same(typename Optimizer::Options options) {
  for (int n : {1, 2, 3, 4}) {
    CAPTURE(n);
    run_replicas(n, [&](int rank) {
      manual_seed(1);
      Net plain_net;
      DistributedDataParallel plain_ddp(plain_net, kUnused);
      Optimizer plain(plain_net.parameters(), options);
      train(plain_ddp, plain, rank);

      manual_seed(1);
      Net net;
      DistributedDataParallel ddp(net, kUnused);
      ZeroRedundancyOptimizer<Optimizer> zero(net.parameters(), options);
      train(ddp, zero, rank);
      CHECK(same_tensors(net.state_dict(), plain_net.state_dict()));

      const auto at_zero = zero.consolidate_state_dict(), everywhere = zero.consolidate_state_dict(std::nullopt);
      CHECK(at_zero.empty() == (rank != 0));
      CHECK(same_tensors(everywhere, plain.state_dict()));
      if (rank == 0) CHECK(same_tensors(at_zero, everywhere));

      // The other way round: the optimizer alone takes this state and goes on, and this takes the optimizer's.
      Net other_net;
      other_net.load_state_dict(net.state_dict());
      DistributedDataParallel other_ddp(other_net, kUnused);
      Optimizer other(other_net.parameters(), options);
      other.load_state_dict(everywhere);
      Net third_net;
      third_net.load_state_dict(net.state_dict());
      DistributedDataParallel third_ddp(third_net, kUnused);
      ZeroRedundancyOptimizer<Optimizer> third(third_net.parameters(), options);
      third.load_state_dict(plain.state_dict());
      train(ddp, zero, rank, kSteps);
      train(other_ddp, other, rank, kSteps);
      train(third_ddp, third, rank, kSteps);
      CHECK(same_tensors(net.state_dict(), other_net.state_dict()));
      CHECK(same_tensors(net.state_dict(), third_net.state_dict()));
    });
  }
}

}  // namespace

TEST_CASE("parameters and state are the optimizer's own, bit for bit") {
  check_same<nn::SGD>({.lr = 0.1});
  check_same<nn::SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  check_same<nn::Adam>({.lr = 0.01, .weight_decay = 1e-3, .amsgrad = true});
  check_same<nn::AdamW>({.lr = 0.01});
}

TEST_CASE("each rank has one n-th of the state, also of a network that is one matrix") {
  for (int n : {2, 4})
    run_replicas(n, [&](int) {
      nn::Linear net(100, 64, {.bias = false});
      DistributedDataParallel ddp(net);
      ZeroRedundancyOptimizer<nn::Adam> zero(net.parameters());
      current_process_group().barrier();
      const size_t before = memory_allocated(current_device());
      current_process_group().barrier();
      sum(ddp(ones({1, 100}))).backward();
      zero.step();
      const size_t elements = 100 * 64;
      size_t state = 0;
      for (auto& [key, t] : zero.nn::Adam::state_dict())
        if (t.dim() > 0) state += size_t(t.numel()) * sizeof(float);
      CHECK(state == 2 * sizeof(float) * elements / size_t(n));
      // Two states, and nothing but small change beside them. (What ranks have on their way stands on cpu:0.)
      current_process_group().barrier();
      const size_t now = memory_allocated(current_device());
      current_process_group().barrier();
      CHECK(now - before < state + 4096);
      CHECK(bytes_of(zero.consolidate_state_dict(std::nullopt)) >= 2 * sizeof(float) * elements);
    });
}

TEST_CASE("a checkpoint of n ranks is taken up by m") {
  nn::NamedTensors state, params;
  auto run = [&](int n, bool load) {
    std::mutex mutex;
    run_replicas(n, [&](int rank) {
      manual_seed(1);
      Net net;
      if (load) net.load_state_dict(params);
      DistributedDataParallel ddp(net, kUnused);
      ZeroRedundancyOptimizer<nn::AdamW> zero(net.parameters(), {.lr = 0.01});
      if (load) zero.load_state_dict(state);
      if (!load) train(ddp, zero, rank);
      auto s = zero.consolidate_state_dict();
      if (load && rank == 0) CHECK(same_tensors(s, state));
      if (rank != 0) return;
      std::lock_guard lock(mutex);
      state.clear(), params.clear();
      for (auto& [key, t] : s) state.emplace_back(key, t.to(cpu()).clone());
      for (auto& [key, t] : net.state_dict()) params.emplace_back(key, t.to(cpu()).clone());
    });
  };
  run(3, false);
  for (int n : {1, 2, 5}) run(n, true);
}

TEST_CASE("a checkpoint takes it for the optimizer that it is, once its state is brought together") {
  TemporaryFolder tmp;
  const std::string path = tmp / "run.safetensors";
  run_replicas(3, [&](int rank) {
    manual_seed(1);
    Net net;
    DistributedDataParallel ddp(net, kUnused);
    ZeroRedundancyOptimizer<nn::AdamW> zero(net.parameters(), {.lr = 0.01});
    const nn::Checkpoint all{.model = &net, .optimizer = &zero};
    const std::string advice = message("call consolidate_state_dict(", rank, ") on all of them");
    CHECK(says(error_of([&] { (void)zero.state_dict(); }), advice));
    train(ddp, zero, rank);
    zero.consolidate_state_dict();
    zero.param_groups()[0].lr = 0.003;  // a schedule's, say
    current_process_group().rank0_only([&] { nn::save_checkpoint(path, all); });
    if (rank != 0) CHECK(says(error_of([&] { nn::save_checkpoint(path, all); }), advice));
    train(ddp, zero, rank, kSteps);
    CHECK(says(error_of([&] { (void)zero.state_dict(); }), advice));
    Net again;
    DistributedDataParallel again_ddp(again, kUnused);
    ZeroRedundancyOptimizer<nn::AdamW> other(again.parameters());
    nn::load_checkpoint(path, {.model = &again, .optimizer = &other});
    CHECK(other.param_groups()[0].lr == 0.003);
    train(again_ddp, other, rank, kSteps);
    CHECK(same_tensors(again.state_dict(), net.state_dict()));
    auto state = zero.consolidate_state_dict();
    other.consolidate_state_dict();
    if (rank == 0) CHECK(same_tensors(other.state_dict(), state));
  });
  // By itself, in a group of one, and as the optimizer without it.
  run_replicas(1, [&](int) {
    Net one, two;
    ZeroRedundancyOptimizer<nn::AdamW> zero(one.parameters());
    nn::AdamW plain(two.parameters());
    nn::load_checkpoint(path, {.model = &one, .optimizer = &zero});
    nn::load_checkpoint(path, {.model = &two, .optimizer = &plain});
    CHECK(same_tensors(zero.state_dict(), plain.state_dict()));
  });
}

TEST_CASE("groups with options of their own, a schedule, and more ranks than there are numbers") {
  for (int n : {2, 5})
    run_replicas(n, [&](int rank) {
      auto make = [&](nn::Linear& a, nn::Linear& b, auto& optimizer) {
        optimizer.add_param_group({b.weight, b.bias}, {.lr = 0.5, .momentum = 0.5});
        nn::StepLR schedule(optimizer, {.step_size = 1, .gamma = 0.1});
        for (int s = 0; s < 3; ++s) {
          optimizer.zero_grad();
          sum(b(a(full({1, 2}, 1.0 + s)))).backward();
          optimizer.step();
          schedule.step();
        }
      };
      manual_seed(2);
      nn::Linear a(2, 2), b(2, 3), c(2, 2), d(2, 3);
      c.load_state_dict(a.state_dict());
      d.load_state_dict(b.state_dict());
      nn::SGD plain(a.parameters(), {.lr = 0.1, .momentum = 0.9});
      make(a, b, plain);
      ZeroRedundancyOptimizer<nn::SGD> zero(c.parameters(), {.lr = 0.1, .momentum = 0.9});
      make(c, d, zero);
      CHECK(same_tensors(a.state_dict(), c.state_dict()));
      CHECK(same_tensors(b.state_dict(), d.state_dict()));
      CHECK(zero.param_groups()[1].lr == doctest::Approx(0.5e-3));
      const auto state = zero.consolidate_state_dict(n - 1);
      if (rank == n - 1) CHECK(same_tensors(state, plain.state_dict()));
    });
}

TEST_CASE("parameters of several dtypes, made before the wrapper") {
  run_replicas(2, [](int rank) {
    nn::Linear a(3, 2), b(3, 2, {.dtype = Dtype::f64});
    std::vector<Tensor> params = a.parameters();
    for (auto& p : b.parameters()) params.push_back(p);
    ZeroRedundancyOptimizer<nn::SGD> zero(params, {.lr = 1});
    DistributedDataParallel first(a), second(b);
    Tensor before_a = a.bias.detach().clone(), before_b = b.bias.detach().clone();
    sum(first(full({1, 3}, rank))).backward();
    sum(second(full({1, 3}, rank, {.dtype = Dtype::f64}))).backward();
    zero.step();
    CHECK(max_difference(before_a, a.bias.detach()) == doctest::Approx(1));
    CHECK(max_difference(before_b, b.bias.detach()) == doctest::Approx(1));
  });
}

TEST_CASE("what a step writes counts as a change") {
  run_replicas(2, [](int) {
    nn::Linear net(2, 2);
    ZeroRedundancyOptimizer<nn::SGD> zero(net.parameters(), {.lr = 0.1});
    Tensor x = ones({1, 2}, {.requires_grad = true});
    Tensor y = sum(net(x)), again = sum(net(x));
    y.backward();
    zero.step();
    CHECK(says(error_of<std::exception>([&] { again.backward(); }), "changed"));
  });
}

TEST_CASE("parameters and states that do not fit") {
  run_replicas(2, [](int) {
    nn::Linear net(40, 2);
    CHECK(says(error_of<std::exception>([&] {
                 ZeroRedundancyOptimizer<nn::SGD> zero({net.weight, net.weight});
               }),
               "given twice"));
    CHECK(says(error_of<std::exception>([&] { ZeroRedundancyOptimizer<nn::SGD> zero({}); }), "without parameters"));
    CHECK(says(error_of<std::exception>([&] { ZeroRedundancyOptimizer<nn::SGD> zero({ones({2})}); }), "requires grad"));
    ZeroRedundancyOptimizer<nn::SGD> zero(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    auto state = zero.consolidate_state_dict(std::nullopt);
    auto more = state;
    more.emplace_back("momentum_buffer.7", ones({1}));
    CHECK(says(error_of<std::exception>([&] { zero.load_state_dict(more); }), "unexpected: momentum_buffer.7"));
    more.back() = {"momentum_buffer.0", ones({3})};
    CHECK(says(error_of<std::exception>([&] { zero.load_state_dict(more); }),
               "misshapen: momentum_buffer.0 [3], not [2,40]"));
    CHECK(says(error_of<std::exception>([&] { (void)zero.consolidate_state_dict(2); }), "to rank 2 of 2"));
    net.to(Dtype::f64);
    CHECK(says(error_of<std::exception>([&] { zero.step(); }), "has been moved or converted"));
  });
}
