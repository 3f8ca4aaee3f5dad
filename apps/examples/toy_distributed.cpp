/// DistributedDataParallel in the small: `tandem-run -n 2 toy_distributed [epochs] [learning rate]` starts it as two
/// processes that train one model together.
#include <tandem/tandem.h>

#include <cstdlib>
#include <iostream>

using namespace tandem;

const int64_t input_size = 5, output_size = 2, batch_size = 30, data_size = 90;

struct RandomDataset : data::Dataset {
  Tensor data, labels;
  RandomDataset(int64_t size, int64_t length)
      : data(randn({length, size})), labels(randint(0, output_size, {length})) {}
  data::Sample get(int64_t i) const override { return {data.select(0, i), labels.select(0, i)}; }
  int64_t size() const override { return data.size(0); }
};

struct Model : nn::Module {
  nn::Linear fc;
  Model(int64_t in, int64_t out) : fc(in, out) { add("fc", fc); }
  Tensor forward(const Tensor& input) override {
    Tensor output = fc(input);
    std::cout << message("  In Model: input size ", input.shape(), " output size ", output.shape(), '\n');
    return output;
  }
};

int main(int argc, char** argv) {
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 1;
  const double base_lr = argc > 2 ? std::atof(argv[2]) : 1e-3;
  // 1) join the group
  auto group = init_process_group();
  // 2) this process's device
  const bool gpu = device_count(DeviceKind::cuda) > 0;
  const Device device = gpu ? cuda(group.local_rank()) : cpu();
  DeviceGuard on(device);

  RandomDataset dataset(input_size, data_size);
  // 3) a share of the data
  data::DistributedSampler sampler(dataset.size(), {.num_replicas = group.size(), .rank = group.rank()});
  data::DataLoader rand_loader(dataset, {.batch_size = batch_size, .sampler = sampler});

  // 4) the model goes to its device before it is wrapped
  Model net(input_size, output_size);
  net.to(device);
  nn::Adam optimizer(net.parameters(), {.lr = base_lr});
  // 5) wrap it
  DistributedDataParallel model(net);

  for (int epoch = 0; epoch < epochs; ++epoch)
    for (auto& [data, labels] : rand_loader) {
      Tensor output = model(data.to(device));
      Tensor loss = cross_entropy(output, labels.to(device));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      std::cout << message("rank ", group.rank(), " of ", group.size(), ": loss ", loss.item(), '\n');
    }
}
