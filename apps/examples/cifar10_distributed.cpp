/// The Net on CIFAR-10 with DistributedDataParallel, in processes that this program starts itself:
/// `cifar10_distributed [epochs] [data folder] [port] [processes] [images]`.
#include "apps/models/net.h"

#include <cstdio>
#include <cstdlib>

using namespace tandem;

struct Arguments {
  int epochs = 100;
  std::string root = "./data", port = "23456";
  int64_t images = 50000;
};

// what each process does
void train(int rank, int world_size, const Arguments& a) {
  // join the group
  auto group = init_process_group({.init_method = "tcp://127.0.0.1:" + a.port, .rank = rank, .world_size = world_size});

  // the data, and this rank's share of it
  data::Transform transform_train =
      data::Compose({data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip(), data::ToTensor(),
                     data::Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})});
  data::Subset trainset(data::CIFAR10(a.root, {.train = true, .download = true}),
                        data::SequentialSampler(a.images).order(0, 0));
  data::DistributedSampler train_sampler(trainset.size(), {.num_replicas = world_size, .rank = rank});
  data::DataLoader trainloader(
      trainset, {.batch_size = 128, .sampler = train_sampler, .num_workers = 2, .transform = transform_train});

  // the model, on this rank's device
  const Device device = device_count(DeviceKind::cuda) ? cuda(rank) : cpu();
  models::Net model;
  model.to(device);

  // wrapped
  DistributedDataParallel net(model);

  // the loss and the optimizer
  nn::CrossEntropyLoss criterion;
  nn::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});

  // training; the sampler goes on to the next epoch by itself
  for (int epoch = 0; epoch < a.epochs; ++epoch) {
    double running_loss = 0;
    int64_t i = 0, shown = 0;
    for (auto& [images, targets] : trainloader) {
      Tensor inputs = images.to(device), labels = targets.to(device);
      optimizer.zero_grad();
      Tensor outputs = net(inputs);
      Tensor loss = criterion(outputs, labels);
      loss.backward();
      optimizer.step();
      running_loss += loss.item();
      if (++i % 100 == 0 || i == trainloader.size()) {
        std::printf("[%d, %5d] loss: %.3f\n", epoch + 1, int(i), running_loss / double(i - shown));
        running_loss = 0;
        shown = i;
      }
    }
  }
}  // the group ends with its scope

// as many processes as there are GPUs, or cores
int main(int argc, char** argv) {
  Arguments a;
  if (argc > 1) a.epochs = std::atoi(argv[1]);
  if (argc > 2) a.root = argv[2];
  if (argc > 3) a.port = argv[3];
  if (argc > 5) a.images = std::atoll(argv[5]);
  const int gpus = device_count(DeviceKind::cuda);
  const int world_size = argc > 4 ? std::atoi(argv[4]) : gpus ? gpus : num_threads();
  spawn([&](int rank) { train(rank, world_size, a); }, world_size);
}
