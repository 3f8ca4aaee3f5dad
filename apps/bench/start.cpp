#include "apps/bench/bench.h"
#include "apps/models/net.h"

#include <tandem/tandem.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace tandem::bench {

int first_step() {
  models::Net net;
  nn::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  Tensor x = randn({128, 3, 32, 32}), y = randint(0, 10, {128});
  optimizer.zero_grad();
  cross_entropy(net(x), y).backward();
  optimizer.step();
  std::cout << "ready\n";
  return 0;
}

int start(int runs, bool json) {
  auto ms = time_calls(runs, 0, [] { run_self({"first-step"}); });
  if (json) {
    std::cout << nlohmann::ordered_json{{"start_ms", ms.front()}}.dump() << '\n';
    return 0;
  }
  std::cout << machine();
  std::printf("start of the process to the end of its first step (Net, batch 128): %.0f ms, best of %d\n", ms.front(),
              runs);
  return 0;
}

}  // namespace tandem::bench
