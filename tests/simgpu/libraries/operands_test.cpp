// What the checked mode finds in the operands of library calls: memory that nobody has written, waits that are missing.
#include <doctest/doctest.h>

#include "cublaslt_objects.h"
#include "cudnn_convolution_case.h"
#include "nccl_ranks.h"
#include "refusals.h"

using namespace simgpu_test;

TEST_CASE("fault: a matmul of memory that nobody has written" * doctest::skip()) {
  Product<float> p;
  DeviceValues<float> fresh(size_t(p.m * p.k));
  p.run(p.a, p.b, p.c, p.c, fresh, p.b_data, p.d_data, p.d_data);
  p.stream.wait();
}
TEST_CASE("fault: a matmul blended with what nobody has written" * doctest::skip()) {
  Product<float> p;
  p.beta = 1;
  p.run(p.a, p.b, p.c, p.c, p.a_data, p.b_data, p.d_data, p.d_data);
  p.stream.wait();
}
TEST_CASE("fault: a convolution of what another stream computes" * doctest::skip()) {
  ConvolutionCase<float> first(kPlainConvolution), second(kPlainConvolution);
  first.backward_data(0);
  second.forward(0, first.dx, second.dw, second.dy, nullptr, 0);
  second.dnn.stream.wait();
  first.dnn.stream.wait();
}
TEST_CASE("fault: two streams that share a workspace" * doctest::skip()) {
  ConvolutionCase<float> first(kPlainConvolution), second(kPlainConvolution);
  first.forward(1);
  second.forward(1, second.dx, second.dw, second.dy, first.workspace, first.workspace.bytes());
  second.dnn.stream.wait();
  first.dnn.stream.wait();
}
TEST_CASE("fault: a collective of what another stream computes" * doctest::skip()) {
  Ranks ranks(1);
  Product<float> p;
  p.run();
  p.stream.wait();
  p.run();
  ncclAllReduce(p.d_data, p.d_data, size_t(p.m), ncclFloat, ncclSum, ranks[0].comm, ranks[0].stream);
  ranks[0].stream.wait();
  p.stream.wait();
}

TEST_CASE("operands that nobody has written, or whose writers nobody waited for") {
  const char* checked = "tests_simgpu_libraries_checked";
  check_fault("fault: a matmul of memory that nobody has written", "uninitialised memory: 'cublasLtMatmul' reads",
              checked);
  check_fault("fault: a matmul blended with what nobody has written", "uninitialised memory: 'cublasLtMatmul' reads",
              checked);
  check_fault("fault: a convolution of what another stream computes", "missing wait", checked);
  check_fault("fault: two streams that share a workspace", "missing wait", checked);
  check_fault("fault: a collective of what another stream computes", "missing wait", checked);
}
