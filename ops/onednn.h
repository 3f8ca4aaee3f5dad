/// Not installed: what the kernels computed by oneDNN share. The library's own header is included by sources alone;
/// here its types are declared ahead.
///
/// Plans (a primitive and the memory objects it is called with) belong to a thread and are made for a number of
/// threads; pointers are lent to them for a call. Scratch comes from the pool, where it is counted and reused.
#pragma once
#include <tandem/core/tensor.h>
#include <tandem/ops/plan_cache.h>

namespace dnnl {
struct engine;
struct memory;
struct primitive_attr;
struct stream;
}  // namespace dnnl

namespace tandem::detail {

dnnl::engine& onednn_engine();
/// The calling thread's.
dnnl::stream& onednn_stream();

/// Memory from the pool that `m` uses for as long as this lives.
class LentScratch {
 public:
  LentScratch(dnnl::memory& m, Device d);

 private:
  Tensor memory_;
};

/// Makes `m` stand for this memory until the next call.
void lend(dnnl::memory& m, const void* p);

/// What every primitive is made with: full f32 precision whatever the environment asks for, scratch of ours, and (where
/// `add`) adding to the destination.
dnnl::primitive_attr onednn_attributes(bool add = false);

/// Throws the library's exception that is being handled as an Error naming the op; others go on as they are.
[[noreturn]] void rethrow_onednn_error();

/// f(), with the library's exceptions as ours.
template <class F>
decltype(auto) with_onednn_errors(F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_onednn_error();
  }
}

}  // namespace tandem::detail
