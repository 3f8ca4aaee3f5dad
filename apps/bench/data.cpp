#include "apps/bench/bench.h"

#include <tandem/tandem.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace tandem::bench {

int data(bool json) {
  set_num_threads(1);
  constexpr int64_t kImages = 50000, kBatch = 128;
  data::Synthetic images({.size = kImages});
  data::DataLoader loader(
      images, {.batch_size = kBatch,
               .shuffle = true,
               .transform = data::Compose({data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip(),
                                           data::ToTensor(), data::Normalize({0.5}, {0.5})})});
  auto ms = time_calls(4, 1, [&] {
    for (auto& batch : loader) (void)batch;
  });
  double rate = double(kImages) / ms.front() * 1e3;
  if (json) {
    std::cout << nlohmann::ordered_json{{"augment_images_s", rate}}.dump() << '\n';
    return 0;
  }
  std::cout << machine();
  std::printf("crop + flip + normalise, one core, batches of %lld: %.0f images/s\n", static_cast<long long>(kBatch),
              rate);
  return 0;
}

}  // namespace tandem::bench
