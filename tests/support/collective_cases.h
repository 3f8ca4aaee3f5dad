/// What every communicator must do, whatever its transport: called on each rank alike.
#pragma once
#include <tandem/parallel/communicator.h>

namespace tandem::test {

/// All collectives, dtypes and operators, on sizes from 0 up to `largest` elements, with values whose sums are exact,
/// so that equality is bitwise.
void check_collectives(Communicator& c, int64_t largest = 70'000);

}  // namespace tandem::test
