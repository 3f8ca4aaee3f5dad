#include <tandem/data/posix_file.h>
#include <tandem/data/sha256.h>
#include <tandem/data/unpack.h>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>

#include <memory>
#include <set>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;
using Reader = std::unique_ptr<archive, int (*)(archive*)>;

// A tar archive, as it is or compressed; no format more than needed, and none that starts a program.
Reader open(const fs::path& file) {
  Reader a(archive_read_new(), archive_read_free);
  check<IoError>(a != nullptr, "[download] libarchive has no memory");
  archive_read_support_format_tar(a.get());
  archive_read_support_filter_gzip(a.get());
  archive_read_support_filter_bzip2(a.get());
  archive_read_support_filter_xz(a.get());
  if (archive_read_open_filename(a.get(), file.c_str(), 1 << 16) != ARCHIVE_OK)
    throw BadArchive(message("[download] what has come is no archive: ", archive_error_string(a.get())));
  return a;
}

// Where an entry wants to go, if it stays within its folder and is an ordinary file or folder.
fs::path checked_path(archive_entry* e) {
  const char* name = archive_entry_pathname(e);
  check<BadArchive>(name, "[download] the archive has an entry without a name");
  const fs::path path = name;
  check<BadArchive>(!archive_entry_symlink(e) && !archive_entry_hardlink(e) &&
                        (archive_entry_filetype(e) == AE_IFREG || archive_entry_filetype(e) == AE_IFDIR),
                    "[download] the archive has a link or special file, ", name, ", which is refused");
  bool leaves = path.is_absolute();
  for (const fs::path& part : path) leaves = leaves || part == "..";
  check<BadArchive>(!leaves, "[download] the archive has the path ", name, ", which leaves its folder and is refused");
  return path.lexically_normal();
}

void unpack_file(archive* a, const ArchivedFile& what, const fs::path& to) {
  PosixFile out(to / what.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  Sha256 sum;
  char buffer[1 << 16];
  int64_t bytes = 0;
  while (true) {
    const la_ssize_t n = archive_read_data(a, buffer, sizeof buffer);
    if (n < 0) throw BadArchive(message("[download] the archive is damaged: ", archive_error_string(a)));
    if (n == 0) break;
    bytes += n;
    check<BadArchive>(bytes <= what.bytes, "[download] ", what.name, " is longer than ", what.bytes, " bytes");
    sum.update(buffer, size_t(n));
    out.write(buffer, size_t(n));
  }
  check<BadArchive>(bytes == what.bytes, "[download] ", what.name, " has ", bytes, " bytes, ", what.bytes,
                    " are wanted");
  const std::string hex = sum.hex();
  check<BadArchive>(hex == what.sha256, "[download] ", what.name, " has SHA-256 ", hex, ", ", what.sha256,
                    " is wanted");
  out.sync();
}

}  // namespace

void unpack(const fs::path& file, const Archive& what, const fs::path& to) {
  const Reader a = open(file);
  std::set<std::string> done;
  while (true) {
    archive_entry* e = nullptr;
    const int r = archive_read_next_header(a.get(), &e);
    if (r == ARCHIVE_EOF) break;
    if (r < ARCHIVE_WARN)
      throw BadArchive(message("[download] the archive is damaged: ", archive_error_string(a.get())));
    const fs::path path = checked_path(e);
    if (archive_entry_filetype(e) != AE_IFREG) continue;
    for (const ArchivedFile& f : what.files)
      if (path == fs::path(what.folder) / f.name) {
        check<BadArchive>(done.insert(f.name).second, "[download] the archive has ", f.name, " twice");
        unpack_file(a.get(), f, to);
      }
  }
  for (const ArchivedFile& f : what.files)
    check<BadArchive>(done.count(f.name), "[download] the archive lacks ", what.folder, "/", f.name);
}

}  // namespace tandem::data
