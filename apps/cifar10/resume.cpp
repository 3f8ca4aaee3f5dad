#include "apps/cifar10/resume.h"

#include <tandem/nn/checkpoint_directory.h>

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
  std::error_code not_there;
  p.own_folder = fs::equivalent(fs::absolute(p.file).parent_path(), o.checkpoint, not_there);
  return p;
}

}  // namespace tandem::cifar10
