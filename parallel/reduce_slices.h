/// Not installed. The arithmetic of reductions: values of several ranks, in the order of the ranks.
#pragma once
#include <tandem/core/dtype.h>
#include <tandem/parallel/communicator.h>

#include <span>

namespace tandem {

/// How values are put together. f16 and bf16 are added in f32 and rounded once.
struct Reduction {
  Dtype dtype{};
  ReduceOp op = ReduceOp::sum;
};

/// One rank's values: `weight` multiplies them in the dtype (f32 for narrower ones) where `weighted`; those of a rank
/// that is skipped are not read.
struct Source {
  const std::byte* values = nullptr;
  double weight = 1;
  bool weighted = false;
  bool skip = false;
};

/// out[i] = the reduction of sources[0][i], sources[1][i], ... in that order; zero where all are skipped. `out` may be
/// one of the sources.
TANDEM_API void reduce_slices(const Reduction& r, std::span<const Source> sources, std::byte* out, size_t elements);

}  // namespace tandem
