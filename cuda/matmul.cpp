#include <tandem/cuda/blas.h>
#include <tandem/ops/matmul.h>
#include <tandem/ops/product_batch.h>

namespace tandem::cuda_impl {
namespace {

// The results of a batch: those of its longest dimension in one call, that for each of the others; and a call more for
// each further term of a sum.
void multiply_batch(const Out& c, const Tensor& a, const Tensor& b, const detail::ProductBatch& batch) {
  using Steps = detail::ProductBatch::Steps;
  On on(c.t);
  detail::ProductBatch::Set others;
  int64_t size = 1;
  Steps step{};
  const auto& kept = batch.kept;
  const auto longest = std::max_element(kept.size, kept.size + kept.n) - kept.size;
  for (int i = 0; i < kept.n; ++i) {
    if (i != longest) {
      others.add(kept.size[i], kept.step[i]);
      continue;
    }
    size = kept.size[i];
    step = kept.step[i];
  }
  auto at = [](const Tensor& t, int64_t offset) {
    return static_cast<std::byte*>(t.raw()) + offset * int64_t(size_of(t.dtype()));
  };
  for (int64_t i = 0; i < others.count(); ++i)
    for (int64_t term = 0; term < batch.summed.count(); ++term) {
      const Steps from = others.at(i) + batch.summed.at(term);
      blas_multiply(on, {.dtype = a.dtype(),
                         .m = batch.m,
                         .n = batch.n,
                         .k = batch.k,
                         .a = {at(a, from.a), batch.a.stride, batch.a.transposed, step.a},
                         .b = {at(b, from.b), batch.b.stride, batch.b.transposed, step.b},
                         .c = at(c.t, from.c),
                         .c_stride = batch.c_stride,
                         .c_step = step.c,
                         .add = c.beta != 0 || term > 0,
                         .batch = size,
                         .c_dtype = c.t.dtype()});
    }
}

void multiply(const Out& c, const Tensor& a, const Tensor& b) {
  if (c.t.numel() == 0) return;
  const detail::ProductBatch batch(c.t, a, b);
  const int64_t terms = batch.summed.count();
  if (batch.k == 0 || terms == 0) {
    Tensor to = c.t;
    if (c.beta == 0) fill_into(to, 0);
    return;
  }
  if (terms == 1 || !is_half(c.t.dtype())) return multiply_batch(c, a, b, batch);
  // Sums of several products stay in f32 until they are whole.
  Tensor sums = empty(c.t.shape(), {.device = c.t.device()});
  multiply_batch({sums, 0}, a, b, batch);
  copy_into(c, sums);
}

void forward(Tensor& y, const Tensor& a, const Tensor& b) { multiply({y, 0}, a, b); }
void backward_a(Out ga, const Tensor& gy, const Tensor& b) { multiply(ga, gy, detail::transposed(b)); }
void backward_b(Out gb, const Tensor& gy, const Tensor& a) { multiply(gb, detail::transposed(a), gy); }

TANDEM_KERNEL(matmul_forward, cuda, forward);
TANDEM_KERNEL(matmul_backward_a, cuda, backward_a);
TANDEM_KERNEL(matmul_backward_b, cuda, backward_b);

}  // namespace
}  // namespace tandem::cuda_impl
