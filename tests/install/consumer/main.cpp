// A project of its own: trains two steps with the installed library, and fails unless the loss falls.
#include <tandem/tandem.h>

#include <cstdio>

using namespace tandem;

struct Net : nn::Module {
  nn::Linear fc1{8, 16}, fc2{16, 3};
  Net() {
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

int main() {
  manual_seed(0);
  Net net;
  nn::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  Tensor x = randn({32, 8}), y = randint(0, 3, {32});
  float losses[3];
  for (float& value : losses) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    value = loss.item();
    loss.backward();
    optimizer.step();
  }
  std::printf("%g, then %g, then %g\n", losses[0], losses[1], losses[2]);
  return losses[2] < losses[1] && losses[1] < losses[0] ? 0 : 1;
}
