// The training loop: steps, tests, checkpoints, and the words around them.
#include "apps/cifar10/commands.h"
#include "apps/cifar10/interrupt.h"
#include "apps/cifar10/metrics.h"
#include "apps/cifar10/progress.h"
#include "apps/cifar10/resume.h"
#include "apps/cifar10/run.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <iostream>

namespace fs = std::filesystem;

namespace tandem::cifar10 {
namespace {

using Json = nlohmann::ordered_json;

void say(const std::string& line) { std::cout << line << std::endl; }

std::string percent(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f %%", 100 * share);
  return buffer;
}

class Training {
 public:
  Training(const TrainOptions& o, const Datasets& sets, const std::optional<ResumePoint>& from, const Team& team)
      : o_(o),
        sets_(sets),
        team_(team),
        run_(o, sets, team),
        resumed_(resume(from)),
        progress_(o.epochs, o.epochs * run_.train_size(), run_.progress.epoch * run_.train_size() + run_.images(),
                  team.leads()) {
    if (!team.leads()) return;
    folder_.emplace(o.checkpoint, directory_options(from));
    metrics_.emplace((fs::path(o.checkpoint) / "metrics.jsonl").string(), from && from->own_folder);
  }

  int all() {
    log({{"event", resumed_ ? "resume" : "start"},
         {"step", run_.progress.global_step},
         {"epoch", run_.progress.epoch},
         {"net", o_.net},
         {"dataset", sets_.name},
         {"batch_size", o_.batch_size},
         {"lr", o_.lr},
         {"seed", o_.seed},
         {"parallel", o_.parallel},
         {"replicas", team_.group ? team_.size() : std::max<int>(1, int(team_.replicas.size()))},
         {"parameters", run_.net().num_parameters()}});
    if (const std::string who = team_.describe(o_.batch_size); !who.empty()) progress_.line(who);
    progress_.restart_clock();
    while (run_.progress.epoch < o_.epochs)
      if (!epoch()) return interrupted();
    summary();
    return 0;
  }

 private:
  void log(const Json& event) {
    if (metrics_) metrics_->write(event.dump());
  }
  void tell(const std::string& line) {
    if (team_.leads()) say(line);
  }

  bool resume(const std::optional<ResumePoint>& from) {
    if (from) {
      run_.require_same_options(from->options);
      nn::load_checkpoint(from->file, run_.state());
      run_.resume();
    }
    require_same_start(team_, from, run_.progress.global_step);
    if (from) {
      tell(message("resumed from ", from->file, ": epoch ", run_.progress.epoch + 1, ", step ",
                   run_.progress.global_step));
    } else if (!o_.resume.empty()) {
      tell(message("nothing to resume in ", o_.checkpoint, ": starting anew"));
    }
    return from.has_value();
  }

  nn::CheckpointDirectory::Options directory_options(const std::optional<ResumePoint>& from) const {
    nn::CheckpointDirectory::Options d{.keep_last = o_.keep,
                                       .existing = o_.force ? nn::Existing::replace : nn::Existing::refuse};
    if (from && from->own_folder) {
      d.existing = nn::Existing::keep;
      d.resumed_step = run_.progress.global_step;
    }
    return d;
  }

  bool epoch() {
    const int64_t number = run_.progress.epoch + 1;
    while (int64_t images = run_.step()) {
      auto& p = run_.progress;
      progress_.step(int(number), run_.batch(), run_.batches(), images, [&] { return run_.own_loss(); });
      if (p.global_step % o_.log_every == 0) {
        const double loss = run_.loss();  // asked for on all ranks
        log({{"event", "train"}, {"step", p.global_step}, {"epoch", number}, {"loss", loss}, {"lr", run_.lr()}});
      }
      const bool last = run_.batch() == run_.batches();  // the end of the epoch saves by itself
      if (o_.save_every && p.global_step % o_.save_every == 0 && !last) save({});
      if (team_.any(Interrupt::requested()) && !last) return false;
    }
    const double rate = progress_.rate(), loss = run_.loss();
    double accuracy = 0;
    {
      Progress::Pause pause(progress_);
      accuracy = run_.test();
    }
    char text[128];
    std::snprintf(text, sizeof text, "epoch %d/%d  loss %.4f  test %s  %.0f images/s", int(number), o_.epochs, loss,
                  percent(accuracy).c_str(), rate);
    progress_.line(text);
    run_.end_epoch();
    save(accuracy);
    log({{"event", "epoch"},
         {"step", run_.progress.global_step},
         {"epoch", number},
         {"loss", loss},
         {"test_accuracy", accuracy},
         {"images_s", rate}});
    progress_.restart_clock();
    return !team_.any(Interrupt::requested()) || run_.progress.epoch >= o_.epochs;
  }

  void save(std::optional<double> accuracy) {
    Progress::Pause pause(progress_);
    run_.note();
    team_.lead([&] { folder_->save(run_.state(), accuracy); });
    log({{"event", "checkpoint"}, {"step", run_.progress.global_step}});
  }

  int interrupted() {
    save({});
    progress_.line(
        message("stopped after step ", run_.progress.global_step, "; the same command with --resume auto goes on"));
    return 130;
  }

  void summary() {
    progress_.line(message("done in ", duration(progress_.total()), resumed_ ? " since it was resumed: " : ": ",
                           o_.epochs, " epochs, ", run_.progress.global_step, " steps; best test accuracy ",
                           percent(run_.progress.best_metric.value_or(0)), "; checkpoints in ", o_.checkpoint));
  }

  const TrainOptions& o_;
  const Datasets& sets_;
  const Team& team_;
  Run run_;
  bool resumed_;
  std::optional<nn::CheckpointDirectory> folder_;  // the leading rank's
  std::optional<Metrics> metrics_;                 // the same
  Progress progress_;
};

}  // namespace

int train(const TrainOptions& o) {
  const Device device = set_up(o.machine);
  // Before data are fetched: a run that would refuse to start should do so at once.
  const auto from = find_resume_point(o);
  if (!o.force && !(from && from->own_folder))
    check<IoError>(!nn::latest_checkpoint(o.checkpoint), o.checkpoint,
                   " holds a run already: --resume auto goes on with it, --force starts anew over it, --checkpoint DIR "
                   "goes elsewhere");
  const bool leads = process_leads(o);
  Datasets sets = open_datasets(o.data, Parts::both, [&](const std::string& line) {
    if (leads) say(line);
  });
  if (leads) say("data: " + sets.why);
  Interrupt interrupt;
  return run_team(o, device, [&](const Team& team) { return Training(o, sets, from, team).all(); });
}

}  // namespace tandem::cifar10
