#include "tests/deaths/part.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

namespace tandem::deaths {
namespace {

constexpr size_t kLongestLine = 4000;  // written in one piece

}  // namespace

// "RANK NANOSECONDS WHAT"
void Part::say(const std::string& what) const {
  std::string line = message(rank_, ' ', std::chrono::steady_clock::now().time_since_epoch().count(), ' ', what);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = line.substr(0, kLongestLine) + '\n';
  if (::write(STDOUT_FILENO, line.data(), line.size()) != ssize_t(line.size())) std::abort();
}

void Part::tell(const CommError& e) {
  if (!std::exchange(told_, true)) say(message("NAMES ", e.rank, ' ', e.what()));
}

void Part::die(std::chrono::milliseconds after) const {
  if (!is_victim()) return;
  std::this_thread::sleep_for(after);
  say("DIES");
  switch (trial_.manner) {
    case Manner::kill: ::kill(::getpid(), SIGKILL); break;
    case Manner::stop: ::kill(::getpid(), SIGSTOP); break;
    case Manner::exit: std::exit(0);
    case Manner::exception: throw OwnTrouble();
  }
  std::this_thread::sleep_for(std::chrono::hours(1));  // the signal is on its way
}

void Part::die_in(std::chrono::milliseconds time) const {
  if (!is_victim()) return;
  if (trial_.manner == Manner::exception) die();
  std::thread([self = Part(trial_, rank_), time] {
    std::this_thread::sleep_for(time);
    self.die();
  }).detach();
}

}  // namespace tandem::deaths
