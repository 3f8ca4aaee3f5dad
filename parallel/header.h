/// Not installed. Header: what a collective is, as it stands before its data on the wire; ranks compare it.
#pragma once
#include <tandem/core/export.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace tandem {

struct Header {
  uint64_t sequence = 0;  // counts the channel's collectives, from 1
  uint64_t elements = 0;
  double weight = 1;  // this rank's factor
  uint32_t channel = 0;
  int32_t peer = -1;  // the root, or the other side of a transfer; -1 where there is none
  uint8_t kind = 0, dtype = 0, op = 0;
  uint8_t weighted = 0;  // whether there are factors
  uint8_t skip = 0;      // this rank's values count for nothing
  uint8_t layout = 0;
  uint8_t reserved[22] = {};
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

/// Whether two ranks mean the same collective: of a transfer, one sends and the other receives.
TANDEM_API bool same_collective(const Header& a, const Header& b);
/// "number 7, all_reduce of 100 f32 (sum)"
TANDEM_API std::string to_string(const Header& h);

}  // namespace tandem
