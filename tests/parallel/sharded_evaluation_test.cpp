// Evaluation on shares of a dataset counts each sample once, whatever the number of ranks: the lines are those of
// docs/coming-from-pytorch.md.
#include <tandem/core/autograd.h>
#include <tandem/core/generator.h>
#include <tandem/data/data_loader.h>
#include <tandem/data/distributed_sampler.h>
#include <tandem/data/tensor_dataset.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

using namespace tandem;

namespace {

struct Result {
  double loss = 0, correct = 0, samples = 0;
};

Result evaluate(nn::Module& net, const data::Dataset& dataset, ProcessGroup& group) {
  NoGradGuard no_grad;
  data::DistributedSampler sampler(
      dataset.size(), {.num_replicas = group.size(), .rank = group.rank(), .shuffle = false, .pad = false});
  data::DataLoader loader(dataset, {.batch_size = 4, .sampler = sampler});
  Tensor totals = zeros({3}, {.dtype = Dtype::f64});
  for (auto& batch : loader) {
    Tensor x = batch.input.to(current_device()), y = batch.target.to(current_device());
    Tensor logits = net(x);
    totals.select(0, 0).add_(cross_entropy(logits, y, {.reduction = Reduction::sum}));
    totals.select(0, 1).add_(sum(eq(argmax(logits, 1), y)));
    totals.select(0, 2).add_(double(x.size(0)));
  }
  group.communicator().all_reduce(totals);
  const auto v = totals.to_vector<double>();
  return {v[0] / v[2], v[1], v[2]};
}

}  // namespace

TEST_CASE("each sample counts once: 1 to 5 ranks, 23 samples") {
  manual_seed(3);
  data::TensorDataset dataset(randn({23, 6}), randint(0, 3, {23}));
  Result alone;
  for (int n = 1; n <= 5; ++n)
    run_replicas(n, [&](int rank) {
      manual_seed(4);
      nn::Linear net(6, 3);
      const Result r = evaluate(net, dataset, current_process_group());
      CHECK(r.samples == 23);
      if (n == 1) alone = r;
      CHECK(r.correct == alone.correct);
      CHECK(r.loss == doctest::Approx(alone.loss).epsilon(1e-6));
      if (rank == 0) CHECK(r.correct > 0);
    });
}
