#include "apps/tandem-run/job.h"

#include <tandem/core/error.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace tandem::launcher {
namespace {

using std::chrono::milliseconds;

// After the first failure: what the ranks are given to say what they know, and then to end after SIGTERM.
constexpr milliseconds kHearCause{100}, kGrace{400};
constexpr milliseconds kLastWords{200};  // to carry what they had printed
constexpr size_t kLastLines = 10;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::string in_seconds(Clock::duration d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", seconds(d));
  return text;
}

// "0-3,8"
std::string ranges(std::vector<int> cores) {
  std::sort(cores.begin(), cores.end());
  std::string text;
  for (size_t i = 0, j = 0; i < cores.size(); i = j) {
    for (j = i + 1; j < cores.size() && cores[j] == cores[j - 1] + 1;) ++j;
    text += message(i ? "," : "", cores[i]);
    if (j > i + 1) text += message("-", cores[j - 1]);
  }
  return text;
}

void say(const std::string& text) { std::cerr << message("tandem-run: ", text, '\n') << std::flush; }

Descriptor open_log(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  check<IoError>(bool(file), "can't write ", path, ": ", std::strerror(errno));
  return file;
}

std::string end_of_file(const std::string& path) {
  constexpr std::streamoff kBytes = 8192;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kBytes));
  return {std::istreambuf_iterator<char>(in), {}};
}

// Where a program of ours is, named without its folder; else empty.
std::string beside_the_launcher(const std::string& name) {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
  return name.find('/') == std::string::npos && ::access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

}  // namespace

Job::Job(const Options& options, Signals& signals, Warden& warden, std::string folder)
    : options_(options), signals_(signals), warden_(warden), folder_(std::move(folder)), token_(make_token()) {
  if (options.master_port <= 0) port_.emplace(options.master_addr);
  const std::vector<int> cores = usable_cores();
  threads_without_cores_ = std::max(1, int(cores.size()) / options.ranks);
  cores_ = divide_cores(options.pin ? cores : std::vector<int>(), options.ranks);
}

void Job::announce() const {
  const int all = options_.nodes * options_.ranks;
  std::string text = message(options_.ranks, options_.ranks == 1 ? " rank" : " ranks");
  if (options_.nodes > 1) text += message(" of ", all, " (node ", options_.node_rank, " of ", options_.nodes, ')');
  text += message(", meeting at ", options_.master_addr, ':', port_ ? port_->number() : options_.master_port);
  if (cores_[0].empty()) {
    text += message(", not pinned to cores, ", threads_without_cores_,
                    threads_without_cores_ == 1 ? " thread" : " threads", " each");
  } else {
    text += ", pinned to cores";
    for (size_t i = 0; i < cores_.size(); ++i) text += message(i ? "; " : " ", ranges(cores_[i]));
  }
  say(text);
}

void Job::connect(Rank& rank, int local, ChildProcessOptions& o) {
  const struct {
    int which, console;
    const char* name;
    int ChildProcessOptions::*end;
    std::shared_ptr<Stream> Rank::*stream;
  } both[] = {{kStdout, STDOUT_FILENO, "stdout.log", &ChildProcessOptions::output, &Rank::out},
              {kStderr, STDERR_FILENO, "stderr.log", &ChildProcessOptions::error, &Rank::err}};
  for (auto& s : both) {
    const bool redirected = options_.redirects.has(local, s.which), teed = options_.tee.has(local, s.which);
    // What is neither kept nor marked goes straight to the console; but stderr's last lines are always wanted.
    if (!redirected && !teed && s.which == kStdout) continue;
    Pipe pipe = make_pipe();
    auto stream = std::make_shared<Stream>();
    stream->from = std::move(pipe.read);
    if (!redirected) stream->console = s.console;
    if (teed) stream->prefix = message('[', rank.number, "]: ");
    if ((redirected || teed) && !rank.log.empty()) stream->file = open_log(rank.log + "/" + s.name);
    rank.*s.stream = stream;
    o.*s.end = pipe.write.release();
  }
}

void Job::start_rank(int local, int attempt) {
  Rank rank;
  rank.number = options_.node_rank * options_.ranks + local;
  if (!options_.log_dir.empty()) {
    rank.log = message(options_.log_dir, "/attempt_", attempt, '/', rank.number);
    std::filesystem::create_directories(rank.log);
  }
  const auto& cores = cores_[size_t(local)];
  ChildProcessOptions o{
      .command = options_.command, .executable = beside_the_launcher(options_.command[0]), .cores = cores};
  o.environment = variables_of({.rank = rank.number,
                                .world_size = options_.nodes * options_.ranks,
                                .local_rank = local,
                                .local_world_size = options_.ranks,
                                .master_addr = options_.master_addr,
                                .master_port = port_ ? port_->number() : options_.master_port,
                                .token = token_,
                                .threads = cores.empty() ? threads_without_cores_ : int(cores.size())});
  o.environment["GROUP_RANK"] = message(options_.node_rank);
  o.environment["TANDEM_RESTART_COUNT"] = message(attempt);
  rank.verdict = message(folder_, '/', attempt, '-', rank.number);
  o.environment["TANDEM_ERROR_FILE"] = rank.verdict;
  connect(rank, local, o);
  const Descriptor out(o.output), err(o.error), null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // In a process group of its own it can't read from the terminal: it would be stopped.
  if (local > 0 || ::isatty(STDIN_FILENO)) o.input = null.get();
  processes_.emplace_back(o);
  warden_.watch(processes_.back().pid());
  for (auto& stream : {rank.out, rank.err})
    if (stream) pump_.add(stream);
  ranks_.push_back(std::move(rank));
}

void Job::start(int attempt) {
  ranks_.clear();
  order_.clear();
  began_ = Clock::now();
  for (int local = 0; local < options_.ranks; ++local) start_rank(local, attempt);
}

bool Job::running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](auto& r) { return !r.ended; });
}

// Looks who has ended, having waited for something to happen.
void Job::look(milliseconds timeout) {
  std::vector<pollfd> polled{{signals_.event(), POLLIN, 0}};
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (!ranks_[i].ended) polled.push_back({processes_[i].event(), POLLIN, 0});
  ::poll(polled.data(), polled.size(), int(timeout.count()));
  if (polled[0].revents) take_signal();
  std::vector<int> now;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended || !(ranks_[i].ended = processes_[i].ended())) continue;
    ranks_[i].end = Clock::now();
    now.push_back(int(i));
  }
  // Of those seen at once, the ones that a signal ended come first: the others may have failed for want of them.
  std::stable_sort(now.begin(), now.end(), [&](int a, int b) {
    return (ranks_[size_t(a)].ended->signal != 0) > (ranks_[size_t(b)].ended->signal != 0);
  });
  order_.insert(order_.end(), now.begin(), now.end());
}

void Job::take_signal() {
  const int signal = signals_.next();
  if (signal == 0) return;
  if (signal == SIGTSTP) {
    for (auto& p : processes_) p.signal(SIGSTOP);
    ::raise(SIGSTOP);
    for (auto& p : processes_) p.signal(SIGCONT);
    return;
  }
  if (asked_by_) {
    patience_ends_ = Clock::now();
    return;
  }
  asked_by_ = signal;
  patience_ends_ =
      Clock::now() + std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(options_.shutdown_timeout));
  say(message(signal_name(signal), ": handed on to the ranks, which have ", options_.shutdown_timeout,
              " s to end; once more kills them"));
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (!ranks_[i].ended) processes_[i].signal(signal);
}

bool Job::watch() {
  auto failed = [&] {
    return std::any_of(order_.begin(), order_.end(), [&](int i) { return !ranks_[size_t(i)].ended->well(); });
  };
  while (running() && !asked_by_ && !failed()) look(std::chrono::minutes(1));
  if (asked_by_) {
    while (running() && Clock::now() < patience_ends_)
      look(std::chrono::ceil<milliseconds>(
          std::min<Clock::duration>(patience_ends_ - Clock::now(), std::chrono::minutes(1))));
    return false;
  }
  const auto until = Clock::now() + kHearCause;
  while (running() && Clock::now() < until && !asked_by_) look(std::chrono::ceil<milliseconds>(until - Clock::now()));
  return !failed();
}

void Job::end_all() {
  stop(processes_, asked_by_ ? milliseconds(0) : kGrace);
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (!ranks_[i].ended) {
      ranks_[i].ended = processes_[i].ended();
      ranks_[i].end = Clock::now();
    }
  // What the ranks have started goes before the streams are waited for: it may hold them open.
  for (auto& p : processes_) p.signal(SIGKILL);
  for (auto& r : ranks_)
    for (auto& stream : {r.out, r.err})
      if (stream) pump_.wait(*stream, Clock::now() + kLastWords);
  for (auto& p : processes_) warden_.forget(p.pid());
  processes_.clear();
}

// What the ranks say of each other, by the files that their groups write on a verdict.
std::optional<Job::Verdict> Job::verdict() const {
  for (auto& r : ranks_) {
    std::ifstream in(r.verdict);
    Verdict v;
    if (!(in >> v.culprit) || v.culprit < 0) continue;
    in.ignore();
    v.why.assign(std::istreambuf_iterator<char>(in), {});
    return v;
  }
  return {};
}

int Job::first_to_fail(const std::optional<Verdict>& verdict) const {
  int first = -1;
  for (int i : order_) {
    const Rank& r = ranks_[size_t(i)];
    if (r.ended->well()) continue;
    if (first < 0 || (verdict && r.number == verdict->culprit)) first = i;
  }
  return first;
}

std::string Job::last_lines(const Rank& r) {
  const std::string text = r.err ? pump_.tail(*r.err) : end_of_file(r.log + "/stderr.log");
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string shown;
  for (size_t i = lines.size() - std::min(lines.size(), kLastLines); i < lines.size(); ++i)
    shown += message("\n  | ", lines[i]);
  return shown;
}

void Job::report_failure(int attempt) {
  const auto known = verdict();
  const int first = first_to_fail(known);
  const Rank& r = ranks_[size_t(first)];
  std::string text =
      message("rank ", r.number, " failed first: it ", to_string(*r.ended), " after ", in_seconds(r.end - began_));
  if (options_.max_restarts) text += message(" (attempt ", attempt, " of 0 to ", options_.max_restarts, ')');
  const std::string lines = last_lines(r);
  text += lines.empty() ? "; it had nothing to say on stderr" : "; its last lines:" + lines;
  if (!r.log.empty()) text += message("\n  log: ", r.log);
  if (known) text += message("\n  the others say: ", known->why);
  Clock::time_point last = r.end;
  std::string others;
  for (auto& other : ranks_) {
    if (&other == &r) continue;
    others += message("\n  rank ", other.number, ' ', other.ended ? to_string(*other.ended) : "is held by the kernel");
    last = std::max(last, other.end);
  }
  if (!others.empty()) text += message("\n  the others ended within ", in_seconds(last - r.end), ':', others);
  say(text);
}

int Job::run() {
  announce();
  for (int attempt = 0;; ++attempt) {
    bool well = false;
    try {
      start(attempt);
      well = watch();
    } catch (...) {
      end_all();
      throw;
    }
    end_all();
    if (asked_by_) return 128 + asked_by_;
    if (well) return 0;
    report_failure(attempt);
    const Ended ended = *ranks_[size_t(first_to_fail(verdict()))].ended;
    if (attempt == options_.max_restarts) return ended.signal ? 128 + ended.signal : std::max(1, ended.code);
    say(message("starting again, ", attempt + 1, " of ", options_.max_restarts, " restarts"));
  }
}

}  // namespace tandem::launcher
