// Which forwards through DistributedDataParallel count as samples of its next synchronised backward.
#include <tandem/core/autograd.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/reduce.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

using namespace tandem;

namespace {

struct OneWeight {
  nn::Linear net{1, 1, {.bias = false}};
  DistributedDataParallel ddp{net};
  // Its mean has the gradient rank + 1.
  static Tensor samples(int64_t n) { return full({n, 1}, current_process_group().rank() + 1.0); }
  Tensor loss(int64_t n) { return mean(ddp(samples(n))); }
  // The ranks' mean, where they weigh 1 : 1, 1 : 3 and so on.
  float gradient() const { return net.weight.grad().item(); }
};

}  // namespace

TEST_CASE("an evaluation on one rank does not count, with or without grad mode") {
  run_replicas(2, [](int rank) {
    OneWeight m;
    for (int step = 0; step < 3; ++step) {
      if (rank == 0) {
        NoGradGuard no_grad;
        (void)m.ddp(OneWeight::samples(7));
      }
      if (rank == 1)
        for (int i = 0; i < 3; ++i) (void)m.loss(5);  // gone at once
      m.net.zero_grad();
      m.loss(2).backward();
      CHECK(m.gradient() == 1.5f);
    }
  });
}

TEST_CASE("forwards count whose graphs are there as a backward begins, one that is held back included") {
  run_replicas(2, [](int rank) {
    OneWeight m;
    {
      auto held = m.ddp.no_sync();
      Tensor loss = m.loss(rank == 0 ? 1 : 2);
      loss.backward({}, true);
      loss.backward();  // again, of the same samples
    }
    m.net.zero_grad();
    m.loss(1).backward();  // 2 : 3
    CHECK(m.gradient() == doctest::Approx(1.6));

    Tensor kept = m.loss(rank == 0 ? 1 : 3);
    m.net.zero_grad();
    m.loss(1).backward();  // 2 : 4
    CHECK(m.gradient() == doctest::Approx(5. / 3));
    m.net.zero_grad();
    m.loss(1).backward();  // counted before
    CHECK(m.gradient() == 1.5f);
  });
}

TEST_CASE("where a forward's output is not what backward starts from, its samples count all the same") {
  struct Keeps : nn::Module {
    nn::Linear inner{1, 1, {.bias = false}};
    Tensor loss;
    Keeps() { add("inner", inner); }
    Tensor forward(const Tensor& x) override {
      Tensor y = inner(x);
      loss = mean(y);
      return y;
    }
  };
  run_replicas(2, [](int rank) {
    Keeps net;
    DistributedDataParallel ddp(net);
    (void)ddp(OneWeight::samples(rank == 0 ? 1 : 3));
    net.loss.backward();
    CHECK(net.inner.weight.grad().item() == 1.75f);
  });
}

TEST_CASE("the wrapper's output is the module's, bit for bit, and may be written over by what follows") {
  run_replicas(2, [](int) {
    OneWeight m;
    Tensor x = OneWeight::samples(3).set_requires_grad();
    Tensor y = m.ddp(x);
    CHECK(y.to_vector() == m.net(x).to_vector());
    CHECK(y.requires_grad());
    CHECK(y.storage().count() == 1);
    sum(y).backward();
    CHECK(x.grad().to_vector() == std::vector<float>(3, m.net.weight.item()));
    NoGradGuard no_grad;
    CHECK_FALSE(m.ddp(x).requires_grad());
  });
}
