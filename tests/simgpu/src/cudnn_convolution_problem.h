/// A convolution as cuDNN's descriptors describe it, checked; and which algorithms compute it, with what workspace.
#pragma once
#include "convolution.h"
#include "cudnn_descriptors.h"

namespace simgpu {

enum class Direction { forward, backward_data, backward_filter };

struct ConvolutionProblem {
  Direction direction = Direction::forward;
  TensorDescription x, y;
  FilterDescription w;
  ConvolutionDescription description;
  ConvolutionShape shape{};

  Element element() const { return x.element; }
  /// Every math type but FMA allows tensor cores, which take float32 rounded to 10 bits of mantissa.
  bool tf32() const { return element() == Element::f32 && description.math_type != CUDNN_FMA_MATH; }
};

/// The sizes that follow from x, the filter and the convolution.
cudnnStatus_t describe_shape(const char* function, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                             cudnnConvolutionDescriptor_t convolution, ConvolutionShape* shape);

/// y is the result of the forward direction, whatever the direction: dy, of the backward ones.
cudnnStatus_t describe_convolution(const char* function, Direction direction, cudnnTensorDescriptor_t x,
                                   cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                                   cudnnTensorDescriptor_t y, ConvolutionProblem* problem);

/// NOT_SUPPORTED where the algorithm does not compute it, by the tables in the library's documentation.
cudnnStatus_t check_algorithm(const char* function, const ConvolutionProblem& p, int algorithm);

int algorithm_count(Direction direction);
size_t workspace_bytes(const ConvolutionProblem& p, int algorithm);
bool is_deterministic(Direction direction, int algorithm);
/// By a simple model: what the search for the best algorithm reports.
float milliseconds(const ConvolutionProblem& p, int algorithm);

}  // namespace simgpu
