// cuBLASLt's matmul: numbers against plain loops, for all types, layouts and epilogues.
#include <doctest/doctest.h>

#include "cublaslt_objects.h"

using namespace simgpu_test;

TEST_CASE_TEMPLATE("products of all types and transposes, blended, are exact where sums are", T, float, double, __half,
                   __nv_bfloat16) {
  const size_t m = 21, n = 6, k = 70;
  LtHandle handle;
  TestStream stream;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      CAPTURE(ta);
      CAPTURE(tb);
      LtDescription operation(kCompute<T>, kScale<T>);
      operation.set(CUBLASLT_MATMUL_DESC_TRANSA, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
      operation.set(CUBLASLT_MATMUL_DESC_TRANSB, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
      LtLayout la(TypeOf<T>::cuda, ta ? k : m, ta ? m : k, ta ? k : m);
      LtLayout lb(TypeOf<T>::cuda, tb ? n : k, tb ? k : n, tb ? n : k), lc(TypeOf<T>::cuda, m, n, m);
      const auto a = quarters(m * k, 5), b = quarters(k * n, 6), c = quarters(m * n, 7);
      TypedValues<T> da(a), db(b), dc(c);
      const typename TypeOf<T>::Scale alpha = 0.5, beta = -2;
      REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, db, lb, &beta, dc, lc, dc, lc, nullptr, nullptr, 0,
                             stream) == CUBLAS_STATUS_SUCCESS);
      auto expected = product_of(m, n, k, a, b, ta, tb);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = 0.5 * expected[i] - 2 * c[i];
      CHECK(dc.read(stream) == as<T>(expected));
    }
}

TEST_CASE_TEMPLATE("half types may give floats", T, __half, __nv_bfloat16) {
  Product<T> p;
  LtLayout c(CUDA_R_32F, p.m, p.n, p.m);
  TypedValues<float> d(std::vector<double>(size_t(p.m * p.n)));
  REQUIRE(p.run(p.a, p.b, c, c, p.a_data, p.b_data, d, d) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.read(p.stream) ==
        product_of(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream)));
}

TEST_CASE("a large product, which is computed in several blocks") {
  const size_t m = 600, n = 500, k = 3;
  LtHandle handle;
  TestStream stream;
  LtDescription operation(CUBLAS_COMPUTE_32F, CUDA_R_32F);
  LtLayout la(CUDA_R_32F, m, k, m), lb(CUDA_R_32F, k, n, k), lc(CUDA_R_32F, m, n, m);
  const auto a = quarters(m * k, 8), b = quarters(k * n, 9), c = quarters(m * n, 10);
  TypedValues<float> da(a), db(b), dc(c);
  const float alpha = 1, beta = 1;
  REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, db, lb, &beta, dc, lc, dc, lc, nullptr, nullptr, 0,
                         stream) == CUBLAS_STATUS_SUCCESS);
  auto expected = product_of(m, n, k, a, b);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += c[i];
  CHECK(dc.read(stream) == expected);
}

TEST_CASE("float32 is rounded to TF32 where that is asked for, and only there") {
  // 1 + 2^-10 is a TF32 number, 1 + 2^-12 and 1 + 2^-11 (a tie) are rounded to 1, 1 + 3 * 2^-12 up.
  const std::vector<double> a{1 + 1. / 1024, 1 + 1. / 4096, 1 + 1. / 2048, 1 + 3. / 4096};
  const std::vector<double> rounded{1 + 1. / 1024, 1, 1, 1 + 1. / 1024};
  LtHandle handle;
  TestStream stream;
  TypedValues<float> da(a), one({1}), d(std::vector<double>(4));
  LtLayout la(CUDA_R_32F, 4, 1, 4), lb(CUDA_R_32F, 1, 1, 1);
  const float alpha = 1, beta = 0;
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    LtDescription operation(compute, CUDA_R_32F);
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
  LtHandle handle;
  TestStream stream;
  const float alpha = 1, beta = 1;
  for (const bool row_major : {false, true}) {
    CAPTURE(row_major);
    const int32_t order = row_major ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    LtDescription operation(CUBLAS_COMPUTE_32F, CUDA_R_32F);
    LtLayout la(CUDA_R_32F, m, k, row_major ? k + 1 : m + 1), lb(CUDA_R_32F, k, n, row_major ? n + 2 : k + 2);
    LtLayout lc(CUDA_R_32F, m, n, row_major ? n + 3 : m + 3), ld(CUDA_R_32F, m, n, row_major ? n : m);
    for (LtLayout* l : {&la, &lb, &lc, &ld}) l->set(CUBLASLT_MATRIX_LAYOUT_ORDER, order);
    TypedValues<float> da(strided(a, m, k, 1, row_major)), db(strided(b, k, n, 2, row_major));
    TypedValues<float> dc(strided(c, m, n, 3, row_major));
    DeviceValues<float> d(m * n);
    REQUIRE(cublasLtMatmul(handle, operation, &alpha, da, la, db, lb, &beta, dc, lc, d, ld, nullptr, nullptr, 0,
                           stream) == CUBLAS_STATUS_SUCCESS);
    auto expected = product_of(m, n, k, a, b);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += c[i];
    CHECK(doubles(d.values(stream)) == strided(expected, m, n, 0, row_major));
  }
}

TEST_CASE("batches, one operand the same in all") {
  const size_t m = 3, n = 4, k = 5, batch = 3;
  const auto a = quarters(m * k * batch, 14), b = quarters(k * n, 15);
  LtHandle handle;
  TestStream stream;
  LtDescription operation(CUBLAS_COMPUTE_32F, CUDA_R_32F);
  LtLayout la(CUDA_R_32F, m, k, m), lb(CUDA_R_32F, k, n, k), ld(CUDA_R_32F, m, n, m);
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
    const auto one = product_of(m, n, k, {a.begin() + int64_t(i * m * k), a.begin() + int64_t((i + 1) * m * k)}, b);
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
    auto expected = product_of(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream));
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
  LtLayout b(CUDA_R_32F, q.n, q.k, q.n);
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
        product_of(size_t(p.m), size_t(p.n), size_t(p.k), p.a_data.read(p.stream), p.b_data.read(p.stream)));
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
    CHECK(p.result() == product_of(size_t(p.m), size_t(p.n), size_t(p.k), a, b));
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
}
