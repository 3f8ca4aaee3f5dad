#include "tests/data/archive_writer.h"
#include "tests/data/http_server.h"
#include "tests/support/temporary_folder.h"

#include <tandem/data/cifar10.h>
#include <tandem/data/download.h>
#include <tandem/data/sha256.h>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace fs = std::filesystem;

namespace {

std::string sha256_of(const std::string& s) {
  Sha256 sum;
  sum.update(s.data(), s.size());
  return sum.hex();
}

const std::string kOne(300'000, 'a'), kTwo = std::string(70'000, 'b') + "end";

std::string good_tar() {
  return tar_entry("set/", "", '5') + tar_entry("set/one.bin", kOne) + tar_entry("set/readme.html", "not asked for") +
         tar_entry("set/two.bin", kTwo) + tar_end();
}

Archive wanted(const std::string& url) {
  return {url,
          "set",
          {{"one.bin", int64_t(kOne.size()), sha256_of(kOne)}, {"two.bin", int64_t(kTwo.size()), sha256_of(kTwo)}}};
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (auto& e : fs::directory_iterator(folder)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void check_unpacked(const fs::path& root) {
  CHECK(entries(root / "set") == std::vector<std::string>{"one.bin", "two.bin"});
  CHECK(read_text(root / "set/one.bin") == kOne);
  CHECK(read_text(root / "set/two.bin") == kTwo);
  CHECK(entries(root) == std::vector<std::string>{"set"});
}

// What is said when the download fails, which it must.
std::string failure(const Archive& a, const fs::path& root, const DownloadOptions& o = {}) {
  try {
    download(a, root, o);
  } catch (const IoError& e) {
    return e.what();
  }
  FAIL("the download succeeded");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
  return text.find(part) != text.npos;
}

// A disk on which files can't grow beyond a size. (The kernel would end the process, unless it is told not to.)
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was_);
    rlimit now = was_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &was_);
    signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit was_;
};

}  // namespace

TEST_CASE("SHA-256 of known texts") {
  CHECK(sha256_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a download fetches, checks, unpacks and tells how far it is, once") {
  for (bool zipped : {false, true}) {
    TemporaryFolder folder;
    const std::string body = zipped ? gzip(good_tar()) : good_tar();
    HttpServer server(body);
    server.start();
    DownloadProgress last;
    int calls = 0;
    const DownloadOptions o{.progress = [&](const DownloadProgress& p) {
      CHECK(p.received >= last.received);
      last = p;
      ++calls;
    }};
    download(wanted(server.url()), folder / "data", o);
    check_unpacked(folder / "data");
    CHECK(calls > 0);
    CHECK(last.received == int64_t(body.size()));
    CHECK(last.total == int64_t(body.size()));
    download(wanted(server.url()), folder / "data", o);
    CHECK(server.starts().size() == 1);
  }
}

TEST_CASE("files that miss in a folder are brought, the others stay whole") {
  TemporaryFolder folder;
  fs::create_directory(folder / "set");
  write_text(folder / "set/two.bin", "half");
  HttpServer server(good_tar());
  server.start();
  download(wanted(server.url()), folder.path());
  check_unpacked(folder.path());
}

TEST_CASE("a connection that is cut is taken up where it was") {
  TemporaryFolder folder;
  HttpServer server(good_tar(), {.cut_after = {100'000, 50'000}});
  server.start();
  download(wanted(server.url()), folder.path());
  CHECK(server.starts() == std::vector<size_t>{0, 100'000, 150'000});
  check_unpacked(folder.path());
}

TEST_CASE("a download that failed is resumed by the next call") {
  TemporaryFolder folder;
  {
    HttpServer server(good_tar(), {.cut_after = {100'000, 0}});
    server.start();
    contains(failure(wanted(server.url()), folder.path()), "100000 bytes are kept, to be resumed");
  }
  CHECK(entries(folder.path()) == std::vector<std::string>{".set.part"});
  HttpServer server(good_tar());
  server.start();
  int64_t first = -1;
  download(wanted(server.url()), folder.path(), {.progress = [&](const DownloadProgress& p) {
             if (first < 0) first = p.received;
           }});
  CHECK(first == 100'000);
  CHECK(server.starts() == std::vector<size_t>{100'000});
  check_unpacked(folder.path());
}

TEST_CASE("a server that can't resume sends all of it again") {
  TemporaryFolder folder;
  HttpServer server(good_tar(), {.ranges = false, .cut_after = {100'000}});
  server.start();
  download(wanted(server.url()), folder.path());
  check_unpacked(folder.path());
}

TEST_CASE("what was kept is complete already, or of something else") {
  for (const std::string& kept : {good_tar(), std::string(100'000, 'x'), std::string(1'000'000, 'x')}) {
    TemporaryFolder folder;
    write_text(folder / ".set.part", kept);
    HttpServer server(good_tar());
    server.start();
    download(wanted(server.url()), folder.path());
    check_unpacked(folder.path());
  }
}

TEST_CASE("a file with another SHA-256, length or name is not taken") {
  const std::string other = tar_entry("set/one.bin", kOne) + tar_entry("set/two.bin", std::string(kTwo.size(), 'c'));
  const std::string longer = tar_entry("set/one.bin", kOne + "a"), shorter = tar_entry("set/one.bin", "aaa");
  const std::pair<std::string, std::string> cases[] = {
      {other + tar_end(), "[download] two.bin has SHA-256 " + sha256_of(std::string(kTwo.size(), 'c')) + ", " +
                              sha256_of(kTwo) + " is wanted"},
      {longer + tar_end(), "[download] one.bin is longer than 300000 bytes"},
      {shorter + tar_end(), "[download] one.bin has 3 bytes, 300000 are wanted"},
      {tar_entry("set/one.bin", kOne) + tar_end(), "[download] the archive lacks set/two.bin"},
      {tar_entry("set/one.bin", kOne) + tar_entry("set/one.bin", kOne) + tar_end(),
       "[download] the archive has one.bin twice"},
      {"<html>Please log in</html>", "[download] what has come is no archive"},
      {gzip(good_tar()).substr(0, 200'000), "[download] the archive is damaged"},
  };
  for (auto& [body, message] : cases) {
    TemporaryFolder folder;
    HttpServer server(body);
    server.start();
    contains(failure(wanted(server.url()), folder.path()), message);
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("an archive with links or paths that leave its folder is refused, and nothing is written") {
  const std::string one = tar_entry("set/one.bin", kOne);
  const std::string hostile[] = {
      tar_entry("../escaped.bin", "x"),
      tar_entry("set/../../escaped.bin", "x"),
      tar_entry("/tmp/tandem-escaped.bin", "x"),
      tar_entry("set/one.bin", "", '2', "/etc/passwd"),
      tar_entry("set", "", '2', "/tmp") + one,
      tar_entry("set/one.bin", "", '1', "/etc/passwd"),
      tar_entry("set/pipe", "", '6'),
      tar_entry("set/device", "", '3'),
  };
  for (const std::string& entry : hostile) {
    TemporaryFolder folder;
    HttpServer server(entry + one + tar_entry("set/two.bin", kTwo) + tar_end());
    server.start();
    contains(failure(wanted(server.url()), folder / "data"), "refused");
    CHECK(folder.entries() == 0);
    CHECK_FALSE(fs::exists("/tmp/tandem-escaped.bin"));
  }
}

TEST_CASE("a full disk is an error that says so, and what was fetched is kept") {
  TemporaryFolder folder;
  HttpServer server(good_tar());
  server.start();
  {
    SmallDisk disk(200'000);  // full while fetching
    contains(failure(wanted(server.url()), folder.path()), ".set.part: File too large");
  }
  CHECK(fs::file_size(folder / ".set.part") == 200'000);
  // Full while unpacking: the archive is smaller than what is in it.
  TemporaryFolder other;
  std::string body = gzip(good_tar());
  write_text(other / ".set.part", body);
  {
    SmallDisk disk(250'000);
    contains(failure(wanted(server.url()), other.path()), "one.bin: File too large");
  }
  CHECK(entries(other.path()) == std::vector<std::string>{".set.part"});
  download(wanted(server.url()), folder.path());
  check_unpacked(folder.path());
}

TEST_CASE("without a connection, or without a byte, a download gives up") {
  TemporaryFolder folder;
  std::string closed;
  {
    HttpServer server("");
    closed = server.url();
  }
  contains(failure(wanted(closed), folder / "a/b"), closed);
  HttpServer silent("", {.silent = true});
  silent.start();
  const auto start = std::chrono::steady_clock::now();
  contains(failure(wanted(silent.url()), folder.path(), {.timeout_s = 1}), silent.url());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(seconds > 0.5);
  CHECK(seconds < 9);
  HttpServer missing("", {.status = 404});
  missing.start();
  contains(failure(wanted(missing.url()), folder.path()), "404");
  contains(failure(wanted("file:///etc/passwd"), folder.path()), "file");
  CHECK(folder.entries() == 0);
}

TEST_CASE("a server that never ends is cut off") {
  TemporaryFolder folder;
  HttpServer server(std::string(3'000'000, 'x'));
  server.start();
  contains(failure(wanted(server.url()), folder.path()), "more than the 1788582 bytes that were expected at most");
}

TEST_CASE("what the progress callback throws ends the download and reaches the caller") {
  TemporaryFolder folder;
  HttpServer server(good_tar());
  server.start();
  CHECK_THROWS_WITH_AS(download(wanted(server.url()), folder.path(),
                                {.progress = [](const DownloadProgress&) { throw std::range_error("stop"); }}),
                       "stop", std::range_error);
  download(wanted(server.url()), folder.path());
  check_unpacked(folder.path());
}

TEST_CASE("several processes at once fetch it once, and all find it") {
  TemporaryFolder folder;
  HttpServer server(good_tar());
  const Archive archive = wanted(server.url());
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int result = 1;
      try {
        download(archive, folder.path());
        result = fs::file_size(folder / "set/two.bin") == kTwo.size() ? 0 : 2;
      } catch (...) {
      }
      _exit(result);
    }
    children.push_back(child);
  }
  server.start();
  for (pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(server.starts().size() == 1);
  check_unpacked(folder.path());
}

TEST_CASE("CIFAR10 with download fetches from where it is told, and refuses images that are not the official ones") {
  TemporaryFolder folder;
  const fs::path inner = folder / "cifar-10-batches-bin";
  fs::create_directory(inner);
  for (int i = 1; i <= 5; ++i) write_text(inner / message("data_batch_", i, ".bin"), "not whole");
  const std::string file(30'730'000, '\0');
  HttpServer server(tar_entry("cifar-10-batches-bin/data_batch_1.bin", file) + tar_end());
  server.start();
  try {
    CIFAR10(inner / "", {.download = true, .url = server.url()});  // the folder itself, with a slash
    FAIL("wrong images were taken");
  } catch (const IoError& e) {
    contains(e.what(), "data_batch_1.bin has SHA-256");
    contains(e.what(), "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 is wanted");
  }
  CHECK(read_text(inner / "data_batch_1.bin") == "not whole");
}
