#include <tandem/data/channel_stats.h>

#include <cmath>

namespace tandem::data {
namespace {

// Whole numbers: exact, and in one pass.
ChannelStats of_bytes(const Dataset& set, const Tensor& images) {
  const int64_t c = images.size(1), pixels = images.size(2) * images.size(3);
  std::vector<uint64_t> sum(static_cast<size_t>(c)), squares(static_cast<size_t>(c));
  for (int64_t i = 0; i < set.size(); ++i)
    for (int64_t k = 0; k < c; ++k) {
      const uint8_t* p = images.data<uint8_t>() + (set.byte_row(i) * c + k) * pixels;
      uint64_t s = 0, q = 0;
      for (int64_t j = 0; j < pixels; ++j) {
        s += p[j];
        q += uint64_t(p[j]) * p[j];
      }
      sum[size_t(k)] += s;
      squares[size_t(k)] += q;
    }
  ChannelStats stats;
  const double n = double(set.size()) * double(pixels);
  for (size_t k = 0; k < sum.size(); ++k) {
    const double mean = double(sum[k]) / n;
    stats.mean.push_back(mean / 255);
    stats.std.push_back(std::sqrt(std::max(0.0, double(squares[k]) / n - mean * mean)) / 255);
  }
  return stats;
}

// Item by item, merging means and squared deviations (Chan et al.), which stays accurate far from zero.
ChannelStats of_items(const Dataset& set) {
  std::vector<double> mean, squares;
  double n = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    const Tensor x = set.get(i).input;
    check<ShapeError>(x.dim() == 3, "[channel_stats] takes inputs [c,h,w], item ", i, " has ", x.shape());
    const size_t c = size_t(x.size(0)), pixels = size_t(x.size(1) * x.size(2));
    if (i == 0) {
      mean.resize(c);
      squares.resize(c);
    }
    check<ShapeError>(c == mean.size(), "[channel_stats] item ", i, " has ", c, " channels, item 0 has ", mean.size());
    const double scale = x.dtype() == Dtype::u8 ? 255 : 1, m = double(pixels);
    const std::vector<double> v = x.to_vector<double>();
    for (size_t k = 0; k < c; ++k) {
      double own = 0, deviations = 0;
      for (size_t j = 0; j < pixels; ++j) own += v[k * pixels + j] / scale;
      own /= m;
      for (size_t j = 0; j < pixels; ++j) deviations += std::pow(v[k * pixels + j] / scale - own, 2);
      const double delta = own - mean[k];
      mean[k] += delta * m / (n + m);
      squares[k] += deviations + delta * delta * n * m / (n + m);
    }
    n += m;
  }
  for (double& s : squares) s = std::sqrt(s / n);
  return {mean, squares};
}

}  // namespace

ChannelStats channel_stats(const Dataset& dataset) {
  check(dataset.size() > 0, "[channel_stats] of no items");
  const ByteImages* bytes = dataset.byte_images();
  if (!bytes || !bytes->images.device().is_cpu()) return of_items(dataset);
  check(bytes->images.size(2) * bytes->images.size(3) > 0, "[channel_stats] of images without pixels");
  return of_bytes(dataset, bytes->images);
}

}  // namespace tandem::data
