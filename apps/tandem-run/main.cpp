/// tandem-run: starts a program as the ranks of one group, on this machine or on several.
#include "apps/tandem-run/cluster.h"
#include "apps/tandem-run/job.h"

#include <tandem/core/error.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>

using namespace tandem;
using namespace tandem::launcher;

namespace {

// A folder for this launcher's own files; the warden, too, removes it.
struct OwnFolder {
  std::string path = (std::filesystem::temp_directory_path() / "tandem-run-XXXXXX").string();
  OwnFolder() { check<IoError>(::mkdtemp(path.data()), "no temporary folder could be made: ", path); }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (int code = parse(argc, argv, options); code >= 0) return code;
  try {
    Signals signals;
    OwnFolder folder;
    Warden warden(folder.path);
    if (const std::string advice = advice_in_cluster(options, process_environment()); !advice.empty())
      std::cerr << "tandem-run: " << advice << '\n';
    return Job(options, signals, warden, folder.path).run();
  } catch (const std::exception& e) {
    std::cerr << "tandem-run: " << e.what() << '\n';
    return 1;
  }
}
