#include "apps/cifar10/commands.h"
#include "apps/cifar10/testing.h"

#include <cstdio>
#include <iostream>

namespace tandem::cifar10 {

int evaluate(const EvalOptions& o) {
  const Device device = set_up(o.machine);
  Trained t = load_trained(o.checkpoint, device);
  DataOptions wanted = o.data;
  if (wanted.dataset == "auto") wanted.dataset = t.dataset;
  Datasets sets = open_datasets(wanted, Parts::test, [](const std::string& line) { std::cout << line << std::endl; });
  std::cout << "checkpoint: " << t.file << ", trained on " << t.dataset << "\ndata: " << sets.why << std::endl;
  data::DataLoader loader(sets.test, {.batch_size = o.batch_size, .transform = test_transform(t.normalize)});
  Accuracy a = accuracy(*t.net, loader, device);
  for (size_t k = 0; k < a.all.size(); ++k)
    if (a.all[k])
      std::printf("%-12s %6.2f %%  (%lld of %lld)\n", sets.classes[k].c_str(),
                  100.0 * double(a.right[k]) / double(a.all[k]), static_cast<long long>(a.right[k]),
                  static_cast<long long>(a.all[k]));
  std::printf("test accuracy %.2f %%\n", 100 * a.total());
  return 0;
}

}  // namespace tandem::cifar10
