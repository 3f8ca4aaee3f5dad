// Which algorithms can compute a product, within a workspace and for pointers of a stated alignment.
#include <bit>
#include <cstring>

#include "cublaslt_problem.h"
#include "refusal.h"

using namespace simgpu;

extern "C" cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                         cublasLtMatmulPreference_t preference, int most,
                                                         cublasLtMatmulHeuristicResult_t results[], int* count) {
  std::lock_guard lock(runtime_mutex());
  if (!lt_handles().find(handle, __func__)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "%s: no handle", __func__);
  const auto* wanted = matmul_preferences().find(preference, __func__);
  if (!wanted || !results || !count || most <= 0)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: no preference, or no place for results", __func__);
  *count = 0;
  MatmulProblem p;
  if (const auto status = describe_problem(__func__, operation, a, b, c, d, &p)) return status;
  if (wanted->search_mode != CUBLASLT_SEARCH_BEST_FIT)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: search mode %u is not modelled", __func__, wanted->search_mode);

  MatmulAlgorithm algorithm{.problem = hash_of(p),
                            .alignment_a = wanted->alignment_a,
                            .alignment_b = wanted->alignment_b,
                            .alignment_c = wanted->alignment_c,
                            .alignment_d = wanted->alignment_d,
                            .alignment_bias = std::min(alignment_of(p.operation.bias), 16u)};
  const auto usable = [](uint32_t alignment, Element e) {
    return std::has_single_bit(alignment) && alignment >= bytes_of(e);
  };
  if (!usable(algorithm.alignment_a, p.in) || !usable(algorithm.alignment_b, p.in) ||
      !usable(algorithm.alignment_c, p.out) || !usable(algorithm.alignment_d, p.out))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: no algorithm takes pointers aligned to %u, %u, %u and %u bytes",
                  __func__, algorithm.alignment_a, algorithm.alignment_b, algorithm.alignment_c, algorithm.alignment_d);

  const auto add = [&](MatmulAlgorithm::Kind kind, uint64_t workspace_bytes) {
    if (*count == most) return;
    algorithm.kind = kind;
    algorithm.workspace_bytes = workspace_bytes;
    cublasLtMatmulHeuristicResult_t& r = results[(*count)++];
    r = {};
    std::memcpy(r.algo.data, &algorithm, sizeof algorithm);
    r.workspaceSize = workspace_bytes;
    r.state = CUBLAS_STATUS_SUCCESS;
    r.wavesCount = 1;
  };
  if ((wanted->reduction_schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
      split_workspace_bytes(p) <= wanted->most_workspace_bytes)
    add(MatmulAlgorithm::split, split_workspace_bytes(p));
  add(MatmulAlgorithm::straight, 0);
  return CUBLAS_STATUS_SUCCESS;
}
