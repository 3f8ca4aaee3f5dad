/// DataParallel in one line: random vectors in batches of 30, split over as many devices as there are
/// (TANDEM_CPU_DEVICES=3 makes three on a CPU).
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;

const int64_t input_size = 5, output_size = 2, batch_size = 30, data_size = 90;

struct RandomDataset : data::Dataset {
  Tensor data;
  RandomDataset(int64_t size, int64_t length) : data(randn({length, size})) {}
  data::Sample get(int64_t i) const override { return data.select(0, i); }
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

int main() {
  data::DataLoader rand_loader(RandomDataset(input_size, data_size), {.batch_size = batch_size, .shuffle = true});
  Model net(input_size, output_size);

  const DeviceKind kind = device_count(DeviceKind::cuda) ? DeviceKind::cuda : DeviceKind::cpu;
  net.to(Device{kind, 0});
  if (device_count(kind) > 1) std::cout << "Let's use " << device_count(kind) << " devices!\n";
  DataParallel model(net);  // the one line; with one device it is the network itself

  for (auto& [data, _] : rand_loader) {
    Tensor input = data.to(Device{kind, 0});
    Tensor output = model(input);
    std::cout << message("Outside: input size ", input.shape(), " output_size ", output.shape(), '\n');
  }
}
