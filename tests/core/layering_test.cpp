// Who may include whom: the table of docs/architecture.md, held against the #include lines of the tree.
#include "tests/support/source_tree.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace tandem::test;

namespace {

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"core", {"core"}},
    {"ops", {"core", "ops"}},
    {"cuda", {"core", "ops", "cuda"}},
    {"nn", {"core", "ops", "nn"}},
    {"amp", {"core", "ops", "nn", "amp"}},
    {"data", {"core", "ops", "data"}},
    {"parallel", {"core", "ops", "nn", "parallel"}},
    {"apps", {"core", "ops", "nn", "amp", "data", "parallel", "apps"}}};
// Of the CUDA library: NCCL as parallel's engine on GPUs.
const std::string kNccl = "parallel/nccl_";
const std::set<std::string> kNcclMayInclude{"core", "ops", "parallel", "cuda"};

// What the operating system and the compiler bring.
const std::set<std::string> kSystem{"omp.h",         "unistd.h",     "fcntl.h",        "dlfcn.h",     "poll.h",
                                    "pthread.h",     "sched.h",      "spawn.h",        "signal.h",    "netdb.h",
                                    "immintrin.h",   "sys/mman.h",   "sys/stat.h",     "sys/file.h",  "sys/wait.h",
                                    "sys/types.h",   "sys/socket.h", "sys/resource.h", "sys/ioctl.h", "linux/futex.h",
                                    "sys/syscall.h", "netinet/in.h", "netinet/tcp.h"};

struct Include {
  std::string name;  // between the brackets or quotes
  bool quoted;
};

std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }), line.end());
    if (!line.starts_with("#include")) continue;
    const auto open = line.find_first_of("<\""), close = line.find_first_of(">\"", open + 1);
    if (open != line.npos && close != line.npos)
      found.push_back({line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return found;
}

// A header of the standard library has no path and no ending: <vector>.
bool is_standard(const std::string& name) { return name.find_first_of("./") == name.npos; }

// "tandem/nn/linear.h" is of nn; the umbrella is of none.
std::string folder_of(const std::string& name) {
  const auto from = std::string("tandem/").size(), slash = name.find('/', from);
  return slash == name.npos ? "" : name.substr(from, slash - from);
}

// What is wrong with this line of this file, or nothing.
std::string breach(const SourceFile& f, const Include& i) {
  const bool nccl = f.path.starts_with(kNccl);
  const auto& allowed = nccl ? kNcclMayInclude : kMayInclude.at(f.folder);
  if (i.name.starts_with("tandem/")) {
    if (i.quoted) return "is written with quotes";
    const std::string folder = folder_of(i.name);
    if (folder.empty()) return f.folder == "apps" ? "" : "is the umbrella, which is for users";
    return allowed.contains(folder) ? "" : "is of a folder that " + f.folder + " may not include";
  }
  if (i.quoted) return f.folder == "apps" || f.folder == "cuda" ? "" : "is not spelled <tandem/folder/file.h>";
  if (is_standard(i.name)) return "";
  if (f.is_installed() && f.folder != "apps") return "is neither standard nor ours, in an installed header";
  if (kSystem.contains(i.name)) return "";
  if (f.is_header() && f.folder != "cuda" && !nccl) return "is a library's, in a header";
  if (f.folder == "core") return "is a library's, which core does without";
  return "";
}

std::vector<std::string> breaches(const SourceFile& f) {
  std::vector<std::string> found;
  for (auto& i : includes_of(f.text))
    if (const std::string what = breach(f, i); !what.empty()) found.push_back(f.path + ": " + i.name + " " + what);
  return found;
}

}  // namespace

TEST_CASE("no source includes what its folder may not") {
  std::set<std::string> seen;
  for (auto& [folder, allowed] : kMayInclude)
    for (auto& file : sources_of(folder)) {
      seen.insert(folder);
      for (auto& what : breaches(file)) FAIL_CHECK(what);
    }
  for (const char* folder : {"core", "ops", "nn"}) CHECK(seen.contains(folder));  // the tree was found at all
}

TEST_CASE("the test sees what it should") {
  auto what = [](const std::string& folder, const std::string& path, const std::string& text) {
    return breaches({folder, path, text});
  };
  CHECK(what("core", "core/a.h", "#include <vector>\n#include <tandem/core/b.h>\n").empty());
  CHECK(what("core", "core/a.h", "#include <tandem/ops/b.h>").size() == 1);
  CHECK(what("parallel", "parallel/a.cpp", "#include <tandem/cuda/check.h>").size() == 1);
  CHECK(what("parallel", "parallel/nccl_a.cpp", "#include <tandem/cuda/check.h>").empty());
  CHECK(what("ops", "ops/a.cpp", "#include <tandem/nn/b.h>").size() == 1);
  CHECK(what("data", "data/a.cpp", "#  include <tandem/nn/b.h>").size() == 1);
  CHECK(what("nn", "nn/a.h", "#include <nlohmann/json.hpp>").size() == 1);
  CHECK(what("nn", "nn/a.cpp", "#include <nlohmann/json.hpp>").empty());
  CHECK(what("ops", "ops/a.h", "/// Not installed: x\n#include <dnnl.hpp>").size() == 1);
  CHECK(what("ops", "ops/a.h", "/// Not installed: x\n#include <immintrin.h>").empty());
  CHECK(what("ops", "ops/a.h", "/// x\n#include <immintrin.h>").size() == 1);
  CHECK(what("core", "core/a.cpp", "#include <dnnl.hpp>").size() == 1);
  CHECK(what("core", "core/a.cpp", "#include <sys/mman.h>").empty());
  CHECK(what("core", "core/a.cpp", "#include \"b.h\"").size() == 1);
  CHECK(what("nn", "nn/a.cpp", "#include \"tandem/nn/a.h\"").size() == 1);
  CHECK(what("nn", "nn/a.cpp", "#include <tandem/tandem.h>").size() == 1);
}

// Each header is read alone by somebody: what it needs it includes, and nothing is read twice.
TEST_CASE("headers are guarded and say in their first lines what they are for") {
  for (auto& [folder, allowed] : kMayInclude) {
    if (folder == "apps") continue;
    for (auto& file : sources_of(folder)) {
      if (!file.is_header()) continue;
      CAPTURE(file.path);
      CHECK(file.text.starts_with("/// "));
      CHECK(file.text.find("#pragma once") != std::string::npos);
    }
  }
}
