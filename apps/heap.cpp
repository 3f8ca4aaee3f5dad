#include "apps/heap.h"

#include <cstdlib>
#ifdef __GLIBC__
#  include <malloc.h>
#endif

namespace tandem {

void return_large_blocks() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace tandem
