#include "apps/cifar10/commands.h"
#include "apps/cifar10/testing.h"

#include <filesystem>
#include <iostream>

namespace tandem::cifar10 {

int export_weights(const ExportOptions& o) {
  check<IoError>(o.force || !std::filesystem::exists(o.out), o.out, " is there already: --force writes over it");
  Trained t = load_trained(o.checkpoint, cpu());
  save(o.out, t.net->state_dict(), {{"format", "pt"}});
  std::cout << o.out << ": " << t.net->num_parameters() << " parameters of " << t.file << std::endl;
  return 0;
}

}  // namespace tandem::cifar10
