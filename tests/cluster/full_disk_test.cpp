// Training onto a disk that fills up: a small tmpfs, mounted for the test.
#include "tests/cluster/training.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>

#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

using namespace tandem;
using namespace tandem::test;
namespace fs = std::filesystem;

namespace {

class SmallDisk {
 public:
  explicit SmallDisk(int megabytes) {
    const std::string size = message("size=", megabytes, "m");
    check(::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, size.c_str()) == 0, "mount: ", std::strerror(errno));
  }
  ~SmallDisk() { ::umount2(folder_.path().c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  std::string operator/(const std::string& name) const { return folder_ / name; }
  /// All but so many bytes are taken by a file.
  void fill(size_t left) const {
    write_text(folder_ / "filler", std::string(fs::space(folder_.path()).free - left, 'x'));
  }
  void clear() const { fs::remove(folder_ / "filler"); }

 private:
  TemporaryFolder folder_;
};

// The files of a run by name, metrics apart.
std::map<std::string, std::string> checkpoints(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (auto& e : fs::directory_iterator(folder))
    if (e.path().filename() != "metrics.jsonl") all[e.path().filename()] = read_text(e.path());
  return all;
}

}  // namespace

TEST_CASE("a full disk: the error names it, the checkpoints that were there stay, and the run goes on from them") {
  for (bool two_ranks : {false, true}) {
    CAPTURE(two_ranks);
    const SmallDisk disk(64);
    auto train = [&](std::vector<std::string> more) {
      if (two_ranks) more.insert(more.end(), {"--parallel", "ddp"});
      auto words = training(disk / "run", more);
      if (!two_ranks) return finished(words);
      words.insert(words.begin(), {"-n", "2"});
      return run_program("tandem-run", words);
    };
    Finished r = train({"--epochs", "1"});
    INFO(r.output);
    REQUIRE(r.code == 0);
    const auto before = checkpoints(disk / "run");
    REQUIRE(before.size() == 2);  // the last and the best

    disk.fill(100'000);
    r = train({"--epochs", "3", "--resume", "auto"});
    CHECK(r.code == 1);
    CHECK(says(r.output, "No space left on device"));
    CHECK(says(r.output, disk / "run"));
    if (two_ranks) CHECK(says(r.output, "rank 0 "));
    CHECK(checkpoints(disk / "run") == before);
    r = finished(ours("cifar10", {"eval", "--checkpoint", disk / "run"}));
    CHECK(r.code == 0);

    disk.clear();
    r = train({"--epochs", "3", "--resume", "auto"});
    CHECK(r.code == 0);
    CHECK(says(r.output, "3 epochs, 33 steps"));
  }
}
