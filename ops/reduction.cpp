#include <tandem/core/error.h>
#include <tandem/ops/reduction.h>

namespace tandem {

std::string to_string(Reduction r) {
  switch (r) {
    case Reduction::mean: return "mean";
    case Reduction::sum: return "sum";
    case Reduction::none: break;
  }
  return "none";
}

Reduction parse_reduction(const std::string& name) {
  for (Reduction r : {Reduction::mean, Reduction::sum, Reduction::none})
    if (name == to_string(r)) return r;
  throw Error(message("a reduction is mean, sum or none, got \"", name, "\""));
}

}  // namespace tandem
