/// A dataset and a model of one's own: random vectors in batches of 30 through a linear layer.
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
    std::cout << "  In Model: input size " << to_string(input.shape()) << " output size " << to_string(output.shape())
              << '\n';
    return output;
  }
};

int main() {
  data::DataLoader rand_loader(RandomDataset(input_size, data_size), {.batch_size = batch_size, .shuffle = true});
  Model model(input_size, output_size);
  for (auto& [input, _] : rand_loader) {
    Tensor output = model(input);
    std::cout << "Outside: input size " << to_string(input.shape()) << " output_size " << to_string(output.shape())
              << '\n';
  }
}
