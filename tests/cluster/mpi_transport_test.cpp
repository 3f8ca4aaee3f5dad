// MPI's messages as a transport: the checks of all transports, with ranks that are threads of one MPI process.
#include "tests/support/transport_checks.h"

#include <tandem/parallel/mpi_plugin.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

std::unique_ptr<Transport> make(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book) {
  return mpi_plugin()(membership, std::move(channel), book);
}

}  // namespace

TEST_CASE("MPI reduces exactly, whatever the dtype, size and number of ranks") { check_all_reduce(make); }
TEST_CASE("MPI applies factors and skips, in the order of the ranks") { check_weights(make); }
TEST_CASE("MPI exchanges parts of any size") { check_exchange(make); }
TEST_CASE("MPI transfers between pairs") { check_transfer(make); }
TEST_CASE("MPI stands a thousand collectives") { check_many(make); }
TEST_CASE("MPI refuses different collectives on all ranks") { check_mismatch(make); }
TEST_CASE("MPI notices who does not come") { check_absence(make); }
TEST_CASE("MPI leaves nothing behind") { check_nothing_left(make); }
