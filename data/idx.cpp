#include <tandem/data/idx.h>

#include <archive.h>
#include <archive_entry.h>

#include <memory>

namespace tandem::data {
namespace {

constexpr int64_t kMaxRatio = 1032;  // deflate makes nothing smaller than by this

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file), archive_(archive_read_new(), archive_read_free) {
    check<IoError>(archive_ != nullptr, "[read_idx] libarchive has no memory");
    archive_read_support_format_raw(archive_.get());
    archive_read_support_filter_gzip(archive_.get());
    archive_entry* e = nullptr;
    if (archive_read_open_filename(archive_.get(), file.c_str(), 1 << 16) != ARCHIVE_OK ||
        archive_read_next_header(archive_.get(), &e) != ARCHIVE_OK)
      fail();
  }
  // Up to `bytes`; fewer at the end of the file alone.
  int64_t read(uint8_t* to, int64_t bytes) {
    int64_t done = 0;
    while (done < bytes) {
      const la_ssize_t n = archive_read_data(archive_.get(), to + done, size_t(bytes - done));
      if (n < 0) fail();
      if (n == 0) break;
      done += n;
    }
    return done;
  }

 private:
  [[noreturn]] void fail() const {
    const char* why = archive_error_string(archive_.get());
    throw IoError(message("[read_idx] ", file_.string(), ": ", why ? why : "it is empty"));
  }
  const std::filesystem::path& file_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

int64_t big_endian(const uint8_t* p) { return int64_t(p[0]) << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

}  // namespace

Tensor read_idx(const std::filesystem::path& file, int n_dims) {
  Reader in(file);
  const std::string name = file.string();
  uint8_t header[4 + 4 * kMaxDims];
  const int64_t header_bytes = 4 + 4 * n_dims;
  check<IoError>(in.read(header, header_bytes) == header_bytes, "[read_idx] ", name, " is cut off");
  const int64_t magic = big_endian(header), wanted = 0x800 + n_dims;  // 8: unsigned bytes
  check<IoError>(magic == wanted, "[read_idx] ", name, " begins with ", magic, ", bytes of ", n_dims,
                 " dimensions begin with ", wanted);
  Dims shape;
  int64_t bytes = 1;
  const int64_t limit = kMaxRatio * int64_t(std::filesystem::file_size(file));
  for (int i = 0; i < n_dims; ++i) {
    shape.push_back(big_endian(header + 4 + 4 * i));
    check<IoError>(shape[i] == 0 || bytes <= limit / shape[i], "[read_idx] ", name, " is too short for what it says");
    bytes *= shape[i];
  }
  Tensor t = empty(shape, {.dtype = Dtype::u8, .device = cpu()});
  check<IoError>(in.read(t.data<uint8_t>(), bytes) == bytes, "[read_idx] ", name, " ends before its ", bytes,
                 " bytes of shape ", shape);
  check<IoError>(in.read(header, 1) == 0, "[read_idx] ", name, " goes on after its ", bytes, " bytes of shape ", shape);
  return t;
}

}  // namespace tandem::data
