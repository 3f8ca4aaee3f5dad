/// tandem-deaths: ends one rank of a group, in each manner in each phase of a training run, and holds against each
/// other's message that it names that rank and what it was in. Prints a table and what was wrong.
#include "tests/deaths/phases.h"

#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

using namespace tandem;
using namespace tandem::deaths;
using std::chrono::milliseconds;

namespace {

constexpr const char* kUsage =
    "usage: tandem-deaths [--quick] [--phase TEXT] [--manner TEXT] [--random N] [--seed N] [--jobs N] [--log]\n"
    "  --quick         one trial of each phase and manner, of SIGSTOP in few of them\n"
    "  --phase TEXT    only phases with TEXT in their names\n"
    "  --manner TEXT   only manners with TEXT in their names: SIGKILL, exception, exit 0, SIGSTOP\n"
    "  --random N      besides, N ranks of four are killed at random times (default 200; 0 with --quick)\n"
    "  --seed N        of those times\n"
    "  --jobs N        trials at a time (default 4: most of a trial is waiting)\n"
    "  --log           show what the ranks log\n"
    "Exit code: 0 all others named the one that ended, 1 some did not, 2 wrong usage.\n";

struct Options {
  bool quick = false, log = false;
  std::string phase, manner;
  int random = -1, jobs = 4;
  uint64_t seed = 1;
};

std::optional<Options> parse(const std::vector<std::string>& args) try {
  Options o;
  for (size_t i = 1; i < args.size(); ++i) {
    auto value = [&] { return args.at(++i); };
    if (args[i] == "--quick")
      o.quick = true;
    else if (args[i] == "--log")
      o.log = true;
    else if (args[i] == "--phase")
      o.phase = value();
    else if (args[i] == "--manner")
      o.manner = value();
    else if (args[i] == "--random")
      o.random = std::stoi(value());
    else if (args[i] == "--jobs")
      o.jobs = std::max(1, std::stoi(value()));
    else if (args[i] == "--seed")
      o.seed = std::stoull(value());
    else
      return {};
  }
  if (o.random < 0) o.random = o.quick || !o.phase.empty() ? 0 : 200;
  return o;
} catch (const std::exception&) {
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// Rank 0 and the last one, two to four ranks, by shared memory and by sockets; threads where they can end so.
void add_trials(const Phase& phase, Manner manner, const Options& o, std::vector<Trial>& trials) {
  static int number = 0;
  const int before = int(trials.size());
  auto add = [&](const char* transport, bool first) {
    const int ranks = 2 + number % 3;
    Trial t{.phase = phase.name,
            .manner = manner,
            .transport = transport,
            .ranks = ranks,
            .victim = first ? 0 : ranks - 1,
            .unwinds = number % 2 == 0,
            .log = o.log};
    if (!phase.possible(t) || (o.quick && int(trials.size()) > before)) return;
    trials.push_back(t);
    ++number;
  };
  for (bool first : number % 2 ? std::vector{false, true} : std::vector{true, false})
    for (const char* transport : number % 3 ? std::vector{"shm", "sockets"} : std::vector{"sockets", "shm"})
      add(transport, first);
  if (manner == Manner::exception)
    for (bool first : {true, false}) add("threads", first);
}

std::vector<Trial> random_trials(const Options& o) {
  std::vector<Trial> trials;
  std::mt19937_64 generator(o.seed);
  auto below = [&](int n) { return int(generator() % uint64_t(n)); };
  for (int i = 0; i < o.random; ++i) {
    const bool after_joining = i % 5 != 0;
    trials.push_back({.phase = all_of_it().name,
                      .transport = i % 2 ? "shm" : "sockets",
                      .ranks = 4,
                      .victim = below(4),
                      .unwinds = below(2) == 0,
                      .killed_after = milliseconds(below(after_joining ? 400 : 200)),
                      .after_joining = after_joining,
                      .deadline = milliseconds(5000),
                      .log = o.log});
  }
  return trials;
}

// Each trial's result, in their order; a few at a time.
std::vector<Result> run_all(const std::vector<Trial>& trials, int jobs) {
  std::vector<Result> results(trials.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  auto work = [&] {
    for (size_t i; (i = next++) < trials.size();) {
      try {
        results[i] = run(trials[i]);
        if (!results[i].victim_ended) {  // the machine is busy: others were waited for in vain before
          Trial slower = trials[i];
          slower.deadline *= 5;
          results[i] = run(slower);
        }
      } catch (const std::exception& e) {
        results[i].faults.push_back(e.what());
      }
      std::lock_guard lock(mutex);
      for (auto& fault : results[i].faults) std::cout << message(trials[i], ": ", fault) << std::endl;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < jobs; ++i) threads.emplace_back(work);
  for (auto& t : threads) t.join();
  return results;
}

// What several trials come to.
struct Sum {
  int survivors = 0, named = 0;
  size_t faults = 0;
  milliseconds slowest{0};
  void add(const Result& r) {
    survivors += r.survivors;
    named += r.named;
    faults += r.faults.size();
    slowest = std::max(slowest, r.slowest);
  }
  std::string text() const {
    if (survivors == 0) return faults ? "!" : "-";
    char s[64];
    std::snprintf(s, sizeof s, "%d/%d %6.2f s%s", named, survivors, double(slowest.count()) / 1000, faults ? " !" : "");
    return s;
  }
};

void print_table(const std::vector<Trial>& trials, const std::vector<Result>& results) {
  if (trials.empty()) return;
  std::map<std::string, std::map<Manner, Sum>> cells;
  for (size_t i = 0; i < trials.size(); ++i) cells[trials[i].phase][trials[i].manner].add(results[i]);
  auto line = [](const std::string& name, auto cell) {
    std::printf("%-28s", name.c_str());
    for (Manner m : kManners) std::printf("%-16s", std::string(cell(m)).c_str());
    std::printf("\n");
  };
  line("the others who named it, of", [](Manner m) { return to_string(m); });
  for (auto& phase : phases())
    if (cells.contains(phase.name)) line(phase.name, [&](Manner m) { return cells[phase.name][m].text(); });
}

size_t faults_in(const std::vector<Result>& results) {
  Sum all;
  for (auto& r : results) all.add(r);
  return all.faults;
}

// Returns the number of faults.
size_t print_random(const std::vector<Trial>& trials, const std::vector<Result>& results) {
  for (bool after_joining : {true, false}) {
    Sum sum;
    int victims = 0;
    for (size_t i = 0; i < trials.size(); ++i)
      if (trials[i].after_joining == after_joining) sum.add(results[i]), ++victims;
    if (victims > 0)
      std::cout << message(victims, " of four ranks killed at random times ",
                           after_joining ? "after all had joined" : "from their start on", ": ", sum.named, " of ",
                           sum.survivors, " others named them, after ", sum.slowest.count(), " ms at most\n");
  }
  return faults_in(results);
}

int run_and_report(const Options& o) {
  std::vector<Trial> trials;
  for (size_t i = 0; i < phases().size(); ++i)
    for (Manner m : kManners) {
      const Phase& phase = phases()[i];
      if (o.quick && m == Manner::stop && i % 5 != 0) continue;
      if (contains(phase.name, o.phase) && contains(to_string(m), o.manner)) add_trials(phase, m, o, trials);
    }
  const auto results = run_all(trials, o.jobs);
  print_table(trials, results);
  const auto at_random = random_trials(o);
  const size_t faults = faults_in(results) + print_random(at_random, run_all(at_random, o.jobs));
  const size_t all = trials.size() + at_random.size();
  std::cout << message(all, " trials, ", faults, " faults\n");
  return faults || all == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() > 1 && args[1] == "--as-rank") return run_as_rank(from_arguments(args));
  const auto options = parse(args);
  if (!options) {
    std::cerr << kUsage;
    return 2;
  }
  return run_and_report(*options);
} catch (const std::exception& e) {
  std::cerr << "tandem-deaths: " << e.what() << '\n';
  return 1;
}
