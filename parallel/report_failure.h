/// Not installed. What a rank says when a collective fails, before anything unwinds.
#pragma once
#include <tandem/parallel/membership.h>

namespace tandem {

/// Logs the error with the last few collectives of the channel that it happened in. Where the environment's
/// TANDEM_FLIGHT_RECORD names a file, the records of all channels are added to that name with ".rank3" at its end; a
/// file that can't be written is a warning.
void report_failure(int rank, const std::string& error, const Channel& where,
                    const std::vector<std::shared_ptr<Channel>>& all);

}  // namespace tandem
