#include "apps/cifar10/resume.h"

#include <tandem/nn/checkpoint_directory.h>
#include <tandem/nn/safetensors.h>

#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace tandem::cifar10 {

std::optional<ResumePoint> find_resume_point(const TrainOptions& o) {
  if (o.resume.empty()) return {};
  const bool any = o.resume == "auto";
  ResumePoint p{.file = o.resume};
  if (any || fs::is_directory(o.resume)) {
    auto latest = nn::latest_checkpoint(any ? o.checkpoint : o.resume);
    check<IoError>(any || latest, o.resume, ": no checkpoint in this folder");
    if (!latest) return {};
    p.file = *latest;
  }
  nn::Progress progress;
  nn::load_checkpoint(p.file, {.progress = &progress, .extra = &p.options});
  p.checksum = load_header(p.file).checksum;
  std::error_code not_there;
  p.own_folder = fs::equivalent(fs::absolute(p.file).parent_path(), o.checkpoint, not_there);
  return p;
}

void require_same_start(const Team& team, const std::optional<ResumePoint>& from, int64_t step) {
  constexpr int64_t kNothing = -1;
  const auto steps = team.each(from ? step : kNothing);
  const auto sums = team.each(from ? int64_t(std::strtoull(from->checksum.c_str(), nullptr, 16)) : 0);
  bool same = true;
  std::string each;
  for (size_t r = 0; r < steps.size(); ++r) {
    const bool as_first = steps[r] == steps[0] && sums[r] == sums[0];
    same &= as_first;
    each += message("\n  rank ", r, ": ", steps[r] == kNothing ? "no checkpoint" : message("step ", steps[r]),
                    steps[r] == steps[0] && !as_first ? ", but of other contents than rank 0's" : "");
  }
  check(same, "the ranks would not go on from the same state:", each,
        "\nGive them rank 0's checkpoint, or --checkpoint on a disk that all share");
}

}  // namespace tandem::cifar10
