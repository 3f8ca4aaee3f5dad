/// The programs as launchers start them: a training whose losses can be compared, and ranks to be killed.
#pragma once
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

#include <functional>
#include <string>
#include <vector>

namespace tandem::test {

/// A program of ours by its path, with these arguments.
std::vector<std::string> ours(const std::string& name, const std::vector<std::string>& arguments = {});
/// Options of a short `cifar10 train`, on made-up images.
std::vector<std::string> short_training();
/// Such a training into that folder.
std::vector<std::string> training(const std::string& folder, const std::vector<std::string>& more);
/// Checks that its steps' losses are those of one process.
void check_same_losses(const std::string& folder);
/// What makes a training one without an end.
std::vector<std::string> endless();
/// Of toy_distributed's output: "rank 1 of 2: loss 0.88", sorted.
std::vector<std::string> toy_losses(const std::string& output);

/// A program and its arguments as one list of words.
Program started(const std::vector<std::string>& words);
Finished finished(const std::vector<std::string>& words);

/// Kills a rank of a training that runs into that folder, once it is under way: the process that a launcher has given
/// this variable ("RANK=1").
void kill_rank(const std::string& folder, const std::string& variable);
/// The bytes of the last checkpoint there.
std::string last_checkpoint(const std::string& folder);
/// Kills a rank of a training that runs into that folder without an end, and checks that every other rank's errors name
/// it. `variable` is what the launcher tells a rank its number by, `errors_of` what a rank has written to stderr.
void check_kill(const std::string& folder, int ranks, int victim, const std::string& variable,
                const std::function<std::string(int)>& errors_of);

}  // namespace tandem::test
