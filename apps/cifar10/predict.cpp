#include "apps/cifar10/commands.h"
#include "apps/cifar10/images.h"
#include "apps/cifar10/testing.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace tandem::cifar10 {

int predict(const PredictOptions& o) {
  NoGradGuard no_grad;
  const Device device = set_up(o.machine);
  Trained t = load_trained(o.checkpoint, device);
  auto transform = test_transform(t.normalize);
  for (auto& file : find_images(o.images)) {
    Tensor x = transform(load_image(file).unsqueeze(0)).to(device);  // [1,3,32,32]
    auto shares = softmax((*t.net)(x), 1).to_vector<double>();       // [1,10]
    std::vector<size_t> order(shares.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return shares[a] > shares[b]; });
    std::printf("%s:", file.c_str());
    for (size_t i = 0; i < std::min(order.size(), size_t(o.top)); ++i)
      std::printf("  %s %.1f %%", t.classes.at(order[i]).c_str(), 100 * shares[order[i]]);
    std::printf("\n");
  }
  return 0;
}

}  // namespace tandem::cifar10
