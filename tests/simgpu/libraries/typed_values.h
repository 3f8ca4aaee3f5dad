/// Numbers of the types that the libraries take, for tests: made from doubles, rounded once. Values of few bits, whose
/// sums and products are exact, let results be compared bit by bit.
#pragma once
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>
#include <nccl.h>
#include <tests/simgpu/runtime/device_values.h>

#include <vector>

namespace simgpu_test {

template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  using Scale = float;
  static constexpr auto cuda = CUDA_R_32F;
  static constexpr auto dnn = CUDNN_DATA_FLOAT;
  static constexpr auto nccl = ncclFloat32;
  static constexpr double unit = 1. / (1 << 23);  // the distance of 1 to the next number
};
template <>
struct TypeOf<double> {
  using Scale = double;
  static constexpr auto cuda = CUDA_R_64F;
  static constexpr auto dnn = CUDNN_DATA_DOUBLE;
  static constexpr auto nccl = ncclFloat64;
  static constexpr double unit = 1. / (1ll << 52);
};
template <>
struct TypeOf<__half> {
  using Scale = float;
  static constexpr auto cuda = CUDA_R_16F;
  static constexpr auto dnn = CUDNN_DATA_HALF;
  static constexpr auto nccl = ncclFloat16;
  static constexpr double unit = 1. / (1 << 10);
};
template <>
struct TypeOf<__nv_bfloat16> {
  using Scale = float;
  static constexpr auto cuda = CUDA_R_16BF;
  static constexpr auto dnn = CUDNN_DATA_BFLOAT16;
  static constexpr auto nccl = ncclBfloat16;
  static constexpr double unit = 1. / (1 << 7);
};

template <class T>
double to_double(T x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(x);
  } else {
    return double(x);
  }
}

template <class T>
T from_double(double x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(float(x));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(float(x));
  } else {
    return T(x);
  }
}

template <class T>
std::vector<T> typed(const std::vector<double>& values) {
  std::vector<T> v;
  for (const double x : values) v.push_back(from_double<T>(x));
  return v;
}
template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> v;
  for (const T x : values) v.push_back(to_double(x));
  return v;
}

/// The doubles as type T holds them.
template <class T>
std::vector<double> as(const std::vector<double>& values) {
  return doubles(typed<T>(values));
}

/// Multiples of 1/4 from -2 to 2 that look irregular; another seed, others.
inline std::vector<double> quarters(size_t n, uint32_t seed) {
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    v.push_back(0.25 * (double((seed >> 16) % 17) - 8));
  }
  return v;
}

/// Doubles on a device, as type T.
template <class T>
class TypedValues : public DeviceValues<T> {
 public:
  explicit TypedValues(const std::vector<double>& values) : DeviceValues<T>(typed<T>(values)) {}
  std::vector<double> read(cudaStream_t stream) const { return doubles(this->values(stream)); }
};

}  // namespace simgpu_test
