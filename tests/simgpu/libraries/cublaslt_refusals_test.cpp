// cuBLASLt's matmul: which algorithms it offers for what, and everything that it refuses.
#include <doctest/doctest.h>

#include <cstring>

#include "cublaslt_objects.h"
#include "refusals.h"

using namespace simgpu_test;

TEST_CASE("the heuristic offers what fits the workspace, and its algorithms compute") {
  Product<float> p;
  LtPreference preference;
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
        product_of(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream)));
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
  TypedValues<float> longer(quarters(size_t(p.m * p.k) + 64, 5));
  LtPreference preference;
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
  LtPreference preference;
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  REQUIRE(p.advise(preference, &count, &result) == CUBLAS_STATUS_SUCCESS);
  LtLayout shorter_b(CUDA_R_32F, p.k, p.n - 1, p.k), shorter_c(CUDA_R_32F, p.m, p.n - 1, p.m);
  CHECK(p.run(p.a, shorter_b, shorter_c, shorter_c, p.a_data, p.b_data, p.d_data, p.d_data, &result.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &result.algo) == CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulAlgo_t nothing{};
  CHECK(p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data, &nothing) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("a bias keeps the alignment that the algorithm was chosen with") {
  Product<float> p;
  TypedValues<float> bias(quarters(size_t(p.m) + 1, 5));
  const auto set_bias = [&](float* b) { p.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(b)); };
  p.operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  CHECK(p.run() == CUBLAS_STATUS_INVALID_VALUE);  // none
  LtPreference preference;
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
    LtHandle handle;
    TestStream stream;
    LtDescription operation(compute, scale);
    LtLayout la(ab, 2, 2, 2), lc(cd, 2, 2, 2);
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
  LtHandle second;
  CHECK(cublasLtMatmul(second, p.operation, &p.alpha, p.a_data, p.a, p.b_data, p.b, &p.beta, p.d_data, p.c, p.d_data,
                       p.c, nullptr, nullptr, 0, p.stream) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_CUDA(cudaSetDevice(0));
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
