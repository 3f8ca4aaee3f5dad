/// Not installed. Texts of the ranks, of any length.
#pragma once
#include <tandem/parallel/communicator.h>

namespace tandem {

/// Everybody's text, on every rank, in the order of the ranks. Collective.
std::vector<std::string> gather_texts(Communicator& c, const std::string& mine);

}  // namespace tandem
