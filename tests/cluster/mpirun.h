/// A real mpirun (Open MPI's) and what its ranks print.
#pragma once
#include "tests/support/environment.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/core/error.h>

#include <string>
#include <vector>

namespace tandem::test {

class Mpirun {
 public:
  Mpirun(int ranks, const std::vector<std::string>& command, const std::vector<std::string>& options = {})
      : program_("mpirun", words(ranks, command, options)) {}

  /// Its exit code, or minus the signal that ended it.
  int wait() { return program_.wait(); }
  bool running() { return program_.running(); }
  void signal(int number) const { program_.signal(number); }
  /// What is printed to stdout, and what mpirun itself says.
  std::string output() const { return program_.output(); }
  /// What one rank has written to its stderr.
  std::string error_of(int rank) const { return read_text(folder_ / message("error.", rank)); }

 private:
  std::vector<std::string> words(int ranks, const std::vector<std::string>& command,
                                 const std::vector<std::string>& options) const {
    std::vector<std::string> w{"--allow-run-as-root", "--oversubscribe", "-n", message(ranks)};
    w.insert(w.end(), options.begin(), options.end());
    // Past mpirun, which at times drops the last words of those that end while it ends the job.
    w.insert(w.end(), {"sh", "-c", "exec 2> \"$0$OMPI_COMM_WORLD_RANK\" && exec \"$@\"", folder_ / "error."});
    w.insert(w.end(), command.begin(), command.end());
    return w;
  }

  TemporaryFolder folder_;
  Program program_;
};

}  // namespace tandem::test
