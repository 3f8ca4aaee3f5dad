/// What every transport must do, as checks that a transport's test runs on it.
#pragma once
#include "tests/support/test_group.h"

namespace tandem::test {

/// Sums, minima and maxima, bit for bit, of all dtypes, for sizes up to 70,000, 1 to 8 ranks; large ones of f32.
void check_all_reduce(const MakeTransport& make);
/// Factors, and values that count for nothing and are not read.
void check_weights(const MakeTransport& make);
/// Parts of all sizes, none among them, to all and from all; the same to all; to and from one.
void check_exchange(const MakeTransport& make);
/// Sends and receives between pairs, of all sizes, among other collectives.
void check_transfer(const MakeTransport& make);
/// A thousand collectives of changing kinds and sizes.
void check_many(const MakeTransport& make);
/// Ranks that ask for different things all hear of both, and nobody's memory has changed.
void check_mismatch(const MakeTransport& make);
/// A rank that does not come is named at the deadline.
void check_absence(const MakeTransport& make);
/// One that has ended its side is noticed.
void check_close(const MakeTransport& make);
/// No descriptor and no shared mapping is left by groups that were made and ended, also in errors.
void check_nothing_left(const MakeTransport& make);

/// Between processes. `test_case` is a skipped test case of the same binary that calls rank_in_child with the
/// transport; its processes' results are those of ranks as threads.
void check_processes(const std::string& test_case, const MakeTransport& make);
/// One of four processes is killed within a collective: the others end in an error within a second. With `named_here`
/// the transport finds out by itself, else it is told as a store would.
void check_kill(const std::string& test_case, bool named_here);
void rank_in_child(const MakeTransport& make);

}  // namespace tandem::test
