/// A trainer embedded in a program of one's own: fits y = sin(x) with a small network, saves it and reads it back. The
/// file it saves to may be given; otherwise it goes with the temporary ones.
#include <tandem/tandem.h>

#include <cmath>
#include <filesystem>
#include <iostream>

using namespace tandem;

struct Curve : nn::Module {
  nn::Linear fc1{1, 32}, fc2{32, 32}, fc3{32, 1};
  Curve() {
    add("fc1", fc1);
    add("fc2", fc2);
    add("fc3", fc3);
  }
  Tensor forward(const Tensor& x) override { return fc3(tanh(fc2(tanh(fc1(x))))); }
};

int main(int argc, char** argv) {
  manual_seed(1);
  std::vector<float> xs, ys;
  for (int i = 0; i < 256; ++i) {
    xs.push_back(float(i) / 256 * 6 - 3);
    ys.push_back(std::sin(xs.back()));
  }
  Tensor x = from_vector(xs, {256, 1}), y = from_vector(ys, {256, 1});

  Curve net;
  nn::Adam optimizer(net.parameters(), {.lr = 0.01});
  nn::CosineAnnealingLR schedule(optimizer, {.T_max = 400});
  for (int step = 0; step < 400; ++step) {
    optimizer.zero_grad();
    Tensor loss = mse_loss(net(x), y);
    loss.backward();
    optimizer.step();
    schedule.step();
    if (step % 100 == 0) std::cout << "step " << step << " loss " << loss.item() << '\n';
  }

  const std::string path = argc > 1 ? argv[1] : std::filesystem::temp_directory_path() / "curve.safetensors";
  save(path, net.state_dict());
  std::cout << "saved as " << path << '\n';
  Curve again;
  again.load_state_dict(load(path).tensors);
  NoGradGuard no_grad;
  std::cout << "sin(1) = " << std::sin(1.0) << ", the network says " << again(tensor({1.f}).reshape({1, 1})).item()
            << '\n';
}
