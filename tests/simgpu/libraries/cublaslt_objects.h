/// cuBLASLt's handle and descriptors, for tests, and a product of which single arguments can be spoilt.
#pragma once
#include <cublasLt.h>
#include <doctest/doctest.h>

#include "typed_values.h"

namespace simgpu_test {

class LtHandle {
 public:
  LtHandle() { REQUIRE(cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS); }
  ~LtHandle() { cublasLtDestroy(handle_); }
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;
  operator cublasLtHandle_t() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

class LtLayout {
 public:
  LtLayout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading_dimension) {
    REQUIRE(cublasLtMatrixLayoutCreate(&layout_, type, rows, columns, leading_dimension) == CUBLAS_STATUS_SUCCESS);
  }
  ~LtLayout() { cublasLtMatrixLayoutDestroy(layout_); }
  LtLayout(const LtLayout&) = delete;
  LtLayout& operator=(const LtLayout&) = delete;
  operator cublasLtMatrixLayout_t() const { return layout_; }

  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }
  void batch(int32_t count, int64_t stride) {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class LtDescription {
 public:
  LtDescription(cublasComputeType_t compute, cudaDataType scale) {
    REQUIRE(cublasLtMatmulDescCreate(&description_, compute, scale) == CUBLAS_STATUS_SUCCESS);
  }
  ~LtDescription() { cublasLtMatmulDescDestroy(description_); }
  LtDescription(const LtDescription&) = delete;
  LtDescription& operator=(const LtDescription&) = delete;
  operator cublasLtMatmulDesc_t() const { return description_; }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }

 private:
  cublasLtMatmulDesc_t description_ = nullptr;
};

class LtPreference {
 public:
  LtPreference() { REQUIRE(cublasLtMatmulPreferenceCreate(&preference_) == CUBLAS_STATUS_SUCCESS); }
  ~LtPreference() { cublasLtMatmulPreferenceDestroy(preference_); }
  LtPreference(const LtPreference&) = delete;
  LtPreference& operator=(const LtPreference&) = delete;
  operator cublasLtMatmulPreference_t() const { return preference_; }

  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value) ==
            CUBLAS_STATUS_SUCCESS);
  }
  void workspace(uint64_t bytes) { set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes); }
  void alignment(uint32_t bytes) {
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes);
  }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

template <class T>
constexpr cublasComputeType_t kCompute = std::is_same_v<T, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
template <class T>
constexpr cudaDataType kScale = std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F;

/// A product of m x k by k x n, its operands on the device, that single arguments can be spoilt of.
template <class T>
struct Product {
  static constexpr int64_t m = 5, n = 7, k = 300;
  LtHandle handle;
  TestStream stream;
  LtDescription operation{kCompute<T>, kScale<T>};
  LtLayout a{TypeOf<T>::cuda, m, k, m}, b{TypeOf<T>::cuda, k, n, k}, c{TypeOf<T>::cuda, m, n, m};
  TypedValues<T> a_data{quarters(m * k, 1)}, b_data{quarters(k * n, 2)}, c_data{quarters(m * n, 3)};
  DeviceValues<T> d_data{m * n}, bias{typed<T>(quarters(m, 4))};
  DeviceValues<char> workspace{1 << 16};
  typename TypeOf<T>::Scale alpha = 1, beta = 0;

  cublasStatus_t run() { return run(a, b, c, c, a_data, b_data, c_data, d_data); }
  cublasStatus_t run(cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb, cublasLtMatrixLayout_t lc,
                     cublasLtMatrixLayout_t ld, const void* pa, const void* pb, const void* pc, void* pd,
                     const cublasLtMatmulAlgo_t* algorithm = nullptr, void* w = nullptr, size_t w_bytes = 0) {
    return cublasLtMatmul(handle, operation, &alpha, pa, la, pb, lb, &beta, pc, lc, pd, ld, algorithm, w, w_bytes,
                          stream);
  }
  cublasStatus_t advise(const LtPreference& preference, int* count, cublasLtMatmulHeuristicResult_t* results,
                        int most = 1) {
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, most, results, count);
  }
  std::vector<double> result() { return doubles(d_data.values(stream)); }
};

inline std::vector<double> product_of(size_t m, size_t n, size_t k, const std::vector<double>& a,
                                      const std::vector<double>& b, bool ta = false, bool tb = false) {
  std::vector<double> d(m * n);
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i)
      for (size_t p = 0; p < k; ++p) d[j * m + i] += a[ta ? i * k + p : p * m + i] * b[tb ? p * n + j : j * k + p];
  return d;
}

}  // namespace simgpu_test
