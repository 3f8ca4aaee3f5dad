/// Not installed. Ranks in a message.
#pragma once
#include <string>
#include <vector>

namespace tandem {

/// "rank 3", "ranks 1, 2, 5", the first few of many.
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace tandem
