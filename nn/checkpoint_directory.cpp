#include <tandem/core/log.h>
#include <tandem/nn/atomic_file.h>
#include <tandem/nn/checkpoint_directory.h>
#include <tandem/nn/safetensors.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>

namespace tandem::nn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-", kSuffix = ".safetensors";
constexpr const char* kBest = "best.safetensors";

std::string path_of(const std::string& folder, int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');  // sorted by name is sorted by step
  return message(folder, "/", kStep, digits, kSuffix);
}

// Files that are named as checkpoints are, latest step first.
std::map<int64_t, std::string, std::greater<>> checkpoints_in(const std::string& folder) {
  std::map<int64_t, std::string, std::greater<>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with(kStep) || !name.ends_with(kSuffix)) continue;
    const char *first = name.data() + kStep.size(), *last = name.data() + name.size() - kSuffix.size();
    int64_t step = 0;
    auto read = std::from_chars(first, last, step);
    if (read.ec == std::errc() && read.ptr == last && step >= 0) found[step] = at->path().string();
  }
  return found;
}

bool readable(const std::string& path) {
  try {
    if (load_progress(path)) {
      load(path, cpu());  // for its checksum
      return true;
    }
    log(LogLevel::warning, message("passing over ", path, ": it is not a run's checkpoint"));
  } catch (const IoError& e) {
    log(LogLevel::warning, message("passing over a damaged checkpoint: ", e.what()));
  }
  return false;
}

// -1 for what is no run's checkpoint, or not there.
int64_t step_of(const std::string& path) {
  try {
    auto progress = load_progress(path);
    return progress ? progress->global_step : -1;
  } catch (const IoError&) {
    return -1;
  }
}

void remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) log(LogLevel::warning, message("can't remove the old checkpoint ", path, ": ", error.message()));
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(std::string folder, Options options)
    : folder_(std::move(folder)), options_(options) {
  check(options_.keep_last >= 0, "[CheckpointDirectory] keep_last is ", options_.keep_last);
  if (options_.existing == Existing::keep) {
    check(options_.resumed_step.has_value(), "[CheckpointDirectory] Existing::keep without a resumed_step");
    own_until_ = *options_.resumed_step;
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  check<IoError>(!error, "[CheckpointDirectory] can't make ", folder_, ": ", error.message());
  if (options_.existing == Existing::refuse) {
    const bool some = !checkpoints_in(folder_).empty() || fs::exists(folder_ + "/" + kBest, error);
    check<IoError>(!some, "[CheckpointDirectory] ", folder_, " has checkpoints of another run");
  }
  remove_abandoned_files(folder_);
}

void CheckpointDirectory::save(const Checkpoint& from, std::optional<double> metric) {
  check(from.progress, "[CheckpointDirectory] a checkpoint without a progress has no place among the others");
  Progress progress = *from.progress;
  const std::optional<double> best = progress.best_metric;
  const bool better =
      metric && !std::isnan(*metric) && (!best || (options_.higher_is_better ? *metric > *best : *metric < *best));
  if (better) progress.best_metric = metric;
  Checkpoint now = from;
  now.progress = &progress;
  // The best one first: a run that is killed in between goes on from the checkpoint before, and writes both again.
  if (better && options_.keep_best) save_checkpoint(folder_ + "/" + kBest, now);
  save_checkpoint(path_of(folder_, progress.global_step), now);
  *from.progress = progress;
  remove_superseded(progress.global_step, better);
}

void CheckpointDirectory::remove_superseded(int64_t step, bool best_is_new) {
  const std::string best = folder_ + "/" + kBest;
  const bool nothing_is_ours = own_until_ < 0;
  if (!best_is_new && (nothing_is_ours || step_of(best) > own_until_)) remove(best);
  int kept = 0;
  for (auto& [s, path] : checkpoints_in(folder_)) {
    const bool ours = s == step || s <= own_until_;
    if (!ours || (options_.keep_last > 0 && kept == options_.keep_last))
      remove(path);
    else
      ++kept;
  }
  own_until_ = step;
}

std::optional<std::string> latest_checkpoint(const std::string& folder) {
  for (auto& [step, path] : checkpoints_in(folder))
    if (readable(path)) return path;
  return {};
}

std::optional<std::string> best_checkpoint(const std::string& folder) {
  std::string path = folder + "/" + kBest;
  std::error_code error;
  if (fs::exists(path, error) && readable(path)) return path;
  return {};
}

}  // namespace tandem::nn
