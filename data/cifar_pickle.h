/// Not installed: reads a file of the folder cifar-10-batches-py, a pickle of protocol 2 as Python 2 wrote it. Nothing
/// in it is executed: of pickle's language the reader knows the few words that these files are made of, and a name in
/// it is compared with the three that NumPy's arrays need, never looked up.
#pragma once
#include <tandem/core/export.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::data {

struct CifarPickle {
  int64_t rows = 0;
  std::span<const uint8_t> pixels;  // [rows,3072], inside the bytes that were read
  std::vector<int64_t> labels;      // [rows]
};

/// `name` is for errors. Throws IoError for anything that is not such a file.
TANDEM_API CifarPickle read_cifar_pickle(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace tandem::data
