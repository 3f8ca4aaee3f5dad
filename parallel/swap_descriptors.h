/// Not installed. Every member of a channel gives every other one a file descriptor, over unix sockets that exist for
/// that alone. For members on one machine.
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/descriptor.h>
#include <tandem/parallel/membership.h>

#include <vector>

namespace tandem {

/// The others' descriptors by member; none at this one's place. Only processes of this user are listened to, and only
/// those that know what stands in the address book; others are turned away and change nothing. Throws CommError.
TANDEM_API std::vector<Descriptor> swap_descriptors(const Descriptor& own, const Channel& channel, AddressBook& book,
                                                    Wait& wait);

}  // namespace tandem
