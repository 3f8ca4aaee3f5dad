// A project of its own: trains two steps with the installed library and fails unless the loss falls.
#include <tandem/tandem.h>

#include <cstdio>

using namespace tandem;

int main() {
  manual_seed(0);
  Tensor x = rand({8, 4}), w = rand({1, 4}).set_requires_grad();
  float before = 0, loss = 0;
  for (int step = 0; step < 3; ++step) {
    Tensor y = linear(x, w);
    y.backward(ones_like(y));
    before = step == 0 ? y.to_vector()[0] : before;
    loss = y.to_vector()[0];
    for (int i = 0; i < 4; ++i) w.data<float>()[i] -= 0.01f * w.grad().data<float>()[i];
    w.zero_grad();
  }
  std::printf("%g, then %g\n", before, loss);
  return loss < before ? 0 : 1;
}
