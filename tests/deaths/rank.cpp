// What a process of a trial does: one rank, or all of them as threads.
#include "tests/deaths/phases.h"

#include <tandem/core/log.h>
#include <tandem/core/parallel_for.h>
#include <tandem/parallel/run_replicas.h>

#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace tandem::deaths {
namespace {

using std::chrono::milliseconds;

// Whoever runs the trial closes this process's input when all have been heard.
void wait_for_the_end() {
  char none;
  while (::read(STDIN_FILENO, &none, 1) > 0) {
  }
}

// A rank whose phase had no need of the victim finds out at its next call.
void go_on(Part& p) {
  for (int i = 0; i < 200; ++i) {
    p.communicator().barrier({.label = "next"});
    std::this_thread::sleep_for(milliseconds(20));
  }
}

void act(const Phase& phase, Part& p, ProcessGroup& group) try {
  p.enter(group);
  p.communicator().barrier({.label = "first"});
  p.say("JOINED");
  if (phase.act) phase.act(p);
  if (!phase.harmless) go_on(p);
} catch (const CommError& e) {
  p.tell(e);
  if (!p.trial().unwinds) wait_for_the_end();
  throw;
}

// Returns when this rank's group has ended.
void play(const Phase& phase, Part& p, milliseconds deadline) try {
  if (phase.before) phase.before(p);
  ProcessGroup group({.timeout = deadline, .transport = p.trial().transport});
  act(phase, p, group);
} catch (const CommError& e) {
  p.tell(e);  // where it has not joined
}

// Whatever it ends in is said.
void finish(const Part& p, const std::function<void()>& f) try {
  f();
  p.say("LEFT");
} catch (const CommError&) {
  p.say("LEFT");
  throw;
} catch (const OwnTrouble&) {
  p.say("THREW");
  throw;
} catch (const std::exception& e) {
  p.say(message("FAILED ", e.what()));
  throw;
}

void run_ranks(const Phase& phase, const Trial& trial, milliseconds deadline) {
  if (trial.transport == "threads")
    return run_replicas(trial.ranks,
                        [&](int rank) {
                          Part p(trial, rank);
                          finish(p, [&] { act(phase, p, current_process_group()); });
                        },
                        {.threads = 1, .timeout = deadline, .alone = true});
  Part p(trial, launched_rank().value());
  finish(p, [&] { play(phase, p, deadline); });
}

}  // namespace

int run_as_rank(const Trial& trial) {
  if (!trial.log) set_log_sink(nullptr);
  set_num_threads(1);
  const Phase& phase = phase_named(trial.phase);
  int code = 0;
  try {
    run_ranks(phase, trial, in_vain(trial) ? trial.deadline : kLongDeadline);
  } catch (const std::exception&) {
    code = 1;
  }
  wait_for_the_end();
  return code;
}

}  // namespace tandem::deaths
