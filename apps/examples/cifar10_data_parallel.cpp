/// The Net on CIFAR-10 with DataParallel: `cifar10_data_parallel [epochs] [data folder] [images]`. It uses all GPUs, or
/// as many CPU devices as TANDEM_CPU_DEVICES says.
#include "apps/models/net.h"

#include <cstdio>
#include <cstdlib>

using namespace tandem;

int main(int argc, char** argv) {
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 100;
  const std::string root = argc > 2 ? argv[2] : "./data";
  const int64_t images = argc > 3 ? std::atoll(argv[3]) : 50000;

  // the data
  data::Transform transform_train =
      data::Compose({data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip(), data::ToTensor(),
                     data::Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})});
  data::Subset trainset(data::CIFAR10(root, {.train = true, .download = true}),
                        data::SequentialSampler(images).order(0, 0));
  data::DataLoader trainloader(trainset,
                               {.batch_size = 128, .shuffle = true, .num_workers = 2, .transform = transform_train});

  // the model, on its first device
  const Device device = device_count(DeviceKind::cuda) ? cuda(0) : cpu(0);
  models::Net model;
  model.to(device);

  // on all of them
  DataParallel net(model);

  // the loss and the optimizer
  nn::CrossEntropyLoss criterion;
  nn::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});

  // training
  for (int epoch = 0; epoch < epochs; ++epoch) {
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
}
