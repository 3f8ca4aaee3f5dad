#include <tandem/parallel/shared_memory.h>
#include <tandem/parallel/shm_transport.h>
#include <tandem/parallel/swap_descriptors.h>

#include "tests/support/transport_checks.h"

#include <doctest/doctest.h>

#include <sys/mman.h>

using namespace tandem;
using namespace tandem::test;

namespace {

std::unique_ptr<Transport> make(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book) {
  return std::make_unique<ShmTransport>(membership, std::move(channel), book);
}

}  // namespace

TEST_CASE("shared memory reduces exactly, whatever the dtype, size and number of ranks") { check_all_reduce(make); }
TEST_CASE("shared memory applies factors and skips, in the order of the ranks") { check_weights(make); }
TEST_CASE("shared memory exchanges parts of any size") { check_exchange(make); }
TEST_CASE("shared memory transfers between pairs") { check_transfer(make); }
TEST_CASE("shared memory stands a thousand collectives") { check_many(make); }
TEST_CASE("shared memory refuses different collectives on all ranks") { check_mismatch(make); }
TEST_CASE("shared memory notices who does not come") { check_absence(make); }
TEST_CASE("shared memory notices an end that was closed") { check_close(make); }
TEST_CASE("shared memory leaves nothing behind") { check_nothing_left(make); }
TEST_CASE("shared memory gives processes the bits that threads get") {
  check_processes("a rank by shared memory", make);
}
TEST_CASE("shared memory sees a process die") { check_kill("a rank by shared memory", true); }
TEST_CASE("a rank by shared memory" * doctest::skip()) { rank_in_child(make); }

TEST_CASE("shared memory is its maker's to write, and keeps its size") {
  SharedMemory mine = SharedMemory::make(8192);
  mine.data()[0] = std::byte(7);
  SharedMemory theirs = SharedMemory::open(Descriptor(::dup(mine.descriptor().get())), 8192);
  CHECK(theirs.data()[0] == std::byte(7));
  CHECK(::ftruncate(mine.descriptor().get(), 4096) != 0);
  CHECK(::ftruncate(mine.descriptor().get(), 16384) != 0);
  CHECK(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, mine.descriptor().get(), 0) == MAP_FAILED);
  CHECK_THROWS_AS(SharedMemory::open(Descriptor(::dup(mine.descriptor().get())), 4096), CommError);
  Descriptor unsealed(::memfd_create("test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(unsealed.get(), 8192) == 0);
  CHECK_THROWS_AS(SharedMemory::open(std::move(unsealed), 8192), CommError);
}
