/// Plain tensors in a file: the safetensors format (8 bytes of header length, a JSON header, raw little-endian values).
/// What is written is read by every other implementation and the reverse. A file is read as if an enemy had written it:
/// every length and offset is checked against the file's size before anything is allocated.
#pragma once
#include <tandem/core/tensor.h>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  NamedTensors tensors;  // in the order in which the header names them
  Metadata metadata;     // the header's `__metadata__`

  /// The tensor of that name, or an undefined one.
  TANDEM_API Tensor find(const std::string& name) const;
};

/// What a header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  Dtype dtype{};
  Dims shape;
  uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;
  Metadata metadata;
  uint64_t data_begin = 0;  // bytes from the start of the file to the first value
  std::string checksum;     // of the values and of all that the header says beside; empty in files of other programs
};

/// Writes tensors of any dtype, device, layout and strides, as values in row-major order, to a new file that takes the
/// place of the one at `path` only when it is whole and on the disk (see AtomicFile). Names are kept in order; values
/// lie in the file by falling element size, so that each is aligned for readers that map it. A checksum of all of it
/// goes along as the metadata text `tandem.checksum`, which other readers pass over. Throws Error for an undefined
/// tensor, a name used twice or reserved, or text that is not UTF-8; IoError where the disk is full or the like, and
/// then the file that was there is untouched.
TANDEM_API void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

/// Reads all of a file onto a device. Throws IoError naming the file and what is wrong with it; where it has a checksum
/// (any that `save` wrote), changed values are found too.
TANDEM_API SafetensorsFile load(const std::string& path, Device device = current_device());

/// The same from memory; `name` is what errors call it.
TANDEM_API SafetensorsFile load(std::span<const std::byte> bytes, const std::string& name = "memory",
                                Device device = current_device());

/// Reads and checks the header alone. Throws as load does.
TANDEM_API SafetensorsHeader load_header(const std::string& path);

}  // namespace tandem
