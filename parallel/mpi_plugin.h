/// Not installed. The way to MPI: what calls MPI is a library of its own, libtandem_mpi, which the first group with
/// backend "mpi" opens. Programs that have none need no MPI, and pay for none.
#pragma once
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/transport.h>

#include <memory>

namespace tandem {

/// Connects a channel's members, who are processes (or threads of processes) of one MPI job, in any order: which
/// process is whose goes through the address book. Collective among them. Throws CommError.
using ConnectByMpi = std::unique_ptr<Transport>(Membership& membership, std::shared_ptr<Channel> channel,
                                                AddressBook& book);

/// Out of libtandem_mpi, which lies beside libtandem and is opened at the first call. Throws Error that says what to
/// install, or to build again.
TANDEM_API ConnectByMpi& mpi_plugin();

}  // namespace tandem

/// What libtandem_mpi offers, under a name that dlsym knows.
extern "C" [[gnu::visibility("default")]] tandem::ConnectByMpi tandem_connect_by_mpi;
