/// tandem-golden: holds the library against numbers computed by the reference (PyTorch on a CPU): op cases, training
/// runs and sequences, in every directory given. Prints a line per failure and a closing count.
// The ops' tests are linked in for their adapters; doctest's own code must be somewhere, its tests are not run.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/golden/op_cases.h"
#include "tests/golden/report.h"
#include "tests/golden/sequences.h"
#include "tests/golden/training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

namespace fs = std::filesystem;
using namespace tandem;
using namespace tandem::golden;

namespace {

constexpr const char* kUsage =
    "usage: tandem-golden [--f32 | --f64] [--filter TEXT] [--device D] [--list] DIR...\n"
    "  --f32, --f64    in this precision only (otherwise in both)\n"
    "  --filter TEXT   only what has TEXT in its label, e.g. 'norm 3' or conv2d\n"
    "  --device D      where the ops run: cpu (default), cuda:0\n"
    "  --list          print the labels, run nothing\n"
    "Exit code: 0 all pass, 1 something failed, 2 wrong usage.\n";

// Empty where the arguments make no sense.
std::optional<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    if (a == "--f32")
      o.dtypes = {Dtype::f32};
    else if (a == "--f64")
      o.dtypes = {Dtype::f64};
    else if (a == "--list")
      o.list = true;
    else if (a == "--filter" && i + 1 < argc)
      o.filter = argv[++i];
    else if (a == "--device" && i + 1 < argc)
      o.device = parse_device(argv[++i]);
    else if (a.starts_with("-"))
      return {};
    else
      o.folders.push_back(a);
  }
  if (o.folders.empty()) return {};
  return o;
}

// Pixels that the image models' runs of this folder share; nothing where there are none.
SafetensorsFile shared_images(const std::string& folder) {
  const std::string path = folder + "/images.safetensors";
  return fs::exists(path) ? load(path) : SafetensorsFile{};
}

void run_file(const fs::path& path, const SafetensorsFile& images, const Options& options, Report& report) {
  if (path.filename() == "sequences.json") run_sequences(path.string(), options, report);
  if (path.extension() != ".safetensors") return;
  SafetensorsFile file = load(path.string());
  if (file.metadata.contains("cases")) run_op_cases(path.stem().string(), file, options, report);
  if (file.metadata.contains("run")) run_training(path.stem().string(), file, images, options, report);
}

void run_folder(const std::string& folder, const Options& options, Report& report) {
  std::vector<fs::path> files;
  for (auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  SafetensorsFile images;
  auto guarded = [&](const std::string& label, auto&& part) {
    try {
      part();
    } catch (const std::exception& e) {
      report.fail(label, e.what());
    }
  };
  guarded("images.safetensors", [&] { images = shared_images(folder); });
  for (auto& path : files) guarded(path.filename().string(), [&] { run_file(path, images, options, report); });
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<Options> options;
  try {
    options = parse(argc, argv);
    if (options) {
      require_device(options->device);
      context().device = options->device;
    }
  } catch (const DeviceError& e) {
    std::cerr << "tandem-golden: " << e.what() << '\n';
    return 2;
  }
  if (!options) {
    std::cerr << kUsage;
    return 2;
  }
  Report report(std::cout);
  for (const std::string& folder : options->folders) {
    if (!fs::is_directory(folder)) {
      std::cerr << "tandem-golden: " << folder << " is not a directory\n";
      return 2;
    }
    run_folder(folder, *options, report);
  }
  if (report.ran_nothing()) report.fail("tandem-golden", "there is nothing to run");
  if (!options->list) std::cout << report.summary() << '\n';
  return report.failures() == 0 ? 0 : 1;
}
