// A program that asks for backend mpi where there is no libtandem_mpi beside the library, or one that does not load.
#include "tests/support/environment.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/core/version.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("backend mpi: without an MPI, programs say what to install, and run without it otherwise") {
  TemporaryFolder lib;
  const std::string name = message("libtandem.so.", TANDEM_VERSION_MAJOR),
                    plugin = lib / message("libtandem_mpi.so.", TANDEM_VERSION_MAJOR);
  std::filesystem::copy(std::string(TANDEM_PROGRAM_DIR) + "/../lib/" + name, lib / name);
  Variable path("LD_LIBRARY_PATH", lib.path());
  const std::vector<std::string> alone{"-n", "1", "toy_distributed"};
  {
    Variable backend("TANDEM_BACKEND", "mpi");
    Finished r = run_program("tandem-run", alone);
    INFO(r.output);
    CHECK(r.code != 0);
    CHECK(says(r.output, "backend mpi: there is no " + plugin));
    CHECK(says(r.output, "apt-get install libopenmpi-dev openmpi-bin"));
    CHECK(says(r.output, "-DTANDEM_MPI=ON"));

    write_text(plugin, "not a library");
    r = run_program("tandem-run", alone);
    CHECK(r.code != 0);
    CHECK(says(r.output, "backend mpi: " + plugin + ": "));
    CHECK(says(r.output, "Install the MPI that Tandem was built with"));
  }
  CHECK(run_program("tandem-run", alone).code == 0);
}
