#include <tandem/core/error.h>
#include <tandem/core/version.h>
#include <tandem/parallel/mpi_plugin.h>

#include <dlfcn.h>

#include <filesystem>

namespace tandem {
namespace {

// Beside the library that this function is part of.
std::string path_of_plugin() {
  const std::string file = message("libtandem_mpi.so.", TANDEM_VERSION_MAJOR);
  Dl_info here{};
  if (!::dladdr(reinterpret_cast<const void*>(&mpi_plugin), &here)) return file;
  return std::filesystem::path(here.dli_fname).replace_filename(file).string();
}

ConnectByMpi& open_plugin() {
  const std::string path = path_of_plugin();
  std::error_code ignored;
  check(std::filesystem::exists(path, ignored), "[init_process_group] backend mpi: there is no ", path,
        ": Tandem was built without MPI. Install one (Debian: apt-get install libopenmpi-dev openmpi-bin) and build "
        "again with -DTANDEM_MPI=ON; or use backend cpu, which needs none");
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  check(
      library != nullptr, "[init_process_group] backend mpi: ", library ? "" : ::dlerror(),
      ". Install the MPI that Tandem was built with (Debian: apt-get install openmpi-bin), or build again with the one "
      "that is here");
  void* const connect = ::dlsym(library, "tandem_connect_by_mpi");
  check(connect != nullptr, "[init_process_group] backend mpi: ", path, " is not of this Tandem: install it anew");
  return *reinterpret_cast<ConnectByMpi*>(connect);
}

}  // namespace

ConnectByMpi& mpi_plugin() {
  static ConnectByMpi& connect = open_plugin();  // kept open: MPI can't be started twice
  return connect;
}

}  // namespace tandem
