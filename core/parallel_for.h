/// The only place that forks threads inside an op, and how many it uses. Type-erased, so that no OpenMP pragma is
/// compiled into user code.
#pragma once
#include <tandem/core/export.h>

#include <cstdint>

namespace tandem {

/// Threads that this thread's ops use (torch.set_num_threads); n < 1 throws Error. Not inherited by other threads.
TANDEM_API void set_num_threads(int n);
/// What set_num_threads said on this thread, else the cores of the process (or OMP_NUM_THREADS).
TANDEM_API int num_threads();
/// For a thread that is about to wait while others compute: ends its team, whose members would otherwise spin for a
/// while on the cores that the others need. Its next parallel region makes a new one.
TANDEM_API void rest_threads();

namespace detail {
TANDEM_API void parallel_for(int64_t n, int64_t grain, void (*f)(const void*, int64_t, int64_t), const void* closure);
}

/// Calls f(begin, end) on disjoint ranges that cover [0, n), in this thread where n <= grain. An exception of f reaches
/// the caller. Results must not depend on how the range is cut.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f) {
  detail::parallel_for(
      n, grain, [](const void* c, int64_t a, int64_t b) { (*static_cast<const F*>(c))(a, b); }, &f);
}

}  // namespace tandem
