// Which algorithm for a convolution: workspace sizes, the heuristic, and the search by trying them.
#include <algorithm>
#include <cstring>

#include "cudnn_convolution_problem.h"
#include "library_stream.h"
#include "refusal.h"

namespace simgpu {
namespace {

template <class Performance>
std::vector<Performance> performances(const char* function, const ConvolutionProblem& p, size_t most_workspace) {
  std::vector<Performance> all;
  for (int a = 0; a < algorithm_count(p.direction); ++a) {
    Performance x{};
    x.algo = decltype(x.algo)(a);
    x.status = check_algorithm(function, p, a);
    x.time = -1;
    x.mathType = p.description.math_type;
    x.determinism = is_deterministic(p.direction, a) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    if (x.status == CUDNN_STATUS_SUCCESS) {
      x.memory = workspace_bytes(p, a);
      x.time = milliseconds(p, a);
      if (x.memory > most_workspace) x.status = CUDNN_STATUS_ALLOC_FAILED;
    }
    all.push_back(x);
  }
  std::stable_sort(all.begin(), all.end(), [](const Performance& a, const Performance& b) {
    const bool works = a.status == CUDNN_STATUS_SUCCESS;
    if (works != (b.status == CUDNN_STATUS_SUCCESS)) return works;
    return works && a.time < b.time;
  });
  return all;
}

template <class Performance>
cudnnStatus_t report(const char* function, const ConvolutionProblem& p, size_t most_workspace, int wanted, int* count,
                     Performance* to) {
  if (wanted < 1 || !count || !to)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: %d algorithms asked for, or no place for them", function, wanted);
  const auto all = performances<Performance>(function, p, most_workspace);
  *count = int(std::min(size_t(wanted), all.size()));
  std::copy_n(all.begin(), *count, to);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t count_algorithms(const char* function, cudnnHandle_t handle, Direction direction, int* count) {
  std::lock_guard lock(runtime_mutex());
  if (!dnn_handles().find(handle, function) || !count)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, or no place for the count", function);
  *count = algorithm_count(direction);
  return CUDNN_STATUS_SUCCESS;
}

template <class Performance>
cudnnStatus_t advise(const char* function, Direction direction, cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                     int wanted, int* count, Performance* to) {
  std::lock_guard lock(runtime_mutex());
  if (!dnn_handles().find(handle, function)) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle", function);
  ConvolutionProblem p;
  if (const auto status = describe_convolution(function, direction, x, w, convolution, y, &p)) return status;
  return report(function, p, ~size_t(0), wanted, count, to);
}

cudnnStatus_t ask_workspace(const char* function, Direction direction, cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                            cudnnTensorDescriptor_t y, int algorithm, size_t* bytes) {
  std::lock_guard lock(runtime_mutex());
  if (!dnn_handles().find(handle, function) || !bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, or no place for the size", function);
  ConvolutionProblem p;
  if (const auto status = describe_convolution(function, direction, x, w, convolution, y, &p)) return status;
  if (const auto status = check_algorithm(function, p, algorithm)) return status;
  *bytes = workspace_bytes(p, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

struct Trial {
  const void *input, *other_input;
  void *result, *workspace;
  size_t workspace_bytes;
};

/// The algorithms are run, as the library does: what the result and the workspace held is lost, and the stream is
/// waited for.
template <class Performance>
cudnnStatus_t search(const char* function, Direction direction, cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                     const Trial& t, int wanted, int* count, Performance* to) {
  cudaStream_t stream = nullptr;
  {
    std::lock_guard lock(runtime_mutex());
    const DnnHandle* h = dnn_handles().find(handle, function);
    if (!h) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle", function);
    ConvolutionProblem p;
    if (const auto status = describe_convolution(function, direction, x, w, convolution, y, &p)) return status;
    if (!t.input || !t.other_input || !t.result || (t.workspace_bytes && !t.workspace))
      return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a pointer is null", function);
    Stream* s = find_stream(function, h->device, h->stream);
    if (!s) return CUDNN_STATUS_EXECUTION_FAILED;
    if (is_capturing(*s)) fail("%s: algorithms can't be timed while a graph is captured", function);
    if (const auto status = report(function, p, t.workspace_bytes, wanted, count, to)) return status;
    const TensorDescription& result = direction == Direction::forward         ? p.y
                                      : direction == Direction::backward_data ? p.x
                                                                              : p.w.tensor;
    Operation o{.name = function, .step = [t, result] {
                  const std::vector<float> nan(size_t(result.elements()), __builtin_nanf(""));
                  const std::vector<double> nan64(nan.begin(), nan.end());
                  if (result.element == Element::f64)
                    store(result, t.result, nan64, 1, 0);
                  else
                    store(result, t.result, nan, 1, 0);
                  if (t.workspace_bytes) std::memset(t.workspace, 0xff, t.workspace_bytes);
                  return Step::done;
                }};
    result.footprint(t.result).written_by(o);
    Footprint(t.workspace, t.workspace_bytes).written_by(o);
    submit(*s, std::move(o));
    stream = h->stream;
  }
  return cudaStreamSynchronize(stream) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return count_algorithms(__func__, handle, Direction::forward, count);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return count_algorithms(__func__, handle, Direction::backward_data, count);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return count_algorithms(__func__, handle, Direction::backward_filter, count);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t y, const int wanted, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* to) {
  return advise(__func__, Direction::forward, handle, x, w, convolution, y, wanted, count, to);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t dy,
                                                          const cudnnConvolutionDescriptor_t convolution,
                                                          const cudnnTensorDescriptor_t dx, const int wanted,
                                                          int* count, cudnnConvolutionBwdDataAlgoPerf_t* to) {
  return advise(__func__, Direction::backward_data, handle, dx, w, convolution, dy, wanted, count, to);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t dy,
                                                            const cudnnConvolutionDescriptor_t convolution,
                                                            const cudnnFilterDescriptor_t dw, const int wanted,
                                                            int* count, cudnnConvolutionBwdFilterAlgoPerf_t* to) {
  return advise(__func__, Direction::backward_filter, handle, x, dw, convolution, dy, wanted, count, to);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t convolution,
                                                      const cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return ask_workspace(__func__, Direction::forward, handle, x, w, convolution, y, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                           const cudnnTensorDescriptor_t dy,
                                                           const cudnnConvolutionDescriptor_t convolution,
                                                           const cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return ask_workspace(__func__, Direction::backward_data, handle, dx, w, convolution, dy, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                             const cudnnTensorDescriptor_t dy,
                                                             const cudnnConvolutionDescriptor_t convolution,
                                                             const cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return ask_workspace(__func__, Direction::backward_filter, handle, x, dw, convolution, dy, algorithm, bytes);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t handle, const cudnnTensorDescriptor_t x_description,
                                                     const void* x, const cudnnFilterDescriptor_t w_description,
                                                     const void* w, const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t y_description, void* y,
                                                     const int wanted, int* count, cudnnConvolutionFwdAlgoPerf_t* to,
                                                     void* workspace, size_t workspace_bytes) {
  return search(__func__, Direction::forward, handle, x_description, w_description, convolution, y_description,
                {x, w, y, workspace, workspace_bytes}, wanted, count, to);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w_description, const void* w,
    const cudnnTensorDescriptor_t dy_description, const void* dy, const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t dx_description, void* dx, const int wanted, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* to, void* workspace, size_t workspace_bytes) {
  return search(__func__, Direction::backward_data, handle, dx_description, w_description, convolution, dy_description,
                {w, dy, dx, workspace, workspace_bytes}, wanted, count, to);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x_description, const void* x,
    const cudnnTensorDescriptor_t dy_description, const void* dy, const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t dw_description, void* dw, const int wanted, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* to, void* workspace, size_t workspace_bytes) {
  return search(__func__, Direction::backward_filter, handle, x_description, dw_description, convolution,
                dy_description, {x, dy, dw, workspace, workspace_bytes}, wanted, count, to);
}

}  // extern "C"
