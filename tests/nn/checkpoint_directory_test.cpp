#include "tests/nn/support.h"
#include "tests/support/temporary_folder.h"

#include <tandem/core/log.h>
#include <tandem/nn/checkpoint_directory.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace tandem;
using namespace tandem::test;
using nn::CheckpointDirectory;
using nn::Existing;

namespace {

// A run without a model: its progress is all there is to save.
struct Run {
  CheckpointDirectory directory;
  nn::Progress progress;
  void save(int64_t step, std::optional<double> metric = {}) {
    progress.global_step = step;
    directory.save({.progress = &progress}, metric);
  }
};

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> list;
  for (auto& e : std::filesystem::directory_iterator(folder)) list.push_back(e.path().filename().string());
  std::sort(list.begin(), list.end());
  return list;
}
using Names = std::vector<std::string>;

int64_t step_of(const std::optional<std::string>& path) { return path ? nn::load_progress(*path)->global_step : -1; }

// What is logged in this scope.
struct LogOf {
  std::string text;
  LogSink was = set_log_sink([this](LogLevel, std::string_view t) { text.append(t) += '\n'; });
  ~LogOf() { set_log_sink(was); }
};

}  // namespace

TEST_CASE("the last k checkpoints stay, and the best one") {
  TemporaryFolder folder;
  std::string f = folder / "a/b";
  Run run{CheckpointDirectory(f, {.keep_last = 2}), {}};
  run.save(10, 0.5);
  run.save(20, 0.7);
  run.save(30, 0.6);
  run.save(100000000);
  CHECK(names(f) == Names{"best.safetensors", "step-00000030.safetensors", "step-100000000.safetensors"});
  CHECK(run.progress.best_metric == 0.7);
  CHECK(step_of(nn::latest_checkpoint(f)) == 100000000);
  CHECK(step_of(nn::best_checkpoint(f)) == 20);
  CHECK(nn::load_progress(*nn::best_checkpoint(f))->best_metric == 0.7);
  CHECK(nn::load_progress(f + "/step-00000030.safetensors")->best_metric == 0.7);
}

TEST_CASE("what counts as better can be turned round, and a NaN never does") {
  TemporaryFolder folder;
  Run run{CheckpointDirectory(folder.path(), {.keep_last = 0, .higher_is_better = false}), {}};
  run.save(1, NAN);
  CHECK_FALSE(run.progress.best_metric);
  CHECK_FALSE(nn::best_checkpoint(folder.path()));
  run.save(2, 0.5);
  run.save(3, 0.6);
  run.save(4, NAN);
  CHECK(step_of(nn::best_checkpoint(folder.path())) == 2);
  CHECK(folder.entries() == 5);  // 0 keeps all

  TemporaryFolder without;
  Run plain{CheckpointDirectory(without.path(), {.keep_best = false}), {}};
  plain.save(1, 0.5);
  CHECK(names(without.path()) == Names{"step-00000001.safetensors"});
  CHECK(plain.progress.best_metric == 0.5);
}

TEST_CASE("checkpoints of another run are not overwritten without leave") {
  TemporaryFolder folder;
  Run first{CheckpointDirectory(folder.path()), {}};
  first.save(10, 0.5);
  first.save(20);
  CHECK(says(error_of([&] { CheckpointDirectory again(folder.path()); }), "has checkpoints of another run"));

  Run resumed{CheckpointDirectory(folder.path(), {.existing = Existing::keep, .resumed_step = 10}), {}};
  resumed.progress.best_metric = 0.5;
  CHECK(step_of(nn::latest_checkpoint(folder.path())) == 20);
  resumed.save(15);  // it went on from step 10: what the first run did after it is not its past
  CHECK(names(folder.path()) == Names{"best.safetensors", "step-00000010.safetensors", "step-00000015.safetensors"});
  CHECK_THROWS_AS(CheckpointDirectory(folder.path(), {.existing = Existing::keep}), Error);

  Run anew{CheckpointDirectory(folder.path(), {.existing = Existing::replace}), {}};
  CHECK(folder.entries() == 3);  // until there is something to replace them
  anew.save(5);
  anew.save(7);
  CHECK(names(folder.path()) == Names{"step-00000005.safetensors", "step-00000007.safetensors"});
}

TEST_CASE("what came after the step that a run goes on from is not its past, the best one included") {
  for (bool better : {false, true}) {
    TemporaryFolder folder;
    Run first{CheckpointDirectory(folder.path()), {}};
    first.save(10, 0.5);
    first.save(20, 0.6);
    first.save(30, 0.9);
    Run resumed{CheckpointDirectory(folder.path(), {.existing = Existing::keep, .resumed_step = 20}), {}};
    resumed.progress.best_metric = 0.6;
    resumed.save(40, better ? 0.7 : 0.1);
    const Names steps{"step-00000010.safetensors", "step-00000020.safetensors", "step-00000040.safetensors"};
    Names want = steps;
    if (better) want.insert(want.begin(), "best.safetensors");
    CHECK(names(folder.path()) == want);
    CHECK(step_of(nn::best_checkpoint(folder.path())) == (better ? 40 : -1));
    CHECK(resumed.progress.best_metric == (better ? 0.7 : 0.6));
    resumed.save(50, 0.8);
    CHECK(step_of(nn::best_checkpoint(folder.path())) == 50);
    resumed.save(60, 0.75);
    CHECK(step_of(nn::best_checkpoint(folder.path())) == 50);
  }
}

TEST_CASE("the latest that can be read is found, the damaged are named in the log") {
  TemporaryFolder folder;
  CHECK_FALSE(nn::latest_checkpoint(folder.path()));
  CHECK_FALSE(nn::latest_checkpoint(folder / "none"));
  Run run{CheckpointDirectory(folder.path(), {.keep_last = 0}), {}};
  for (int step : {10, 20, 25, 30}) run.save(step, step);
  std::string flipped = read_text(folder / "step-00000025.safetensors");
  flipped[flipped.find("25")] = '1';
  write_text(folder / "step-00000025.safetensors", flipped);
  std::string good = read_text(folder / "step-00000030.safetensors");
  write_text(folder / "step-00000030.safetensors", good.substr(0, good.size() - 1));
  write_text(folder / "step-00000040.safetensors", "");
  write_text(folder / "step-x.safetensors", "");
  write_text(folder / "step-50.txt", "");
  write_text(folder / "best.safetensors", "junk");
  LogOf log;
  CHECK(step_of(nn::latest_checkpoint(folder.path())) == 20);
  CHECK(says(log.text, "step-00000030.safetensors"));
  CHECK(says(log.text, "step-00000025.safetensors"));
  CHECK(says(log.text, "step-00000040.safetensors"));
  CHECK_FALSE(says(log.text, "step-x"));
  CHECK_FALSE(nn::best_checkpoint(folder.path()));
}

TEST_CASE("a folder that can't be made, and a state without progress") {
  TemporaryFolder folder;
  write_text(folder / "file", "");
  CHECK_THROWS_AS(CheckpointDirectory(folder / "file"), IoError);
  CHECK_THROWS_AS(CheckpointDirectory(folder / "file/below"), IoError);
  CheckpointDirectory d(folder.path());
  CHECK_THROWS_AS(d.save({}), Error);
}
