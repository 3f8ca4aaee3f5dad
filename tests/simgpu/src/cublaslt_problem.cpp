#include "cublaslt_problem.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "refusal.h"

namespace simgpu {
namespace {

std::optional<Element> element(uint32_t type) {
  switch (type) {
    case CUDA_R_32F: return Element::f32;
    case CUDA_R_64F: return Element::f64;
    case CUDA_R_16F: return Element::f16;
    case CUDA_R_16BF: return Element::bf16;
    default: return std::nullopt;
  }
}

cublasStatus_t check_layout(const char* function, const char* name, const MatrixLayout& l) {
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  if (l.rows == 0 || l.columns == 0 || l.batch_count < 1)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: %s is %lu x %lu, in a batch of %d", function, name, l.rows,
                  l.columns, l.batch_count);
  if (l.rows > kMost || l.columns > kMost)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: %s is %lu x %lu, more than 2^31 - 1", function, name, l.rows,
                  l.columns);
  if (l.order != CUBLASLT_ORDER_COL && l.order != CUBLASLT_ORDER_ROW)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: %s has order %d, neither column-major nor row-major", function,
                  name, l.order);
  const uint64_t dense = l.order == CUBLASLT_ORDER_COL ? l.rows : l.columns;
  if (l.leading_dimension < 0 || uint64_t(l.leading_dimension) < dense)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: %s has leading dimension %ld, its %s have %lu elements", function,
                  name, l.leading_dimension, l.order == CUBLASLT_ORDER_COL ? "columns" : "rows", dense);
  if (l.batch_stride < 0)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: %s has batch stride %ld", function, name, l.batch_stride);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_types(const char* function, MatmulProblem& p) {
  const auto a = element(p.a.type), b = element(p.b.type), c = element(p.c.type), d = element(p.d.type);
  const auto refused = [&] {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "%s: A of type %u, B %u, C %u, D %u with compute type %d and scale type %d is not supported",
                  function, p.a.type, p.b.type, p.c.type, p.d.type, p.operation.compute_type, p.operation.scale_type);
  };
  if (!a || !b || !c || !d || a != b || c != d) return refused();
  p.in = *a;
  p.out = *d;
  switch (p.operation.compute_type) {
    case CUBLAS_COMPUTE_64F:
      if (p.in != Element::f64 || p.out != Element::f64 || p.operation.scale_type != CUDA_R_64F) return refused();
      break;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      if (p.in != Element::f32) return refused();
      p.tf32 = true;
      [[fallthrough]];
    case CUBLAS_COMPUTE_32F:
      if (p.in == Element::f64 || (p.out != p.in && p.out != Element::f32) || p.operation.scale_type != CUDA_R_32F)
        return refused();
      break;
    default: return refused();
  }
  if (p.operation.bias_type != -1 && (p.adds_bias() || p.stores_bias_gradient()) &&
      element(uint32_t(p.operation.bias_type)) != p.out)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: the bias has type %d, D %s", function, p.operation.bias_type,
                  name_of(p.out));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_operation(const char* function, const MatmulProblem& p) {
  const MatmulDescription& o = p.operation;
  const auto is_transpose = [](int32_t t) { return t == CUBLAS_OP_N || t == CUBLAS_OP_T; };
  if (!is_transpose(o.transpose_a) || !is_transpose(o.transpose_b) || o.transpose_c != CUBLAS_OP_N)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: operations %d, %d and %d on A, B and C", function, o.transpose_a,
                  o.transpose_b, o.transpose_c);
  if (o.pointer_mode != CUBLASLT_POINTER_MODE_HOST)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: pointer mode %d is not modelled, alpha and beta are the host's",
                  function, o.pointer_mode);
  if (o.fill_mode != CUBLAS_FILL_MODE_FULL)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: fill mode %d is not modelled", function, o.fill_mode);
  switch (o.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS: break;
    case CUBLASLT_EPILOGUE_BGRADA:
      if (o.transpose_a == CUBLAS_OP_N) break;
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: the epilogue BGRADA wants an A that is not transposed", function);
    case CUBLASLT_EPILOGUE_BGRADB:
      if (o.transpose_b == CUBLAS_OP_T) break;
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: the epilogue BGRADB wants a transposed B", function);
    default: return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: epilogue %u is not modelled", function, o.epilogue);
  }
  const bool row_major = p.a.order == CUBLASLT_ORDER_ROW || p.b.order == CUBLASLT_ORDER_ROW ||
                         p.c.order == CUBLASLT_ORDER_ROW || p.d.order == CUBLASLT_ORDER_ROW;
  if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT && row_major)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: epilogue %u with a row-major matrix is not modelled", function,
                  o.epilogue);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_shapes(const char* function, MatmulProblem& p) {
  const bool ta = p.operation.transpose_a == CUBLAS_OP_T, tb = p.operation.transpose_b == CUBLAS_OP_T;
  p.m = ta ? p.a.columns : p.a.rows;
  p.k = ta ? p.a.rows : p.a.columns;
  p.n = tb ? p.b.rows : p.b.columns;
  const uint64_t b_depth = tb ? p.b.columns : p.b.rows;
  if (b_depth != p.k || p.c.rows != p.m || p.c.columns != p.n || p.d.rows != p.m || p.d.columns != p.n)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: op(A) is %lu x %lu, op(B) %lu x %lu, C %lu x %lu, D %lu x %lu",
                  function, p.m, p.k, b_depth, p.n, p.c.rows, p.c.columns, p.d.rows, p.d.columns);
  const int32_t batch = p.d.batch_count;
  if (p.a.batch_count != batch || p.b.batch_count != batch || p.c.batch_count != batch)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: batches of %d, %d, %d and %d matrices", function, p.a.batch_count,
                  p.b.batch_count, p.c.batch_count, batch);
  p.batch = size_t(batch);
  if (footprint(p.d, nullptr, p.out).overlaps_itself())
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: the matrices of D overlap, their stride is %ld", function,
                  p.d.batch_stride);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

bool MatmulProblem::adds_bias() const {
  return operation.epilogue == CUBLASLT_EPILOGUE_BIAS || operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool MatmulProblem::applies_relu() const {
  return operation.epilogue == CUBLASLT_EPILOGUE_RELU || operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool MatmulProblem::stores_bias_gradient() const {
  return operation.epilogue == CUBLASLT_EPILOGUE_BGRADA || operation.epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
size_t MatmulProblem::bias_elements() const { return operation.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n : m; }

cublasStatus_t describe_problem(const char* function, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                MatmulProblem* problem) {
  const auto* o = matmul_descriptions().find(operation, function);
  const MatrixLayout* layouts[] = {matrix_layouts().find(a, function), matrix_layouts().find(b, function),
                                   matrix_layouts().find(c, function), matrix_layouts().find(d, function)};
  if (!o || std::count(std::begin(layouts), std::end(layouts), nullptr))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: no descriptor of the operation, or of A, B, C or D", function);
  MatmulProblem& p = *problem;
  p.operation = *o;
  p.a = *layouts[0];
  p.b = *layouts[1];
  p.c = *layouts[2];
  p.d = *layouts[3];
  const char* names[] = {"A", "B", "C", "D"};
  for (int i = 0; i < 4; ++i)
    if (const auto status = check_layout(function, names[i], *layouts[i])) return status;
  if (const auto status = check_types(function, p)) return status;
  if (const auto status = check_operation(function, p)) return status;
  return check_shapes(function, p);
}

Operand operand(const MatrixLayout& l, const void* data, Element e, size_t index) {
  const auto* first = static_cast<const char*>(data) + index * size_t(l.batch_stride) * bytes_of(e);
  const bool columns = l.order == CUBLASLT_ORDER_COL;
  return {first, e, columns ? 1 : l.leading_dimension, columns ? l.leading_dimension : 1};
}

Footprint footprint(const MatrixLayout& l, const void* data, Element e) {
  const Operand o = operand(l, data, e, 0);
  return {
      data, bytes_of(e), {{int64_t(l.rows), o.row}, {int64_t(l.columns), o.column}, {l.batch_count, l.batch_stride}}};
}

uint64_t hash_of(const MatmulProblem& p) {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](uint64_t x) { hash = (hash ^ x) * 1099511628211u; };
  const MatmulDescription& o = p.operation;
  for (const int64_t x : {o.compute_type, o.transpose_a, o.transpose_b, int32_t(o.epilogue), o.bias_type})
    add(uint64_t(x));
  for (const MatrixLayout* l : {&p.a, &p.b, &p.c, &p.d}) {
    for (const uint64_t x : {uint64_t(l->type), l->rows, l->columns}) add(x);
    for (const int64_t x : {l->leading_dimension, int64_t(l->order), int64_t(l->batch_count), l->batch_stride})
      add(uint64_t(x));
  }
  return hash;
}

uint64_t split_workspace_bytes(const MatmulProblem& p) {
  const uint64_t bytes = 2 * p.m * p.n * (p.in == Element::f64 ? 8 : 4);
  return (bytes + 255) / 256 * 256;
}

uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return address ? uint32_t(std::min<uintptr_t>(address & -address, 256)) : 256;
}

}  // namespace simgpu
