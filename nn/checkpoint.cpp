#include <tandem/nn/checkpoint.h>
#include <tandem/nn/safetensors.h>

#include <charconv>

namespace tandem::nn {
namespace {

constexpr std::string_view kPrefix = "tandem.", kOptimizer = "tandem.optimizer.", kScheduler = "tandem.scheduler.",
                           kPlateau = "tandem.plateau.", kExtra = "tandem.extra.";
constexpr const char *kVersion = "tandem.version", *kGenerator = "tandem.generator", *kRandom = "tandem.random",
                     *kProgress = "tandem.progress", *kBestMetric = "tandem.best_metric", *kData = "tandem.data";
constexpr int64_t kThisVersion = 1;

// Numbers with spaces between, in the shortest form that reads back as the same value.
template <class... T>
std::string numbers(T... values) {
  std::string s;
  auto one = [&](auto v) {
    char text[32];
    auto end = std::to_chars(text, text + sizeof text, v).ptr;
    if (!s.empty()) s += ' ';
    s.append(text, end);
  };
  (one(values), ...);
  return s;
}

template <class... T>
void read_numbers(const std::string& path, const char* key, std::string_view text, T&... to) {
  const char *at = text.data(), *end = at + text.size();
  bool ok = true, first = true;
  auto one = [&](auto& v) {
    if (!std::exchange(first, false)) ok = ok && at != end && *at++ == ' ';
    if (!ok) return;
    auto read = std::from_chars(at, end, v);
    ok = read.ec == std::errc();
    at = read.ptr;
  };
  (one(to), ...);
  check<IoError>(ok && at == end, "[load_checkpoint] ", path, ": ", key, " is not what it should be");
}

// A file taken apart, and every text in it understood.
struct Contents {
  NamedTensors model, optimizer;
  NamedNumbers scheduler, plateau;
  std::optional<Generator> generator;
  std::optional<RandomStep> random;
  std::optional<Progress> progress;
  std::map<std::string, std::string> extra;
};

const std::string* find(const Metadata& m, const char* key) {
  auto at = m.find(key);
  return at == m.end() ? nullptr : &at->second;
}

std::optional<Generator> read_generator(const std::string& path, const Metadata& m) {
  const std::string* text = find(m, kGenerator);
  if (!text) return {};
  Generator g;
  try {
    g.set_state(*text);
  } catch (const Error& e) {
    throw IoError(message("[load_checkpoint] ", path, ": ", kGenerator, ": ", e.what()));
  }
  return g;
}

std::optional<Progress> read_progress(const std::string& path, const Metadata& m) {
  const std::string* text = find(m, kProgress);
  if (!text) return {};
  Progress p;
  read_numbers(path, kProgress, *text, p.epoch, p.global_step);
  if (auto best = find(m, kBestMetric)) read_numbers(path, kBestMetric, *best, p.best_metric.emplace());
  if (auto data = find(m, kData))
    read_numbers(path, kData, *data, p.data.seed, p.data.sampler_seed, p.data.sampler_epoch, p.data.sampler_offset);
  return p;
}

void check_version(const std::string& path, const Metadata& m) {
  int64_t version = kThisVersion;
  if (auto text = find(m, kVersion)) read_numbers(path, kVersion, *text, version);
  check<IoError>(version <= kThisVersion, "[load_checkpoint] ", path, " has checkpoint format ", version,
                 ", this library knows ", kThisVersion);
}

Contents read(const std::string& path) {
  SafetensorsFile file = load(path, cpu());
  const Metadata& m = file.metadata;
  check_version(path, m);
  Contents c;
  for (auto& [key, t] : file.tensors) {
    auto number = [&, &key = key, &t = t](std::string_view prefix, NamedNumbers& to) {
      check<IoError>(t.numel() == 1, "[load_checkpoint] ", path, ": ", key, " has shape ", t.shape(),
                     ", not one number");
      to.emplace_back(key.substr(prefix.size()), t.item<double>());
    };
    if (key.starts_with(kOptimizer))
      c.optimizer.emplace_back(key.substr(kOptimizer.size()), std::move(t));
    else if (key.starts_with(kScheduler))
      number(kScheduler, c.scheduler);
    else if (key.starts_with(kPlateau))
      number(kPlateau, c.plateau);
    else
      c.model.emplace_back(key, std::move(t));
  }
  c.generator = read_generator(path, m);
  if (auto text = find(m, kRandom)) {
    auto& r = c.random.emplace();
    read_numbers(path, kRandom, *text, r.seed, r.step, r.call);
  }
  c.progress = read_progress(path, m);
  for (auto& [key, text] : m)
    if (key.starts_with(kExtra)) c.extra[key.substr(kExtra.size())] = text;
  return c;
}

void append(NamedTensors& to, std::string_view prefix, const NamedNumbers& numbers) {
  for (auto& [key, number] : numbers)
    to.emplace_back(message(prefix, key), full({}, number, {.dtype = Dtype::f64, .device = cpu()}));
}

// A schedule's own state, to be put back unless all goes well.
template <class S>
class Restorable {
 public:
  // Null where there is nothing to load.
  Restorable(S* schedule, const NamedNumbers& state) : schedule_(state.empty() ? nullptr : schedule), state_(state) {
    if (schedule_) before_ = schedule_->state_dict();
  }
  void load() {
    if (schedule_) schedule_->load_state_dict(state_);
  }
  void restore() {
    if (schedule_) schedule_->load_state_dict(before_);
  }

 private:
  S* schedule_;
  const NamedNumbers& state_;
  NamedNumbers before_;
};

// The schedules first and the optimizer over them: the rates that it had are what counts. Where one of them does not
// fit, all are as they were.
void load_training(const std::string& path, const Contents& c, const Checkpoint& into) {
  Restorable scheduler(into.scheduler, c.scheduler);
  Restorable plateau(into.plateau, c.plateau);
  std::vector<double> lrs;
  if (into.optimizer)
    for (ParamGroup& g : into.optimizer->param_groups()) lrs.push_back(g.lr);
  try {
    scheduler.load();
    plateau.load();
    if (into.optimizer && !c.optimizer.empty()) into.optimizer->load_state_dict(c.optimizer);
  } catch (const Error& e) {
    scheduler.restore();
    plateau.restore();
    for (size_t i = 0; i < lrs.size(); ++i) into.optimizer->param_groups()[i].lr = lrs[i];
    throw Error(message("[load_checkpoint] ", path, ": ", e.what()));
  }
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& from) {
  NamedTensors tensors;
  Metadata m = {{"format", "pt"}, {kVersion, numbers(kThisVersion)}};
  if (from.model) {
    tensors = from.model->state_dict();
    for (auto& [key, t] : tensors)
      check(!key.starts_with(kPrefix), "[save_checkpoint] the model's key ", key, " begins with ", kPrefix,
            ", which is reserved for the rest");
  }
  if (from.optimizer)
    for (auto& [key, t] : from.optimizer->state_dict()) tensors.emplace_back(message(kOptimizer, key), t);
  if (from.scheduler) append(tensors, kScheduler, from.scheduler->state_dict());
  if (from.plateau) append(tensors, kPlateau, from.plateau->state_dict());
  if (from.generator) m[kGenerator] = from.generator->state();
  if (from.random) m[kRandom] = numbers(from.random->seed, from.random->step, from.random->call);
  if (const Progress* p = from.progress) {
    m[kProgress] = numbers(p->epoch, p->global_step);
    if (p->best_metric) m[kBestMetric] = numbers(*p->best_metric);
    m[kData] = numbers(p->data.seed, p->data.sampler_seed, p->data.sampler_epoch, p->data.sampler_offset);
  }
  if (from.extra)
    for (auto& [key, text] : *from.extra) m[message(kExtra, key)] = text;
  save(path, tensors, m);
}

LoadReport load_checkpoint(const std::string& path, const Checkpoint& into, LoadOptions options) {
  Contents c = read(path);
  LoadReport report;
  if (into.model) report = into.model->load_state_dict(c.model, {.strict = false, .dry_run = true});
  auto need = [&](const char* part, bool asked, bool there) {
    if (asked && !there) report.missing.emplace_back(part);
  };
  need("tandem.optimizer", into.optimizer, !c.optimizer.empty());
  need("tandem.scheduler", into.scheduler, !c.scheduler.empty());
  need("tandem.plateau", into.plateau, !c.plateau.empty());
  need(kGenerator, into.generator, c.generator.has_value());
  need(kRandom, into.random, c.random.has_value());
  need(kProgress, into.progress, c.progress.has_value());
  check(!options.strict || report.clean(), "[load_checkpoint] ", path, " does not fit:", report);
  if (options.dry_run) return report;

  load_training(path, c, into);
  if (into.model) into.model->load_state_dict(c.model, {.strict = false});
  if (into.generator && c.generator) *into.generator = *c.generator;
  if (into.random && c.random) {
    c.random->row_offset = into.random->row_offset;  // the replica's, not the run's
    *into.random = *c.random;
  }
  if (into.progress && c.progress) *into.progress = *c.progress;
  if (into.extra) *into.extra = std::move(c.extra);
  return report;
}

std::optional<Progress> load_progress(const std::string& path) {
  SafetensorsHeader header = load_header(path);
  check_version(path, header.metadata);
  return read_progress(path, header.metadata);
}

}  // namespace tandem::nn
