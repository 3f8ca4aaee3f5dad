#include <tandem/core/copy.h>
#include <tandem/nn/atomic_file.h>
#include <tandem/nn/checksum.h>
#include <tandem/nn/safetensors_header.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>

namespace tandem {
namespace {

using detail::kLengthBytes;
using detail::shown;
static_assert(std::endian::native == std::endian::little,
              "the format's numbers are little-endian, and copied as they are");

constexpr uint64_t kZipMagic = 0x04034b50;  // "PK\3\4"

/// Where the bytes come from: a file or memory, whose size is known before anything is read.
struct Source {
  std::string name;
  uint64_t size = 0;
  std::function<void(uint64_t offset, void* to, size_t bytes)> read;
};

class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not make us wait for a writer
    if (fd_ < 0) fail(errno, "can't open ");
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  Source source() {
    struct stat s {};
    const bool known = ::fstat(fd_, &s) == 0;
    check<IoError>(known && S_ISREG(s.st_mode), "[load] ", path_, " is not a regular file");
    return {"[load] " + path_, uint64_t(s.st_size),
            [this](uint64_t offset, void* to, size_t bytes) { read(offset, static_cast<char*>(to), bytes); }};
  }

 private:
  [[noreturn]] void fail(int error, const char* doing) const {
    throw IoError(message("[load] ", doing, path_, ": ", std::generic_category().message(error)));
  }

  void read(uint64_t offset, char* to, size_t bytes) {
    while (bytes > 0) {
      ssize_t n = ::pread(fd_, to, bytes, off_t(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(errno, "reading ");
      check<IoError>(n > 0, "[load] ", path_, " was cut short while it was read");
      to += n;
      offset += uint64_t(n);
      bytes -= size_t(n);
    }
  }

  std::string path_;
  int fd_ = -1;
};

SafetensorsHeader read_header(const Source& s) {
  check<IoError>(s.size >= kLengthBytes, s.name, ": ", s.size, " bytes are too few for a safetensors file");
  uint64_t length = 0;
  s.read(0, &length, kLengthBytes);
  check<IoError>((length & 0xffffffff) != kZipMagic, s.name,
                 " is a zip archive, as torch.save writes; safetensors.torch.save_file writes what is read here");
  check<IoError>(length <= s.size - kLengthBytes, s.name, ": the header is said to have ", length,
                 " bytes, the file has ", s.size - kLengthBytes, " after the length");
  check<IoError>(length <= detail::kMaxHeaderBytes, s.name, ": a header of ", length, " bytes; the format allows ",
                 detail::kMaxHeaderBytes);
  std::string json(length, ' ');
  s.read(kLengthBytes, json.data(), length);
  auto header = detail::parse_safetensors_header(json, s.size - kLengthBytes - length, s.name);
  header.data_begin = kLengthBytes + length;
  return header;
}

// The checksum of a file with this header, whose values are still to be added. The header goes in as we would write it
// and not as it stands in the file, where it has the checksum itself in it.
detail::Checksum begin_checksum(SafetensorsHeader header) {
  header.checksum.clear();
  const std::string json = detail::write_safetensors_header(header);
  detail::Checksum sum;
  sum.update(json.data(), json.size());
  return sum;
}

Tensor read_tensor(const Source& s, const SafetensorsHeader& header, const SafetensorsEntry& e, Device device) {
  Tensor t = empty(e.shape, {.dtype = e.dtype, .device = device});
  const size_t bytes = e.end - e.begin;
  if (bytes > 0) s.read(header.data_begin + e.begin, t.raw(), bytes);
  if (e.dtype == Dtype::boolean) {
    auto* p = static_cast<const uint8_t*>(t.raw());
    check<IoError>(std::all_of(p, p + bytes, [](uint8_t b) { return b <= 1; }), s.name, ": tensor ", shown(e.name),
                   " is BOOL and has a byte other than 0 and 1");
  }
  return t;
}

SafetensorsFile read_all(const Source& s, Device device) {
  require_device(device);
  SafetensorsHeader header = read_header(s);
  std::vector<size_t> placed(header.tensors.size());  // by their place in the file
  std::iota(placed.begin(), placed.end(), size_t{0});
  std::stable_sort(placed.begin(), placed.end(),
                   [&](size_t a, size_t b) { return header.tensors[a].begin < header.tensors[b].begin; });
  std::optional<detail::Checksum> sum;
  if (!header.checksum.empty()) sum = begin_checksum(header);
  SafetensorsFile file;
  file.tensors.resize(header.tensors.size());
  for (size_t i : placed) {
    const SafetensorsEntry& e = header.tensors[i];
    Tensor t = read_tensor(s, header, e, device.is_cpu() ? device : cpu());
    if (sum) sum->update(t.raw(), e.end - e.begin);
    if (!device.is_cpu()) t = copy_of(t, {.dtype = e.dtype, .device = device});
    file.tensors[i] = {e.name, std::move(t)};
  }
  check<IoError>(!sum || sum->hex() == header.checksum, s.name, " does not have the checksum that its ",
                 detail::kChecksumKey, " says: it is damaged, or was changed by a program that kept this text");
  file.metadata = std::move(header.metadata);
  return file;
}

// The header of these tensors: named in the given order, values placed by falling element size.
SafetensorsHeader plan(const NamedTensors& tensors, const Metadata& metadata, std::vector<size_t>& placed) {
  SafetensorsHeader header;
  header.metadata = metadata;
  check(!metadata.contains(detail::kChecksumKey), "[save] a metadata text can't be called ", detail::kChecksumKey);
  std::set<std::string_view> names;
  for (auto& [name, t] : tensors) {
    check(t.defined(), "[save] tensor ", shown(name), " is undefined");
    check(name != detail::kMetadataKey, "[save] a tensor can't be called ", name);
    check(names.insert(name).second, "[save] two tensors are called ", shown(name));
    header.tensors.push_back({name, t.dtype(), t.shape()});
  }
  placed.resize(tensors.size());
  std::iota(placed.begin(), placed.end(), size_t{0});
  std::stable_sort(placed.begin(), placed.end(), [&](size_t a, size_t b) {
    return size_of(header.tensors[a].dtype) > size_of(header.tensors[b].dtype);
  });
  uint64_t at = 0;
  for (size_t i : placed) {
    auto& e = header.tensors[i];
    e.begin = at;
    e.end = at += uint64_t(e.shape.numel()) * size_of(e.dtype);
  }
  return header;
}

size_t bytes_of(const Tensor& t) { return size_t(t.numel()) * size_of(t.dtype()); }

}  // namespace

Tensor SafetensorsFile::find(const std::string& name) const {
  for (auto& [n, t] : tensors)
    if (n == name) return t;
  return {};
}

void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<size_t> placed;
  SafetensorsHeader header = plan(tensors, metadata, placed);
  detail::Checksum sum = begin_checksum(header);
  std::vector<Tensor> values;
  for (size_t i : placed) {
    const Tensor& t = tensors[i].second;
    Tensor host = t.device().is_cpu() ? t : copy_of(t, {.dtype = t.dtype(), .device = cpu()});
    host = as_layout(host, Layout::row_major);
    sum.update(host.raw(), bytes_of(host));
    values.push_back(std::move(host));
  }
  header.checksum = sum.hex();
  std::string json = detail::write_safetensors_header(header);
  json.resize((json.size() + 7) / 8 * 8, ' ');  // values begin at a multiple of 8
  check<IoError>(json.size() <= detail::kMaxHeaderBytes, "[save] ", path, ": a header of ", json.size(),
                 " bytes; the format allows ", detail::kMaxHeaderBytes);
  const uint64_t length = json.size();
  AtomicFile file(path);
  file.write(&length, kLengthBytes);
  file.write(json.data(), json.size());
  for (const Tensor& t : values) file.write(t.raw(), bytes_of(t));
  file.commit();
}

SafetensorsFile load(const std::string& path, Device device) {
  InputFile file(path);
  return read_all(file.source(), device);
}

SafetensorsFile load(std::span<const std::byte> bytes, const std::string& name, Device device) {
  return read_all({"[load] " + name, bytes.size(),
                   [bytes](uint64_t offset, void* to, size_t n) { std::memcpy(to, bytes.data() + offset, n); }},
                  device);
}

SafetensorsHeader load_header(const std::string& path) {
  InputFile file(path);
  return read_header(file.source());
}

}  // namespace tandem
