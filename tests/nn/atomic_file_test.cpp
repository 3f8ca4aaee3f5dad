#include "tests/support/temporary_folder.h"

#include <tandem/core/error.h>
#include <tandem/nn/atomic_file.h>
#include <tandem/nn/safetensors.h>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace tandem;
using namespace tandem::test;

namespace {

// Files of this process can't grow beyond so many bytes for a scope: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &was_);
    rlimit now{bytes, was_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &was_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit was_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("a file appears when it is committed, and not before") {
  TemporaryFolder folder;
  write_text(folder / "f", "old");
  {
    AtomicFile f(folder / "f");
    f.write("new", 3);
    CHECK(read_text(folder / "f") == "old");
    f.write("er", 2);
    f.commit();
    CHECK(read_text(folder / "f") == "newer");
  }
  CHECK(read_text(folder / "f") == "newer");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file given up leaves nothing behind") {
  TemporaryFolder folder;
  write_text(folder / "f", "old");
  {
    AtomicFile f(folder / "f");
    f.write("new", 3);
    CHECK(folder.entries() == 2);
  }
  CHECK(read_text(folder / "f") == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("two writers of one file do not meet") {
  TemporaryFolder folder;
  AtomicFile a(folder / "f"), b(folder / "f");
  a.write("a", 1);
  b.write("b", 1);
  a.commit();
  b.commit();
  CHECK(read_text(folder / "f") == "b");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a full disk is an error with its reason, and the old file stays") {
  TemporaryFolder folder;
  std::string path = folder / "f";
  save(path, {{"a", ones({10})}});
  std::string before = read_text(path), error;
  {
    FullDisk disk(1000);
    try {
      save(path, {{"a", ones({1000})}});
    } catch (const IoError& e) {
      error = e.what();
    }
  }
  CHECK(error == "[save] writing " + path + ": File too large");
  CHECK(read_text(path) == before);
  CHECK(folder.entries() == 1);
}

TEST_CASE("the folder must be there, and the target a file") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "none/f"),
                       ("[save] can't write in " + (folder / "none") + ": No such file or directory").c_str(), IoError);
  CHECK_THROWS_WITH_AS(AtomicFile(folder.path()), ("[save] " + folder.path() + " is not a regular file").c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(AtomicFile("/dev/full"), "[save] /dev/full is not a regular file", IoError);
}

TEST_CASE("a new file has the permissions of any other") {
  TemporaryFolder folder;
  mode_t mask = ::umask(0);
  ::umask(mask);
  AtomicFile f(folder / "f");
  f.commit();
  struct stat s {};
  REQUIRE(::stat((folder / "f").c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == (0666 & ~mask));
}

TEST_CASE("what a killed writer left is cleared away, what a live one writes is not") {
  TemporaryFolder folder;
  pid_t child = ::fork();
  if (child == 0) {
    AtomicFile f(folder / "dead");
    f.write("x", 1);
    ::_exit(0);  // no destructor runs
  }
  REQUIRE(child > 0);
  ::waitpid(child, nullptr, 0);
  write_text(folder / "other", "");
  AtomicFile live(folder / "live");
  CHECK(folder.entries() == 3);
  remove_abandoned_files(folder.path());
  CHECK(folder.entries() == 2);
  live.commit();
  CHECK(folder.entries() == 2);
  remove_abandoned_files(folder / "none");
}
