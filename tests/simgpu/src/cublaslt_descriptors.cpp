#include "cublaslt_descriptors.h"

#include <cstring>

#include "refusal.h"

namespace simgpu {

LiveObjects<cublasLtHandle_t, LtHandle>& lt_handles() {
  static auto& all = *new LiveObjects<cublasLtHandle_t, LtHandle>("handle");
  return all;
}
LiveObjects<cublasLtMatmulDesc_t, MatmulDescription>& matmul_descriptions() {
  static auto& all = *new LiveObjects<cublasLtMatmulDesc_t, MatmulDescription>("matmul descriptor");
  return all;
}
LiveObjects<cublasLtMatrixLayout_t, MatrixLayout>& matrix_layouts() {
  static auto& all = *new LiveObjects<cublasLtMatrixLayout_t, MatrixLayout>("matrix layout");
  return all;
}
LiveObjects<cublasLtMatmulPreference_t, MatmulPreference>& matmul_preferences() {
  static auto& all = *new LiveObjects<cublasLtMatmulPreference_t, MatmulPreference>("matmul preference");
  return all;
}

namespace {

struct Field {
  void* data = nullptr;  // nullptr: the attribute is not modelled
  size_t bytes = 0;
};
template <class T>
Field field(T& member) {
  return {&member, sizeof member};
}

Field find(MatmulDescription& d, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return field(d.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return field(d.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return field(d.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA: return field(d.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return field(d.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC: return field(d.transpose_c);
    case CUBLASLT_MATMUL_DESC_FILL_MODE: return field(d.fill_mode);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return field(d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return field(d.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return field(d.bias_batch_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return field(d.bias_type);
    default: return {};
  }
}

Field find(MatrixLayout& l, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return field(l.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return field(l.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return field(l.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return field(l.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD: return field(l.leading_dimension);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return field(l.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return field(l.batch_stride);
    default: return {};
  }
}

Field find(MatmulPreference& p, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return field(p.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return field(p.most_workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return field(p.reduction_schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return field(p.alignment_a);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return field(p.alignment_b);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return field(p.alignment_c);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return field(p.alignment_d);
    default: return {};
  }
}

template <class Objects, class Handle, class Attribute>
cublasStatus_t set(Objects& all, const char* function, Handle handle, Attribute attribute, const void* from,
                   size_t bytes) {
  std::lock_guard lock(runtime_mutex());
  auto* object = all.find(handle, function);
  if (!object) return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: no descriptor", function);
  const Field f = find(*object, attribute);
  if (!f.data) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: attribute %d is not modelled", function, int(attribute));
  if (!from || bytes != f.bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: attribute %d has %zu bytes, given were %zu", function,
                  int(attribute), f.bytes, from ? bytes : 0);
  std::memcpy(f.data, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Objects, class Handle, class Attribute>
cublasStatus_t get(Objects& all, const char* function, Handle handle, Attribute attribute, void* to, size_t bytes,
                   size_t* written) {
  std::lock_guard lock(runtime_mutex());
  auto* object = all.find(handle, function);
  if (!object) return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: no descriptor", function);
  const Field f = find(*object, attribute);
  if (!f.data) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s: attribute %d is not modelled", function, int(attribute));
  if (bytes == 0 ? !written : !to || bytes != f.bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: attribute %d has %zu bytes, given were %zu", function,
                  int(attribute), f.bytes, bytes);
  if (bytes) std::memcpy(to, f.data, bytes);
  if (written) *written = f.bytes;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Objects, class Handle, class Object>
cublasStatus_t create(Objects& all, const char* function, Handle* handle, Object object) {
  std::lock_guard lock(runtime_mutex());
  if (!handle) return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: nowhere to put the descriptor", function);
  *handle = all.add(object);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Objects, class Handle>
cublasStatus_t destroy(Objects& all, const char* function, Handle handle) {
  std::lock_guard lock(runtime_mutex());
  all.remove(handle, function);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return create(matmul_descriptions(), __func__, description, MatmulDescription{compute_type, scale_type});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy(matmul_descriptions(), __func__, description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* from,
                                              size_t bytes) {
  return set(matmul_descriptions(), __func__, description, attribute, from, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void* to, size_t bytes,
                                              size_t* written) {
  return get(matmul_descriptions(), __func__, description, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading_dimension) {
  return create(matrix_layouts(), __func__, layout, MatrixLayout{uint32_t(type), rows, columns, leading_dimension});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(matrix_layouts(), __func__, layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* from,
                                                size_t bytes) {
  return set(matrix_layouts(), __func__, layout, attribute, from, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* to, size_t bytes,
                                                size_t* written) {
  return get(matrix_layouts(), __func__, layout, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(matmul_preferences(), __func__, preference, MatmulPreference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(matmul_preferences(), __func__, preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* from,
                                                    size_t bytes) {
  return set(matmul_preferences(), __func__, preference, attribute, from, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, void* to,
                                                    size_t bytes, size_t* written) {
  return get(matmul_preferences(), __func__, preference, attribute, to, bytes, written);
}

}  // extern "C"
