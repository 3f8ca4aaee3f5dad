/// Not installed. TCP connections between all members of a channel, each of which has proved to the other that it knows
/// the group's token.
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/descriptor.h>
#include <tandem/parallel/membership.h>

#include <string>
#include <vector>

namespace tandem {

/// Listens at a free port of `address` for as long as this runs, and tells it by the address book; the higher member
/// calls the lower. Until a caller has proved the token nothing else it says counts: strangers are turned away, of
/// those who stay silent the oldest goes. A call that is cut off is made again. `wake` becomes readable when the group
/// fails. The others' connections by member; none at this one's place. Throws CommError.
TANDEM_API std::vector<Descriptor> connect_members(const Channel& channel, AddressBook& book,
                                                   const std::string& address, const std::string& token, int wake,
                                                   Wait& wait);

}  // namespace tandem
