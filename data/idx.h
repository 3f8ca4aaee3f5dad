/// Not installed: the IDX format of MNIST and its kin, bytes only, gzipped or not.
#pragma once
#include <tandem/core/tensor.h>

#include <filesystem>

namespace tandem::data {

/// The bytes of a file of `n_dims` dimensions, u8. Sizes are checked against the file before memory is taken. Throws
/// IoError for anything else, a byte too many included.
Tensor read_idx(const std::filesystem::path& file, int n_dims);

}  // namespace tandem::data
