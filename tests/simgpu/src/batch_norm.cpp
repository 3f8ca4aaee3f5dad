#include "batch_norm.h"

namespace simgpu {

template <class C>
Statistics statistics(const std::vector<C>& x, size_t channels) {
  Statistics s{std::vector<double>(channels), std::vector<double>(channels)};
  const double rows = double(x.size() / channels);
  for (size_t at = 0; at < x.size(); at += channels)
    for (size_t c = 0; c < channels; ++c) s.mean[c] += x[at + c];
  for (double& m : s.mean) m /= rows;
  for (size_t at = 0; at < x.size(); at += channels)
    for (size_t c = 0; c < channels; ++c) {
      const double d = x[at + c] - s.mean[c];
      s.variance[c] += d * d;
    }
  for (double& v : s.variance) v /= rows;
  return s;
}

template <class C>
std::vector<C> normalize(const std::vector<C>& x, const std::vector<double>& mean, const std::vector<double>& inverse,
                         const std::vector<C>& scale, const std::vector<C>& bias) {
  const size_t channels = mean.size();
  std::vector<C> y(x.size());
  for (size_t at = 0; at < x.size(); at += channels)
    for (size_t c = 0; c < channels; ++c)
      y[at + c] = C((double(x[at + c]) - mean[c]) * inverse[c] * double(scale[c]) + double(bias[c]));
  return y;
}

template <class C>
BatchNormGradients<C> normalize_backward(const std::vector<C>& x, const std::vector<C>& dy,
                                         const std::vector<double>& mean, const std::vector<double>& inverse,
                                         const std::vector<C>& scale) {
  const size_t channels = mean.size();
  const double rows = double(x.size() / channels);
  std::vector<double> bias(channels), by_x(channels);
  for (size_t at = 0; at < x.size(); at += channels)
    for (size_t c = 0; c < channels; ++c) {
      bias[c] += dy[at + c];
      by_x[c] += double(dy[at + c]) * (double(x[at + c]) - mean[c]) * inverse[c];
    }
  BatchNormGradients<C> g{std::vector<C>(x.size()), {by_x.begin(), by_x.end()}, {bias.begin(), bias.end()}};
  for (size_t at = 0; at < x.size(); at += channels)
    for (size_t c = 0; c < channels; ++c) {
      const double centred = (double(x[at + c]) - mean[c]) * inverse[c];
      g.x[at + c] = C(double(scale[c]) * inverse[c] * (double(dy[at + c]) - (bias[c] + centred * by_x[c]) / rows));
    }
  return g;
}

template Statistics statistics(const std::vector<float>&, size_t);
template Statistics statistics(const std::vector<double>&, size_t);
template std::vector<float> normalize(const std::vector<float>&, const std::vector<double>&, const std::vector<double>&,
                                      const std::vector<float>&, const std::vector<float>&);
template std::vector<double> normalize(const std::vector<double>&, const std::vector<double>&,
                                       const std::vector<double>&, const std::vector<double>&,
                                       const std::vector<double>&);
template BatchNormGradients<float> normalize_backward(const std::vector<float>&, const std::vector<float>&,
                                                      const std::vector<double>&, const std::vector<double>&,
                                                      const std::vector<float>&);
template BatchNormGradients<double> normalize_backward(const std::vector<double>&, const std::vector<double>&,
                                                       const std::vector<double>&, const std::vector<double>&,
                                                       const std::vector<double>&);

}  // namespace simgpu
