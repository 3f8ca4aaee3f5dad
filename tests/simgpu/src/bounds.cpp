// What code compiled with -fsanitize=bounds calls for an index outside of an array whose size is in its type: overruns
// of shared arrays, which lie side by side, can't be told from their addresses.
#include <cstdint>

#include "operation.h"

namespace {

struct SourceLocation {
  const char* file;
  uint32_t line, column;
};

struct TypeDescriptor {
  uint16_t kind, info;  // of an integer: bit 0 of info is its sign
  char name[1];
};

struct OutOfBounds {
  SourceLocation place;
  const TypeDescriptor *array, *index;
};

[[noreturn]] void fail_out_of_bounds(const OutOfBounds& data, uintptr_t index) {
  const char* file = data.place.file;
  for (const char* c = file; *c; ++c)
    if (*c == '/') file = c + 1;
  simgpu::fail("out of bounds: index %ld of an array of type %s, at %s:%u", static_cast<long>(index), data.array->name,
               file, data.place.line);
}

}  // namespace

extern "C" {
void __ubsan_handle_out_of_bounds(OutOfBounds* data, uintptr_t index) { fail_out_of_bounds(*data, index); }
void __ubsan_handle_out_of_bounds_abort(OutOfBounds* data, uintptr_t index) { fail_out_of_bounds(*data, index); }
}
