/// channel_stats: what Normalize wants to know about a dataset.
#pragma once
#include <tandem/data/dataset.h>

namespace tandem::data {

struct ChannelStats {
  std::vector<double> mean, std;  // per channel
};

/// Mean and deviation (of all pixels, not the mean of the images' own) of each channel of a dataset's inputs [c,h,w];
/// bytes are divided by 255 first. Throws Error for a dataset without pixels, ShapeError for other inputs.
TANDEM_API ChannelStats channel_stats(const Dataset& dataset);

}  // namespace tandem::data
