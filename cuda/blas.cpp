// cuBLASLt is column-major: a row-major c = a b is its cᵀ = bᵀ aᵀ, so that its A is our b and its B our a, and what is
// row-major here it takes for transposed. Algorithms are asked for once for given sizes, and promised no better
// alignment than the pointers have: gradient windows start at multiples of 64 bytes, while the library assumes 256.
#include <tandem/cuda/blas.h>
#include <tandem/cuda/handle.h>
#include <tandem/ops/plan_cache.h>

#include <cublasLt.h>

#include <bit>
#include <mutex>

namespace tandem::cuda_impl {
namespace {

constexpr size_t kWorkspaceBytes = 32 << 20;  // at most, as the library advises for the largest GPUs
constexpr uint32_t kAlignment = 64;           // bytes beyond which no kernel is faster

std::string describe(const BlasProduct& p) {
  return message(p.dtype, " [", p.m, ",", p.k, p.a.transposed ? "] transposed" : "]", " by [", p.k, ",", p.n,
                 p.b.transposed ? "] transposed" : "]", p.batch > 1 ? message(", ", p.batch, " of them") : "");
}

// TANDEM_BLAS(p, call): throws with the call's text where it fails; `p` is the product it is for.
[[noreturn]] void fail(cublasStatus_t status, const char* expression, const BlasProduct& p) {
  const bool late = status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR;
  fail(status == CUBLAS_STATUS_ALLOC_FAILED ? Cause::no_memory
       : late                               ? Cause::any_kernel
                                            : Cause::this_call,
       message(cublasLtGetStatusString(status), " from ", expression, " for ", describe(p)));
}
#define TANDEM_BLAS(p, expression)                                                                \
  do {                                                                                            \
    if (const cublasStatus_t status = (expression); status != CUBLAS_STATUS_SUCCESS) [[unlikely]] \
      fail(status, #expression, p);                                                               \
  } while (false)

cudaDataType_t type_of(Dtype t) {
  switch (t) {
    case Dtype::f64: return CUDA_R_64F;
    case Dtype::f16: return CUDA_R_16F;
    case Dtype::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

bool by_tf32(const BlasProduct& p) { return p.dtype == Dtype::f32 && context().tf32_matmul; }

// The largest power of two, kAlignment at most, that divides an address.
uint32_t alignment(const void* p) {
  return uint32_t(1) << std::countr_zero(reinterpret_cast<uintptr_t>(p) | kAlignment);
}

struct Alignments {
  uint32_t a, b, c, bias;
  explicit Alignments(const BlasProduct& p)
      : a(alignment(p.a.data)), b(alignment(p.b.data)), c(alignment(p.c)), bias(alignment(p.bias)) {}
  int64_t key() const { return (int64_t(a) << 8 | b) << 16 | (c << 8 | bias); }
};

using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

struct Plan {
  Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  Layout a, b, c;  // ours
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
};

// A matrix of `rows` by `cols` of ours, which the library sees as its transpose.
Layout layout_of(const BlasProduct& p, Dtype t, int64_t rows, int64_t cols, int64_t stride, bool transposed,
                 int64_t step) {
  Layout l;
  TANDEM_BLAS(p, cublasLtMatrixLayoutCreate(l.out(), type_of(t), uint64_t(transposed ? rows : cols),
                                            uint64_t(transposed ? cols : rows), stride));
  if (p.batch == 1) return l;
  const auto count = int32_t(p.batch);
  TANDEM_BLAS(p, cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  TANDEM_BLAS(p, cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
  return l;
}

Plan make_plan(cublasLtHandle_t handle, const BlasProduct& p) {
  Plan plan;
  const bool f64 = p.dtype == Dtype::f64;
  TANDEM_BLAS(p, cublasLtMatmulDescCreate(plan.product.out(),
                                          f64          ? CUBLAS_COMPUTE_64F
                                          : by_tf32(p) ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                       : CUBLAS_COMPUTE_32F,
                                          f64 ? CUDA_R_64F : CUDA_R_32F));
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    TANDEM_BLAS(p, cublasLtMatmulDescSetAttribute(plan.product, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  plan.a = layout_of(p, p.dtype, p.m, p.k, p.a.stride, p.a.transposed, p.a.step);
  plan.b = layout_of(p, p.dtype, p.k, p.n, p.b.stride, p.b.transposed, p.b.step);
  plan.c = layout_of(p, p.c_dtype, p.m, p.n, p.c_stride, false, p.c_step);

  Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  TANDEM_BLAS(p, cublasLtMatmulPreferenceCreate(preference.out()));
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    TANDEM_BLAS(p, cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
  };
  const Alignments at(p);
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, at.b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, at.a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, at.c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, at.c);
  // A sum that is split among blocks is put together in f32, not in f16: results round once.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  TANDEM_BLAS(p, cublasLtMatmulAlgoGetHeuristic(handle, plan.product, plan.b, plan.a, plan.c, plan.c, preference, 1,
                                                &found, &count));
  if (!count) fail(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", p);
  plan.algorithm = found.algo;
  plan.workspace = found.workspaceSize;
  return plan;
}

// Of one device, for all its streams: the library keeps no state between calls, but a plan's bias changes with each.
// Never destroyed: threads may still end when the driver is gone.
struct Blas {
  std::mutex mutex;
  cublasLtHandle_t handle{};
  detail::PlanCache<Plan, 15> plans;
};

Blas& blas_of(int device) {
  static auto* all = new Blas[kMaxDevices];
  return all[device];
}

}  // namespace

void blas_multiply(const On& on, const BlasProduct& p) {
  Blas& blas = blas_of(on.device().index);
  std::lock_guard l(blas.mutex);
  if (!blas.handle) TANDEM_BLAS(p, cublasLtCreate(&blas.handle));
  const Plan& plan =
      blas.plans.get({int64_t(p.dtype), int64_t(p.c_dtype), p.m, p.n, p.k, p.a.stride, p.b.stride, p.c_stride, p.batch,
                      p.a.step, p.b.step, p.c_step, p.a.transposed + 2 * p.b.transposed + 4 * by_tf32(p),
                      p.bias != nullptr, Alignments(p).key()},
                     [&] { return make_plan(blas.handle, p); });
  if (p.bias)
    TANDEM_BLAS(
        p, cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof p.bias));
  Tensor workspace;
  if (plan.workspace) workspace = empty({int64_t(plan.workspace)}, {.dtype = Dtype::u8, .device = on.device()});
  const float one = 1, zero = 0;
  const double one_f64 = 1, zero_f64 = 0;
  const bool f64 = p.dtype == Dtype::f64;
  auto factor = [&](bool v) { return f64 ? static_cast<const void*>(v ? &one_f64 : &zero_f64) : v ? &one : &zero; };
  TANDEM_BLAS(p, cublasLtMatmul(blas.handle, plan.product, factor(true), p.b.data, plan.b, p.a.data, plan.a,
                                factor(p.add), p.c, plan.c, p.c, plan.c, &plan.algorithm,
                                workspace ? workspace.raw() : nullptr, plan.workspace, on));
  after_launch(on);
}

}  // namespace tandem::cuda_impl
