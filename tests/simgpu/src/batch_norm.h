/// The arithmetic of batch normalisation over rows of channels; sums are kept in double.
#pragma once
#include <cstddef>
#include <vector>

namespace simgpu {

struct Statistics {
  std::vector<double> mean, variance;  // by channel; the variance's divisor is the number of rows
};

template <class C>
Statistics statistics(const std::vector<C>& x, size_t channels);

/// scale * (x - mean) / sqrt(variance + epsilon) + bias; `inverse` holds the reciprocals of the roots.
template <class C>
std::vector<C> normalize(const std::vector<C>& x, const std::vector<double>& mean, const std::vector<double>& inverse,
                         const std::vector<C>& scale, const std::vector<C>& bias);

template <class C>
struct BatchNormGradients {
  std::vector<C> x, scale, bias;
};
template <class C>
BatchNormGradients<C> normalize_backward(const std::vector<C>& x, const std::vector<C>& dy,
                                         const std::vector<double>& mean, const std::vector<double>& inverse,
                                         const std::vector<C>& scale);

}  // namespace simgpu
