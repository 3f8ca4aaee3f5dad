// cuBLASLt's matmul: numbers against plain loops, and everything that it refuses.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "refusals.h"
#include "typed_values.h"

using namespace simgpu_test;

namespace {

class Handle {
 public:
  Handle() { REQUIRE(cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS); }
  ~Handle() { cublasLtDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cublasLtHandle_t() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

class Layout {
 public:
  Layout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading_dimension) {
    REQUIRE(cublasLtMatrixLayoutCreate(&layout_, type, rows, columns, leading_dimension) == CUBLAS_STATUS_SUCCESS);
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
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

class Description {
 public:
  Description(cublasComputeType_t compute, cudaDataType scale) {
    REQUIRE(cublasLtMatmulDescCreate(&description_, compute, scale) == CUBLAS_STATUS_SUCCESS);
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  operator cublasLtMatmulDesc_t() const { return description_; }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }

 private:
  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  Preference() { REQUIRE(cublasLtMatmulPreferenceCreate(&preference_) == CUBLAS_STATUS_SUCCESS); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
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
  Handle handle;
  TestStream stream;
  Description operation{kCompute<T>, kScale<T>};
  Layout a{TypeOf<T>::cuda, m, k, m}, b{TypeOf<T>::cuda, k, n, k}, c{TypeOf<T>::cuda, m, n, m};
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
  cublasStatus_t advise(const Preference& preference, int* count, cublasLtMatmulHeuristicResult_t* results,
                        int most = 1) {
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, most, results, count);
  }
  std::vector<double> result() { return doubles(d_data.values(stream)); }
};

std::vector<double> reference(size_t m, size_t n, size_t k, const std::vector<double>& a, const std::vector<double>& b,
                              bool ta = false, bool tb = false) {
  std::vector<double> d(m * n);
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i)
      for (size_t p = 0; p < k; ++p) d[j * m + i] += a[ta ? i * k + p : p * m + i] * b[tb ? p * n + j : j * k + p];
  return d;
}

}  // namespace

TEST_CASE_TEMPLATE("products of all types and transposes, blended, are exact where sums are", T, float, double, __half,
                   __nv_bfloat16) {
  const size_t m = 21, n = 6, k = 70;
  Handle handle;
  TestStream stream;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      CAPTURE(ta);
      CAPTURE(tb);
      Description operation(kCompute<T>, kScale<T>);
      operation.set(CUBLASLT_MATMUL_DESC_TRANSA, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
      operation.set(CUBLASLT_MATMUL_DESC_TRANSB, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
      Layout la(TypeOf<T>::cuda, ta ? k : m, ta ? m : k, ta ? k : m);
      Layout lb(TypeOf<T>::cuda, tb ? n : k, tb ? k : n, tb ? n : k), lc(TypeOf<T>::cuda, m, n, m);
      const auto a = quarters(m * k, 5), b = quarters(k * n, 6), c = quarters(m * n, 7);
      TypedValues<T> da(a), db(b), dc(c);
      const typename TypeOf<T>::Scale alpha = 0.5, beta = -2;
      REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, db, lb, &beta, dc, lc, dc, lc, nullptr, nullptr, 0,
                             stream) == CUBLAS_STATUS_SUCCESS);
      auto expected = reference(m, n, k, a, b, ta, tb);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = 0.5 * expected[i] - 2 * c[i];
      CHECK(dc.read(stream) == as<T>(expected));
    }
}

TEST_CASE_TEMPLATE("half types may give floats", T, __half, __nv_bfloat16) {
  Product<T> p;
  Layout c(CUDA_R_32F, p.m, p.n, p.m);
  TypedValues<float> d(std::vector<double>(size_t(p.m * p.n)));
  REQUIRE(p.run(p.a, p.b, c, c, p.a_data, p.b_data, d, d) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.read(p.stream) ==
        reference(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream)));
}

TEST_CASE("float32 is rounded to TF32 where that is asked for, and only there") {
  // 1 + 2^-10 is a TF32 number, 1 + 2^-12 and 1 + 2^-11 (a tie) are rounded to 1, 1 + 3 * 2^-12 up.
  const std::vector<double> a{1 + 1. / 1024, 1 + 1. / 4096, 1 + 1. / 2048, 1 + 3. / 4096};
  const std::vector<double> rounded{1 + 1. / 1024, 1, 1, 1 + 1. / 1024};
  Handle handle;
  TestStream stream;
  TypedValues<float> da(a), one({1}), d(std::vector<double>(4));
  Layout la(CUDA_R_32F, 4, 1, 4), lb(CUDA_R_32F, 1, 1, 1);
  const float alpha = 1, beta = 0;
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    Description operation(compute, CUDA_R_32F);
    REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, one, lb, &beta, d, la, d, la, nullptr, nullptr, 0,
                           stream) == CUBLAS_STATUS_SUCCESS);
    CHECK(d.read(stream) == (compute == CUBLAS_COMPUTE_32F ? a : rounded));
  }
}

TEST_CASE("the library adds in another order where it has a workspace") {
  Product<float> p;
  std::vector<double> tiny(size_t(p.m * p.k));
  for (size_t i = 0; i < tiny.size(); ++i) tiny[i] = 1. / double(3 + i % 41);
  TypedValues<float> a(tiny), b(std::vector<double>(size_t(p.k * p.n), 1. / 3));
  REQUIRE(p.run(p.a, p.b, p.c, p.c, a, b, p.d_data, p.d_data) == CUBLAS_STATUS_SUCCESS);
  const auto straight = p.result();
  REQUIRE(p.run(p.a, p.b, p.c, p.c, a, b, p.d_data, p.d_data, nullptr, p.workspace, p.workspace.bytes()) ==
          CUBLAS_STATUS_SUCCESS);
  const auto split = p.result();
  CHECK(straight != split);
  for (size_t i = 0; i < split.size(); ++i) CHECK(split[i] == doctest::Approx(straight[i]).epsilon(1e-5));
}

TEST_CASE("matrices with gaps, row-major ones, and a C of its own") {
  const size_t m = 3, n = 4, k = 5;
  const auto a = quarters(m * k, 11), b = quarters(k * n, 12), c = quarters(m * n, 13);
  const auto strided = [](const std::vector<double>& dense, size_t rows, size_t columns, size_t gap, bool row_major) {
    const size_t inner = row_major ? columns : rows, outer = row_major ? rows : columns;
    std::vector<double> v(outer * (inner + gap), 99);
    for (size_t r = 0; r < rows; ++r)
      for (size_t s = 0; s < columns; ++s)
        v[row_major ? r * (inner + gap) + s : s * (inner + gap) + r] = dense[s * rows + r];
    return v;
  };
  Handle handle;
  TestStream stream;
  const float alpha = 1, beta = 1;
  for (const bool row_major : {false, true}) {
    CAPTURE(row_major);
    const int32_t order = row_major ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    Description operation(CUBLAS_COMPUTE_32F, CUDA_R_32F);
    Layout la(CUDA_R_32F, m, k, row_major ? k + 1 : m + 1), lb(CUDA_R_32F, k, n, row_major ? n + 2 : k + 2);
    Layout lc(CUDA_R_32F, m, n, row_major ? n + 3 : m + 3), ld(CUDA_R_32F, m, n, row_major ? n : m);
    for (Layout* l : {&la, &lb, &lc, &ld}) l->set(CUBLASLT_MATRIX_LAYOUT_ORDER, order);
    TypedValues<float> da(strided(a, m, k, 1, row_major)), db(strided(b, k, n, 2, row_major));
    TypedValues<float> dc(strided(c, m, n, 3, row_major));
    DeviceValues<float> d(m * n);
    REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, db, lb, &beta, dc, lc, d, ld, nullptr, nullptr, 0,
                           stream) == CUBLAS_STATUS_SUCCESS);
    auto expected = reference(m, n, k, a, b);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += c[i];
    CHECK(doubles(d.values(stream)) == strided(expected, m, n, 0, row_major));
  }
}

TEST_CASE("batches, one operand the same in all") {
  const size_t m = 3, n = 4, k = 5, batch = 3;
  const auto a = quarters(m * k * batch, 14), b = quarters(k * n, 15);
  Handle handle;
  TestStream stream;
  Description operation(CUBLAS_COMPUTE_32F, CUDA_R_32F);
  Layout la(CUDA_R_32F, m, k, m), lb(CUDA_R_32F, k, n, k), ld(CUDA_R_32F, m, n, m);
  la.batch(batch, m * k);
  lb.batch(batch, 0);
  ld.batch(batch, m * n);
  TypedValues<float> da(a), db(b);
  DeviceValues<float> d(m * n * batch);
  const float alpha = 1, beta = 0;
  REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, db, lb, &beta, d, ld, d, ld, nullptr, nullptr, 0, stream) ==
          CUBLAS_STATUS_SUCCESS);
  std::vector<double> expected;
  for (size_t i = 0; i < batch; ++i) {
    const auto one = reference(m, n, k, {a.begin() + int64_t(i * m * k), a.begin() + int64_t((i + 1) * m * k)}, b);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  CHECK(doubles(d.values(stream)) == expected);
}

TEST_CASE_TEMPLATE("epilogues add a bias and clip", T, float, double, __half, __nv_bfloat16) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}) {
    CAPTURE(int(epilogue));
    Product<T> p;
    p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    p.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(static_cast<T*>(p.bias)));
    p.beta = 1;
    REQUIRE(p.run() == CUBLAS_STATUS_SUCCESS);
    auto expected = reference(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream));
    const auto c = p.c_data.read(p.stream), bias = doubles(p.bias.values(p.stream));
    for (size_t i = 0; i < expected.size(); ++i) {
      double& e = expected[i];
      e += c[i];
      if (epilogue & CUBLASLT_EPILOGUE_BIAS) e += bias[i % size_t(p.m)];
      if (epilogue & CUBLASLT_EPILOGUE_RELU && e < 0) e = 0;
    }
    CHECK(p.result() == as<T>(expected));
  }
}

TEST_CASE("epilogues that store a bias's gradient") {
  Product<float> p;
  p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADA);
  p.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(static_cast<float*>(p.bias)));
  REQUIRE(p.run() == CUBLAS_STATUS_SUCCESS);
  const auto a = p.a_data.read(p.stream);
  std::vector<double> sums(size_t(p.m));
  for (size_t i = 0; i < a.size(); ++i) sums[i % size_t(p.m)] += a[i];
  CHECK(doubles(p.bias.values(p.stream)) == sums);

  Product<float> q;
  DeviceValues<float> gradient(size_t(q.n));
  Layout b(CUDA_R_32F, q.n, q.k, q.n);
  q.operation.set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
  q.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
  q.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(static_cast<float*>(gradient)));
  REQUIRE(q.run(q.a, b, q.c, q.c, q.a_data, q.b_data, q.d_data, q.d_data) == CUBLAS_STATUS_SUCCESS);
  const auto values = q.b_data.read(q.stream);
  sums.assign(size_t(q.n), 0);
  for (size_t i = 0; i < values.size(); ++i) sums[i % size_t(q.n)] += values[i];
  CHECK(doubles(gradient.values(q.stream)) == sums);
  q.beta = 1;  // the gradient would not be added to what is there
  CHECK(q.run(q.a, b, q.c, q.c, q.a_data, q.b_data, q.d_data, q.d_data) == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("without beta, what D held does not matter") {
  Product<float> p;  // fresh memory holds NaN
  REQUIRE(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data) == CUBLAS_STATUS_SUCCESS);
  CHECK(p.result() ==
        reference(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream)));
}

TEST_CASE("the heuristic offers what fits the workspace, and its algorithms compute") {
  Product<float> p;
  Preference preference;
  cublasLtMatmulHeuristicResult_t results[3];
  int count = 0;
  REQUIRE(p.advise(preference, &count, results, 3) == CUBLAS_STATUS_SUCCESS);
  CHECK(count == 1);
  CHECK(results[0].workspaceSize == 0);
  preference.workspace(1 << 16);
  REQUIRE(p.advise(preference, &count, results, 3) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 2);
  const size_t wanted = results[0].workspaceSize;
  CHECK(wanted > 0);
  const auto& algorithm = results[0].algo;
  const auto run = [&](void* workspace, size_t bytes) {
    return p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &algorithm, workspace, bytes);
  };
  REQUIRE(run(p.workspace, wanted) == CUBLAS_STATUS_SUCCESS);
  CHECK(p.result() ==
        reference(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream)));
  CHECK(run(p.workspace, wanted - 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(nullptr, wanted) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(p.workspace + 16, wanted) == CUBLAS_STATUS_INVALID_VALUE);  // it wants 256 bytes of alignment
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
  REQUIRE(p.advise(preference, &count, results, 3) == CUBLAS_STATUS_SUCCESS);
  CHECK(count == 1);
  CHECK(p.advise(preference, &count, results, 0) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("an algorithm is for pointers of the alignment that was stated, 256 bytes by default") {
  Product<float> p;
  DeviceValues<float> longer(size_t(p.m * p.k) + 64);
  Preference preference;
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  const auto run = [&](size_t offset) {
    return p.run(p.a, p.b, p.c, p.c, longer + offset, p.b_data, p.d_data, p.d_data, &result.algo);
  };
  REQUIRE(p.advise(preference, &count, &result) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(0) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(16) == CUBLAS_STATUS_NOT_SUPPORTED);  // 64 bytes
  preference.alignment(64);
  REQUIRE(p.advise(preference, &count, &result) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(16) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(17) == CUBLAS_STATUS_NOT_SUPPORTED);
  preference.alignment(2);  // less than an element
  CHECK(p.advise(preference, &count, &result) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(count == 0);
  p.stream.wait();
}

TEST_CASE("an algorithm is for one product") {
  Product<float> p;
  Preference preference;
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  REQUIRE(p.advise(preference, &count, &result) == CUBLAS_STATUS_SUCCESS);
  Layout shorter_b(CUDA_R_32F, p.k, p.n - 1, p.k), shorter_c(CUDA_R_32F, p.m, p.n - 1, p.m);
  CHECK(p.run(p.a, shorter_b, shorter_c, shorter_c, p.a_data, p.b_data, p.d_data, p.d_data, &result.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &result.algo) == CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulAlgo_t nothing{};
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &nothing) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("a bias keeps the alignment that the algorithm was chosen with") {
  Product<float> p;
  DeviceValues<float> bias(size_t(p.m) + 1);
  const auto set_bias = [&](float* b) { p.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(b)); };
  p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  CHECK(p.run() == CUBLAS_STATUS_INVALID_VALUE);  // none
  Preference preference;
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  set_bias(bias);
  REQUIRE(p.advise(preference, &count, &result) == CUBLAS_STATUS_SUCCESS);
  set_bias(bias + 1);
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &result.algo) == CUBLAS_STATUS_NOT_SUPPORTED);
  REQUIRE(p.advise(preference, &count, &result) == CUBLAS_STATUS_SUCCESS);
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &result.algo) == CUBLAS_STATUS_SUCCESS);
  p.stream.wait();
}

TEST_CASE("types that don't go together are refused") {
  const auto refused = [](cublasComputeType_t compute, cudaDataType scale, cudaDataType ab, cudaDataType cd) {
    Handle handle;
    TestStream stream;
    Description operation(compute, scale);
    Layout la(ab, 2, 2, 2), lc(cd, 2, 2, 2);
    DeviceValues<double> x(4), y(4);
    const double one = 1;
    return cublasLtMatmul(handle, operation, &one, x, la, x, la, &one, y, lc, y, lc, nullptr, nullptr, 0, stream) ==
           CUBLAS_STATUS_NOT_SUPPORTED;
  };
  CHECK(refused(CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_32F, CUDA_R_32F));
  CHECK(refused(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_64F, CUDA_R_64F));
  CHECK(refused(CUBLAS_COMPUTE_32F, CUDA_R_64F, CUDA_R_32F, CUDA_R_32F));
  CHECK(refused(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_16F));
  CHECK(refused(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF));
  CHECK(refused(CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F));
  CHECK(refused(CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F));
  CHECK(refused(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_8I, CUDA_R_32F));
  Product<__half> p;
  p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  p.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(static_cast<__half*>(p.bias)));
  p.operation.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(CUDA_R_32F));
  CHECK(p.run() == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("shapes, strides and leading dimensions that can't be are refused") {
  Product<float> p;
  const auto run = [&](cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                       cublasLtMatrixLayout_t d) { return p.run(a, b, c, d, p.a_data, p.b_data, p.d_data, p.d_data); };
  const auto layout = [](int64_t rows, int64_t columns, int64_t ld) {
    cublasLtMatrixLayout_t l = nullptr;
    cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, uint64_t(rows), uint64_t(columns), ld);
    return l;  // left to the process
  };
  CHECK(run(layout(p.m, p.k, p.m - 1), p.b, p.c, p.c) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(layout(p.m, p.k, -p.m), p.b, p.c, p.c) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(layout(p.m, 0, p.m), p.b, p.c, p.c) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(layout(p.m, p.k - 1, p.m), p.b, p.c, p.c) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(p.a, p.b, layout(p.m, p.n - 1, p.m), p.c) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(p.a, p.b, p.c, layout(p.m - 1, p.n, p.m)) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(p.a, p.b, layout(p.m, p.n, p.m + 1), p.c) == CUBLAS_STATUS_INVALID_VALUE);  // C is D
  CHECK(run(nullptr, p.b, p.c, p.c) == CUBLAS_STATUS_INVALID_VALUE);
  p.operation.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  CHECK(p.run() == CUBLAS_STATUS_INVALID_VALUE);
  p.operation.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_C);
  CHECK(p.run() == CUBLAS_STATUS_NOT_SUPPORTED);

  Product<float> q;
  q.a.batch(2, 0);
  CHECK(q.run() == CUBLAS_STATUS_INVALID_VALUE);  // the others have one matrix
  q.b.batch(2, 0);
  q.c.batch(2, q.m);
  CHECK(q.run() == CUBLAS_STATUS_INVALID_VALUE);  // D's overlap
}

TEST_CASE("what is not modelled is refused") {
  Product<float> p;
  const int32_t device = CUBLASLT_POINTER_MODE_DEVICE;
  const int8_t fast = 1;
  CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, 1) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, &device, 8) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, nullptr, 4) ==
        CUBLAS_STATUS_INVALID_VALUE);
  p.operation.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, device);
  CHECK(p.run() == CUBLAS_STATUS_NOT_SUPPORTED);
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_DRELU_BGRAD}) {
    Product<float> q;
    q.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    CHECK(q.run() == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  Product<float> r;
  r.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);  // wants a transposed B
  CHECK(r.run() == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("attributes can be read back") {
  Product<float> p;
  int32_t transpose = -1;
  size_t written = 0;
  p.operation.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  CHECK(cublasLtMatmulDescGetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4, &written) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(transpose == CUBLAS_OP_T);
  CHECK(written == 4);
  CHECK(cublasLtMatrixLayoutGetAttribute(p.a, CUBLASLT_MATRIX_LAYOUT_ROWS, nullptr, 0, &written) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(written == 8);
  CHECK(cublasLtMatrixLayoutGetAttribute(p.a, CUBLASLT_MATRIX_LAYOUT_ROWS, nullptr, 0, nullptr) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("null pointers, and handles and streams of other devices are refused") {
  Product<float> p;
  CHECK(p.run(p.a, p.b, p.c, p.c, nullptr, p.b_data, p.d_data, p.d_data) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmul(nullptr, p.operation, &p.alpha, p.a_data, p.a, p.b_data, p.b, &p.beta, p.d_data, p.c, p.d_data,
                       p.c, nullptr, nullptr, 0, p.stream) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasLtMatmul(p.handle, p.operation, nullptr, p.a_data, p.a, p.b_data, p.b, &p.beta, p.d_data, p.c, p.d_data,
                       p.c, nullptr, nullptr, 0, p.stream) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtDestroy(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK_CUDA(cudaSetDevice(1));
  CHECK(p.run() == CUBLAS_STATUS_EXECUTION_FAILED);  // the handle and the stream are of device 0
  CHECK(std::strstr(cublasLtGetStatusString(CUBLAS_STATUS_EXECUTION_FAILED), "device 1 is current"));
  Handle second;
  CHECK(cublasLtMatmul(second, p.operation, &p.alpha, p.a_data, p.a, p.b_data, p.b, &p.beta, p.d_data, p.c, p.d_data,
                       p.c, nullptr, nullptr, 0, p.stream) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_CUDA(cudaSetDevice(0));
}

TEST_CASE("a product is a node of a graph, and reads what its operands hold then") {
  Product<float> p;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeThreadLocal));
  REQUIRE(p.run() == CUBLAS_STATUS_SUCCESS);
  CHECK_CUDA(cudaStreamEndCapture(p.stream, &graph));
  size_t nodes = 0;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 1);
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  const auto b = p.b_data.read(p.stream);
  for (const uint32_t seed : {21u, 22u}) {
    const auto a = quarters(size_t(p.m * p.k), seed);
    const HostValues<float> staged(typed<float>(a));
    CHECK_CUDA(cudaMemcpyAsync(p.a_data, staged.data(), staged.bytes(), cudaMemcpyHostToDevice, p.stream));
    CHECK_CUDA(cudaGraphLaunch(exec, p.stream));
    CHECK(p.result() == reference(size_t(p.m), size_t(p.n), size_t(p.k), a, b));
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

TEST_CASE("fault: a matmul whose result overlaps an operand" * doctest::skip()) {
  Product<float> p;
  p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.a_data + 3, p.a_data + 3);
}
TEST_CASE("fault: a matmul with a destroyed layout" * doctest::skip()) {
  Product<float> p;
  cublasLtMatrixLayout_t l = nullptr;
  cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, uint64_t(p.m), uint64_t(p.k), p.m);
  cublasLtMatrixLayoutDestroy(l);
  p.run(l, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data);
}
TEST_CASE("fault: a matmul on the default stream" * doctest::skip()) {
  Product<float> p;
  cublasLtMatmul(p.handle, p.operation, &p.alpha, p.a_data, p.a, p.b_data, p.b, &p.beta, p.d_data, p.c, p.d_data, p.c,
                 nullptr, nullptr, 0, nullptr);
}

TEST_CASE("use that real hardware would corrupt on ends the process") {
  check_fault("fault: a matmul whose result overlaps an operand", "cublasLtMatmul: D overlaps A");
  check_fault("fault: a matmul with a destroyed layout", "was destroyed, or never created");
  check_fault("fault: a matmul on the default stream", "the default stream is used");
}
