#include <tandem/core/error.h>
#include <tandem/parallel/list_ranks.h>

#include <algorithm>

namespace tandem {

std::string list_ranks(const std::vector<int>& ranks) {
  constexpr size_t kListed = 16;
  std::string s = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < std::min(ranks.size(), kListed); ++i) s += message(i ? ", " : " ", ranks[i]);
  if (ranks.size() > kListed) s += message(" and ", ranks.size() - kListed, " more");
  return s;
}

}  // namespace tandem
