/// The arithmetic of two-dimensional convolutions, by matrix products over unfolded images.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu {

/// Tensors are dense: x [n,h,w,c], y [n,p,q,k], w [k,r,s,c/groups], dx, dy and dw like them.
struct ConvolutionShape {
  int64_t n, c, h, w, k, r, s, p, q;
  int64_t pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;

  int64_t x_elements() const { return n * h * w * c; }
  int64_t y_elements() const { return n * p * q * k; }
  int64_t w_elements() const { return k * r * s * (c / groups); }
  double flops() const { return 2. * double(y_elements()) * double(r * s) * double(c / groups); }
};

template <class C>
std::vector<C> convolve(const ConvolutionShape& t, const std::vector<C>& x, const std::vector<C>& w);

/// The images' own order does not matter here; `turn` rotates the order in which their parts are added, as an algorithm
/// does that adds them by atomic operations. 0: the same bits each time.
template <class C>
std::vector<C> convolve_backward_data(const ConvolutionShape& t, const std::vector<C>& w, const std::vector<C>& dy,
                                      size_t turn);
template <class C>
std::vector<C> convolve_backward_filter(const ConvolutionShape& t, const std::vector<C>& x, const std::vector<C>& dy,
                                        size_t turn);

extern template std::vector<float> convolve(const ConvolutionShape&, const std::vector<float>&,
                                            const std::vector<float>&);
extern template std::vector<double> convolve(const ConvolutionShape&, const std::vector<double>&,
                                             const std::vector<double>&);
extern template std::vector<float> convolve_backward_data(const ConvolutionShape&, const std::vector<float>&,
                                                          const std::vector<float>&, size_t);
extern template std::vector<double> convolve_backward_data(const ConvolutionShape&, const std::vector<double>&,
                                                           const std::vector<double>&, size_t);
extern template std::vector<float> convolve_backward_filter(const ConvolutionShape&, const std::vector<float>&,
                                                            const std::vector<float>&, size_t);
extern template std::vector<double> convolve_backward_filter(const ConvolutionShape&, const std::vector<double>&,
                                                             const std::vector<double>&, size_t);

}  // namespace simgpu
