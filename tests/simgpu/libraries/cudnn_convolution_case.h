/// A convolution for tests of cuDNN: descriptors, values on the device, and plain loops in double.
#pragma once
#include <vector>

#include "cudnn_objects.h"

namespace simgpu_test {

struct ConvolutionShape {
  Sizes x;
  int k, r, s, pad, stride, dilation, groups;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

  Sizes w() const { return {k, x.c / groups, r, s}; }
  Sizes y() const {
    const auto out = [&](int n, int window) { return (n + 2 * pad - dilation * (window - 1) - 1) / stride + 1; };
    return {x.n, k, out(x.h, r), out(x.w, s)};
  }
};

enum class ConvolutionPass { forward, data, filter };

/// The sums of one pass; the two operands are those that the pass reads, in the order x, w, y.
inline std::vector<double> convolved(const ConvolutionShape& t, ConvolutionPass pass, const std::vector<double>& first,
                                     const std::vector<double>& second) {
  const Sizes w = t.w(), y = t.y();
  std::vector<double> result((pass == ConvolutionPass::forward ? y
                              : pass == ConvolutionPass::data  ? t.x
                                                               : w)
                                 .elements());
  for (int n = 0; n < y.n; ++n)
    for (int k = 0; k < y.c; ++k)
      for (int p = 0; p < y.h; ++p)
        for (int q = 0; q < y.w; ++q)
          for (int c = 0; c < w.c; ++c)
            for (int r = 0; r < w.h; ++r)
              for (int s = 0; s < w.w; ++s) {
                const bool turn = t.mode == CUDNN_CONVOLUTION;
                const int ih = p * t.stride - t.pad + r * t.dilation, iw = q * t.stride - t.pad + s * t.dilation;
                if (ih < 0 || ih >= t.x.h || iw < 0 || iw >= t.x.w) continue;
                const int channel = k / (t.k / t.groups) * w.c + c;
                const size_t ix = t.x.at(t.format, n, channel, ih, iw), iy = y.at(t.format, n, k, p, q);
                const size_t filter = w.at(t.format, k, c, turn ? w.h - 1 - r : r, turn ? w.w - 1 - s : s);
                if (pass == ConvolutionPass::forward) result[iy] += first[ix] * second[filter];
                if (pass == ConvolutionPass::data) result[ix] += first[filter] * second[iy];
                if (pass == ConvolutionPass::filter) result[filter] += first[ix] * second[iy];
              }
  return result;
}

/// A convolution's descriptors and values on the device.
template <class T>
struct ConvolutionCase {
  ConvolutionShape shape;
  Dnn dnn;
  Tensor x{shape.format, TypeOf<T>::dnn, shape.x.n, shape.x.c, shape.x.h, shape.x.w};
  Filter w{shape.format, TypeOf<T>::dnn, shape.k, shape.w().c, shape.r, shape.s};
  Convolution convolution;
  Tensor y{shape.format, TypeOf<T>::dnn, shape.y().n, shape.y().c, shape.y().h, shape.y().w};
  std::vector<double> x_values = quarters(shape.x.elements(), 1), w_values = quarters(shape.w().elements(), 2),
                      y_values = quarters(shape.y().elements(), 3);
  TypedValues<T> dx{x_values}, dw{w_values}, dy{y_values};
  DeviceValues<char> workspace{1 << 20};
  typename TypeOf<T>::Scale alpha = 1, beta = 0;

  explicit ConvolutionCase(const ConvolutionShape& s) : shape(s) {
    constexpr auto compute = std::is_same_v<T, double> ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    REQUIRE(cudnnSetConvolution2dDescriptor(convolution, s.pad, s.pad, s.stride, s.stride, s.dilation, s.dilation,
                                            s.mode, compute) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetConvolutionGroupCount(convolution, s.groups) == CUDNN_STATUS_SUCCESS);
  }

  cudnnStatus_t forward(int algorithm) { return forward(algorithm, dx, dw, dy, workspace, workspace.bytes()); }
  cudnnStatus_t forward(int algorithm, const void* from, const void* filter, void* to, void* w_data, size_t bytes) {
    return cudnnConvolutionForward(dnn, &alpha, x, from, w, filter, convolution, cudnnConvolutionFwdAlgo_t(algorithm),
                                   w_data, bytes, &beta, y, to);
  }
  cudnnStatus_t backward_data(int algorithm) {
    return cudnnConvolutionBackwardData(dnn, &alpha, w, dw, y, dy, convolution,
                                        cudnnConvolutionBwdDataAlgo_t(algorithm), workspace, workspace.bytes(), &beta,
                                        x, dx);
  }
  cudnnStatus_t backward_filter(int algorithm) {
    return cudnnConvolutionBackwardFilter(dnn, &alpha, x, dx, y, dy, convolution,
                                          cudnnConvolutionBwdFilterAlgo_t(algorithm), workspace, workspace.bytes(),
                                          &beta, w, dw);
  }

  /// Runs the pass and compares with the convolved, blended with what the result held.
  void check(ConvolutionPass pass, int algorithm) {
    const auto& before = pass == ConvolutionPass::forward ? y_values
                         : pass == ConvolutionPass::data  ? x_values
                                                          : w_values;
    auto expected = pass == ConvolutionPass::forward ? convolved(shape, pass, x_values, w_values)
                    : pass == ConvolutionPass::data  ? convolved(shape, pass, w_values, y_values)
                                                     : convolved(shape, pass, x_values, y_values);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = double(alpha) * expected[i] + double(beta) * before[i];
    REQUIRE((pass == ConvolutionPass::forward ? forward(algorithm)
             : pass == ConvolutionPass::data  ? backward_data(algorithm)
                                              : backward_filter(algorithm)) == CUDNN_STATUS_SUCCESS);
    const auto& result = pass == ConvolutionPass::forward ? dy : pass == ConvolutionPass::data ? dx : dw;
    CHECK(result.read(dnn.stream) == as<T>(expected));
  }
};

inline const ConvolutionShape kPlainConvolution{{2, 4, 6, 7}, 6, 3, 3, 1, 1, 1, 1};

}  // namespace simgpu_test
