#include <tandem/core/version.h>
#include <tandem/data/fetch_url.h>
#include <tandem/data/posix_file.h>

#include <curl/curl.h>
#include <fcntl.h>

#include <exception>
#include <memory>
#include <optional>

namespace tandem::data {
namespace {

constexpr int kMaxAttempts = 100;

// One request. libcurl's callbacks write here, and must not throw.
struct Attempt {
  PosixFile file;
  int64_t offset;  // bytes there before
  int64_t max_bytes;
  const DownloadOptions& o;
  int64_t received = 0;
  std::exception_ptr error = nullptr;  // of writing, or of the user's callback

  template <class F>
  bool guarded(F&& f) {
    try {
      f();
      return true;
    } catch (...) {
      error = std::current_exception();
      return false;
    }
  }

  static size_t write(char* data, size_t size, size_t count, void* self) {
    auto& a = *static_cast<Attempt*>(self);
    const bool ok = a.guarded([&] {
      a.received += int64_t(size * count);
      check<IoError>(a.offset + a.received <= a.max_bytes, "[download] more than the ", a.max_bytes,
                     " bytes that were expected at most");
      a.file.write(data, size * count);
    });
    return ok ? size * count : 0;
  }
  static int progress(void* self, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
    auto& a = *static_cast<Attempt*>(self);
    return !a.guarded([&] {
      if (a.o.progress) a.o.progress({a.offset + a.received, total > 0 ? a.offset + total : 0});
    });
  }
};

void allow_http_alone(CURL* c) {
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(c, CURLOPT_PROTOCOLS, long(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, long(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

CURLcode perform(CURL* c, const std::string& url, Attempt& a, char* why) {
  const std::string agent = message("tandem/", TANDEM_VERSION_MAJOR, ".", TANDEM_VERSION_MINOR);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);  // a library raises none
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, long(a.o.timeout_s));
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, long(a.o.timeout_s));
  curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, curl_off_t(a.offset));
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &Attempt::write);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &a);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, &Attempt::progress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &a);
  allow_http_alone(c);
  return curl_easy_perform(c);
}

}  // namespace

void fetch_url(const std::string& url, const std::filesystem::path& part, int64_t max_bytes, const DownloadOptions& o) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  check<IoError>(initialised == CURLE_OK, "[download] libcurl does not start");
  for (int attempt = 1;; ++attempt) {
    std::error_code none_yet;
    const auto size = std::filesystem::file_size(part, none_yet);
    Attempt a{PosixFile(part, O_WRONLY | O_CREAT | O_APPEND), none_yet ? 0 : int64_t(size), max_bytes, o};
    const std::unique_ptr<CURL, void (*)(CURL*)> c(curl_easy_init(), curl_easy_cleanup);
    check<IoError>(c != nullptr, "[download] libcurl has no memory");
    char why[CURL_ERROR_SIZE] = "";
    const CURLcode code = perform(c.get(), url, a, why);
    if (a.error) std::rethrow_exception(a.error);
    long status = 0;
    curl_easy_getinfo(c.get(), CURLINFO_RESPONSE_CODE, &status);
    const bool nothing_left = status == 416 && a.offset > 0;  // asked for what comes after the end
    if (code == CURLE_OK || nothing_left) return a.file.sync();
    if (code == CURLE_RANGE_ERROR && a.offset > 0) {  // this server can't resume
      a.file.truncate();
      continue;
    }
    const std::string reason = *why ? why : curl_easy_strerror(code);
    check<IoError>(a.received > 0 && attempt<kMaxAttempts, "[download] ", url, ": ", reason, a.offset + a.received> 0
                       ? message("; ", a.offset + a.received, " bytes are kept, to be resumed")
                       : std::string());
  }
}

}  // namespace tandem::data
