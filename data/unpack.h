/// Not installed: files out of an archive, by libarchive.
#pragma once
#include <tandem/data/download.h>

namespace tandem::data {

/// The archive itself is at fault: fetching it again may help.
struct BadArchive : IoError {
  using IoError::IoError;
};

/// Writes the files that `what` names, and nothing else, into the folder `to`, where none of them exists yet. Throws
/// BadArchive where the archive is damaged, lacks one of them, has one of another length or SHA-256, or contains links
/// or paths that leave its folder; IoError where the disk is at fault.
void unpack(const std::filesystem::path& file, const Archive& what, const std::filesystem::path& to);

}  // namespace tandem::data
