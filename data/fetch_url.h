/// Not installed: one file from a server, by libcurl.
#pragma once
#include <tandem/data/download.h>

namespace tandem::data {

/// Fetches url into the file `part`, from where an earlier attempt left it. A connection that is cut is taken up again
/// as long as that brings more bytes. Throws IoError, leaving what has come: no connection, no byte for o.timeout_s, an
/// error of the server, more than max_bytes, a disk that is full. What o.progress throws is thrown on.
void fetch_url(const std::string& url, const std::filesystem::path& part, int64_t max_bytes, const DownloadOptions& o);

}  // namespace tandem::data
