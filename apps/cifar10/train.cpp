// The training loop: steps, tests, checkpoints, and the words around them.
#include "apps/cifar10/commands.h"
#include "apps/cifar10/interrupt.h"
#include "apps/cifar10/metrics.h"
#include "apps/cifar10/progress.h"
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

// Loads what --resume names. Returns whether there was anything to go on from.
bool resume(Run& run, const TrainOptions& o) {
  if (o.resume.empty()) return false;
  std::optional<std::string> file = o.resume;
  if (o.resume == "auto") {
    file = nn::latest_checkpoint(o.checkpoint);
    if (!file) {
      say(message("nothing to resume in ", o.checkpoint, ": starting anew"));
      return false;
    }
  } else if (fs::is_directory(o.resume)) {
    file = nn::latest_checkpoint(o.resume);
    check<IoError>(file.has_value(), o.resume, ": no checkpoint in this folder");
  }
  std::map<std::string, std::string> options;
  nn::load_checkpoint(*file, {.extra = &options});
  run.require_same_options(options);
  nn::load_checkpoint(*file, run.state());
  run.resume();
  say(message("resumed from ", *file, ": epoch ", run.progress.epoch + 1, ", step ", run.progress.global_step));
  return true;
}

class Training {
 public:
  Training(const TrainOptions& o, const Datasets& sets)
      : o_(o),
        sets_(sets),
        run_(o, sets),
        resumed_(resume(run_, o)),
        folder_(o.checkpoint, {.keep_last = o.keep,
                               .existing = resumed_  ? nn::Existing::keep
                                           : o.force ? nn::Existing::replace
                                                     : nn::Existing::refuse}),
        metrics_((fs::path(o.checkpoint) / "metrics.jsonl").string(), resumed_),
        progress_(o.epochs, o.epochs * run_.train_size(), run_.progress.epoch * run_.train_size() + run_.images()) {}

  int all() {
    log({{"event", resumed_ ? "resume" : "start"},
         {"step", run_.progress.global_step},
         {"epoch", run_.progress.epoch},
         {"net", o_.net},
         {"dataset", sets_.name},
         {"batch_size", o_.batch_size},
         {"lr", o_.lr},
         {"seed", o_.seed},
         {"parameters", run_.net().num_parameters()}});
    progress_.restart_clock();
    while (run_.progress.epoch < o_.epochs)
      if (!epoch()) return interrupted();
    summary();
    return 0;
  }

 private:
  void log(const Json& event) { metrics_.write(event.dump()); }

  bool epoch() {
    const int64_t number = run_.progress.epoch + 1;
    while (int64_t images = run_.step()) {
      auto& p = run_.progress;
      progress_.step(int(number), run_.batch(), run_.batches(), images, run_.loss());
      if (p.global_step % o_.log_every == 0)
        log({{"event", "train"}, {"step", p.global_step}, {"epoch", number}, {"loss", run_.loss()}, {"lr", run_.lr()}});
      const bool last = run_.batch() == run_.batches();  // the end of the epoch saves by itself
      if (o_.save_every && p.global_step % o_.save_every == 0 && !last) save({});
      if (Interrupt::requested() && !last) return false;
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
    return !Interrupt::requested() || run_.progress.epoch >= o_.epochs;
  }

  void save(std::optional<double> accuracy) {
    Progress::Pause pause(progress_);
    run_.note();
    folder_.save(run_.state(), accuracy);
    log({{"event", "checkpoint"}, {"step", run_.progress.global_step}});
  }

  int interrupted() {
    save({});
    progress_.line(
        message("stopped after step ", run_.progress.global_step, "; the same command with --resume auto goes on"));
    return 130;
  }

  void summary() {
    progress_.line(message("done: ", o_.epochs, " epochs, ", run_.progress.global_step, " steps; best test accuracy ",
                           percent(run_.progress.best_metric.value_or(0)), "; checkpoints in ", o_.checkpoint));
  }

  const TrainOptions& o_;
  const Datasets& sets_;
  Run run_;
  bool resumed_;
  nn::CheckpointDirectory folder_;
  Metrics metrics_;
  Progress progress_;
  Interrupt interrupt_;
};

}  // namespace

int train(const TrainOptions& o) {
  set_up(o.machine);
  // Before data are fetched: a run that would refuse to start should do so at once.
  if (o.resume.empty() && !o.force)
    check<IoError>(!nn::latest_checkpoint(o.checkpoint), o.checkpoint,
                   " holds a run already: --resume auto goes on with it, --force starts anew over it, --checkpoint DIR "
                   "goes elsewhere");
  Datasets sets = open_datasets(o.data, Parts::both, say);
  say("data: " + sets.why);
  Training training(o, sets);
  return training.all();
}

}  // namespace tandem::cifar10
