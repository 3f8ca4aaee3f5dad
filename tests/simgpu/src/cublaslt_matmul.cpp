// cuBLASLt's matmul: what is checked when it is called, and its arithmetic.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cublaslt_problem.h"
#include "library_rate.h"
#include "library_stream.h"
#include "refusal.h"

namespace simgpu {
namespace {

constexpr const char* kName = "cublasLtMatmul";
constexpr size_t kWorkspaceAlignment = 256;

struct Matmul {
  MatmulProblem p;
  MatmulAlgorithm algorithm;
  double alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
};

cublasStatus_t check_pointer(const char* name, const void* p, Element e, uint32_t alignment) {
  if (!p || reinterpret_cast<uintptr_t>(p) % bytes_of(e))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: %s is at %p", kName, name, p);
  if (reinterpret_cast<uintptr_t>(p) % alignment)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "%s: %s at %p is not aligned to the %u bytes that the algorithm was asked for", kName, name, p,
                  alignment);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_pointers(const Matmul& x) {
  const MatmulProblem& p = x.p;
  if (const auto status = check_pointer("A", x.a, p.in, x.algorithm.alignment_a)) return status;
  if (const auto status = check_pointer("B", x.b, p.in, x.algorithm.alignment_b)) return status;
  if (const auto status = check_pointer("C", x.c, p.out, x.algorithm.alignment_c)) return status;
  if (const auto status = check_pointer("D", x.d, p.out, x.algorithm.alignment_d)) return status;
  if (p.adds_bias() || p.stores_bias_gradient())
    if (const auto status = check_pointer("the bias", p.operation.bias, p.out, x.algorithm.alignment_bias))
      return status;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_algorithm(const cublasLtMatmulAlgo_t* chosen, size_t workspace_bytes, Matmul* x) {
  if (!chosen) {  // the library chooses one for these very pointers
    if (x->workspace && workspace_bytes >= split_workspace_bytes(x->p)) {
      x->algorithm.kind = MatmulAlgorithm::split;
      x->algorithm.workspace_bytes = split_workspace_bytes(x->p);
    }
  } else {
    std::memcpy(&x->algorithm, chosen->data, sizeof x->algorithm);
    if (x->algorithm.mark != MatmulAlgorithm::kMark || x->algorithm.problem != hash_of(x->p))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: the algorithm is another product's", kName);
  }
  const uint64_t wanted = x->algorithm.workspace_bytes;
  if (wanted && (!x->workspace || workspace_bytes < wanted))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: a workspace of %zu bytes, the algorithm wants %lu", kName,
                  x->workspace ? workspace_bytes : 0, wanted);
  if (wanted && reinterpret_cast<uintptr_t>(x->workspace) % kWorkspaceAlignment)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: the workspace at %p is not aligned to %zu bytes", kName,
                  x->workspace, kWorkspaceAlignment);
  return CUBLAS_STATUS_SUCCESS;
}

/// Some columns of one of the batch's products, computed and finished together while they are in the caches.
struct Block {
  size_t index, first, columns;
};

/// alpha op(A) op(B), [m, columns] column-major.
template <class C>
std::vector<C> product(const Matmul& x, const Block& block) {
  const MatmulProblem& p = x.p;
  Operand a = operand(p.a, x.a, p.in, block.index), b = operand(p.b, x.b, p.in, block.index);
  if (p.operation.transpose_a == CUBLAS_OP_T) std::swap(a.row, a.column);
  if (p.operation.transpose_b == CUBLAS_OP_T) std::swap(b.row, b.column);
  a.tf32 = b.tf32 = p.tf32;
  const auto skip = [&](Operand& o, ptrdiff_t elements) {
    o.data = static_cast<const char*>(o.data) + elements * ptrdiff_t(bytes_of(p.in));
  };
  skip(b, ptrdiff_t(block.first) * b.column);
  std::vector<C> sum(p.m * block.columns);
  const size_t half = x.algorithm.kind == MatmulAlgorithm::split ? p.k / 2 : 0;
  if (half) {
    std::vector<C> part(sum.size());
    multiply_add(p.m, block.columns, half, a, b, part.data(), p.m);
    skip(a, ptrdiff_t(half) * a.column);
    skip(b, ptrdiff_t(half) * b.row);
    multiply_add(p.m, block.columns, p.k - half, a, b, sum.data(), p.m);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  } else {
    multiply_add(p.m, block.columns, p.k, a, b, sum.data(), p.m);
  }
  if (x.alpha != 1)
    for (C& s : sum) s *= C(x.alpha);
  return sum;
}

template <class T, class C>
void finish(const Matmul& x, const Block& block, const std::vector<C>& sum) {
  const MatmulProblem& p = x.p;
  const Operand from = operand(p.c, x.c, p.out, block.index), to = operand(p.d, x.d, p.out, block.index);
  const auto* c = static_cast<const T*>(from.data);
  auto* d = static_cast<T*>(const_cast<void*>(to.data));
  const T* bias = p.adds_bias()
                      ? static_cast<const T*>(p.operation.bias) + ptrdiff_t(block.index) * p.operation.bias_batch_stride
                      : nullptr;
  const C beta = C(x.beta);
  const bool blends = x.beta != 0, clips = p.applies_relu();
  for (size_t j = 0; j < block.columns; ++j) {
    const auto column = ptrdiff_t(block.first + j);
    for (size_t i = 0; i < p.m; ++i) {
      C s = sum[j * p.m + i];
      if (blends) s += beta * value(c[ptrdiff_t(i) * from.row + column * from.column]);
      if (bias) s += value(bias[i]);
      if (clips) s = s < 0 ? C(0) : s;
      d[ptrdiff_t(i) * to.row + column * to.column] = rounded<T>(s);
    }
  }
}

/// The sums of op(A)'s rows, or of op(B)'s columns, over k.
template <class T, class C>
void store_bias_gradient(const Matmul& x, size_t index) {
  const MatmulProblem& p = x.p;
  const bool of_a = p.operation.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const Operand o = of_a ? operand(p.a, x.a, p.in, index) : operand(p.b, x.b, p.in, index);
  // BGRADB is for a transposed B: its stored rows are op(B)'s columns.
  auto* to = static_cast<T*>(p.operation.bias) + ptrdiff_t(index) * p.operation.bias_batch_stride;
  with_element(p.in, [&](auto t) {
    using In = decltype(t);
    const auto* from = static_cast<const In*>(o.data);
    for (size_t i = 0; i < p.bias_elements(); ++i) {
      C sum = 0;
      for (size_t k = 0; k < p.k; ++k) sum += C(value(from[ptrdiff_t(i) * o.row + ptrdiff_t(k) * o.column]));
      to[i] = rounded<T>(Compute<T>(sum));
    }
  });
}

Step run(const Matmul& x) {
  constexpr size_t kBlockElements = 1 << 18;
  const size_t columns = std::max<size_t>(16, kBlockElements / x.p.m);
  with_element(x.p.out, [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    for (size_t index = 0; index < x.p.batch; ++index) {
      for (size_t first = 0; first < x.p.n; first += columns) {
        const Block block{index, first, std::min(columns, x.p.n - first)};
        finish<T>(x, block, product<C>(x, block));
      }
      if (x.p.stores_bias_gradient()) store_bias_gradient<T, C>(x, index);
    }
  });
  if (x.algorithm.workspace_bytes) std::memset(x.workspace, 0xff, x.algorithm.workspace_bytes);  // NaN: nothing to read
  return Step::done;
}

cublasStatus_t submit_matmul(Stream& stream, const Matmul& x) {
  const MatmulProblem& p = x.p;
  const Footprint a = footprint(p.a, x.a, p.in), b = footprint(p.b, x.b, p.in), c = footprint(p.c, x.c, p.out),
                  d = footprint(p.d, x.d, p.out);
  const Footprint workspace(x.workspace, x.algorithm.workspace_bytes);
  const bool same = x.c == x.d;
  if (same && (p.c.order != p.d.order || p.c.leading_dimension != p.d.leading_dimension ||
               (p.batch > 1 && p.c.batch_stride != p.d.batch_stride)))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: C is D, with another layout", kName);
  if (d.overlaps(a) || d.overlaps(b) || (!same && d.overlaps(c)))
    fail("%s: D overlaps %s", kName, d.overlaps(a) ? "A" : d.overlaps(b) ? "B" : "C, and isn't in its place");
  Operation o{.name = kName,
              .step = [x] { return run(x); },
              .flops = 2. * double(p.m * p.n) * double(p.k * p.batch),
              .flops_per_s = peak_flops_per_s(p.in, p.tf32)};
  a.read_by(o);
  b.read_by(o);
  if (x.beta != 0) c.read_by(o);
  if (p.adds_bias() || p.stores_bias_gradient()) {
    const Footprint bias(p.operation.bias, bytes_of(p.out),
                         {{int64_t(p.bias_elements()), 1}, {int64_t(p.batch), p.operation.bias_batch_stride}});
    if (bias.overlaps(d)) fail("%s: D overlaps the bias", kName);
    p.adds_bias() ? bias.read_by(o) : bias.written_by(o);
  }
  d.written_by(o);
  workspace.written_by(o);
  submit(stream, std::move(o));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                                         const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                         cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                         cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                         const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                                         cudaStream_t stream) {
  std::lock_guard lock(runtime_mutex());
  const auto* h = lt_handles().find(handle, kName);
  if (!h) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "%s: no handle", kName);
  Matmul x{.p = {}, .algorithm = {}, .alpha = 0, .beta = 0, .a = a, .b = b, .c = c, .d = d, .workspace = workspace};
  if (const auto status = describe_problem(kName, operation, a_layout, b_layout, c_layout, d_layout, &x.p))
    return status;
  if (!alpha || !beta) return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: no alpha or beta", kName);
  const bool f64 = x.p.in == Element::f64;
  x.alpha = f64 ? *static_cast<const double*>(alpha) : double(*static_cast<const float*>(alpha));
  x.beta = f64 ? *static_cast<const double*>(beta) : double(*static_cast<const float*>(beta));
  if (x.p.stores_bias_gradient() && x.beta != 0)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "%s: epilogue %u stores the bias gradient, it can't be added to one, as beta asks for D", kName,
                  x.p.operation.epilogue);
  if (const auto status = check_algorithm(algorithm, workspace_bytes, &x)) return status;
  if (const auto status = check_pointers(x)) return status;
  Stream* s = find_stream(kName, h->device, stream);
  if (!s) return CUBLAS_STATUS_EXECUTION_FAILED;
  return submit_matmul(*s, x);
}
