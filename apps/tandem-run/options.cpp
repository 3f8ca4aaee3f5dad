#include "apps/tandem-run/options.h"

#include "apps/tandem-run/cluster.h"

#include <tandem/core/error.h>
#include <tandem/parallel/rank_environment.h>
#include <tandem/parallel/rendezvous.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>

namespace tandem::launcher {
namespace {

constexpr int kDefaultPort = 29500;  // torchrun's
constexpr int kMostRanks = 1024;

int number(const std::string& text, int least, int most, const std::string& what) {
  char* rest = nullptr;
  const long value = std::strtol(text.c_str(), &rest, 10);
  if (text.empty() || *rest || value < least || value > most)
    throw CLI::ValidationError(what, message("'", text, "' is no number from ", least, " to ", most));
  return int(value);
}

Streams streams(const std::string& text, const std::string& what) {
  Streams s;
  if (text.find(':') == std::string::npos) {
    s.all = number(text, 0, 3, what);
    return s;
  }
  std::istringstream in(text);
  for (std::string pair; std::getline(in, pair, ',');) {
    const size_t colon = std::min(pair.find(':'), pair.size() - 1);
    const int rank = number(pair.substr(0, colon), 0, kMostRanks, what);
    s.of_local_rank[rank] = number(pair.substr(colon + 1), 0, 3, what);
  }
  return s;
}

// Where the program's own words begin: after the options, which are the words that begin with a dash and, of those that
// take a value, the next.
int first_word_of_program(const CLI::App& app, int argc, char** argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string word = argv[i];
    if (word == "--") return i + 1;
    const CLI::Option* option = app.get_option_no_throw(word);
    if (option && option->get_items_expected() > 0) ++i;
  }
  return std::min(i, argc);
}

// torchrun's names of the options in the environment: PET_NODE_RANK for --node-rank.
void take_environment(CLI::App& app) {
  for (CLI::Option* o : app.get_options()) {
    if (o->get_lnames().empty() || o == app.get_help_ptr()) continue;
    std::string name = o->get_lnames()[0];
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : char(std::toupper(c)); });
    o->envname("PET_" + name);
  }
}

void check_together(Options& o, const std::string& endpoint, bool standalone) {
  if (!endpoint.empty()) {
    if (!o.master_addr.empty() || o.master_port >= 0)
      throw CLI::ValidationError("--rdzv-endpoint",
                                 "it stands for --master-addr and --master-port: give the one or the others");
    const size_t colon = endpoint.rfind(':');
    o.master_addr = endpoint.substr(0, colon);
    if (colon != std::string::npos) o.master_port = number(endpoint.substr(colon + 1), 0, 65535, "--rdzv-endpoint");
  }
  if (standalone && (o.nodes > 1 || !o.master_addr.empty() || o.master_port > 0))
    throw CLI::ValidationError("--standalone", "it is for this machine alone, with a free port");
  if (o.node_rank >= o.nodes)
    throw CLI::ValidationError("--node-rank",
                               message(o.node_rank, " of ", o.nodes, " nodes: they are numbered from 0"));
  if (o.nodes > 1) {
    if (o.master_addr.empty())
      throw CLI::ValidationError("--master-addr",
                                 "with several nodes, say the address of the first one, the same on all");
    if (o.master_port == 0)
      throw CLI::ValidationError("--master-port", "with several nodes, a free port could not be known to the others");
    if (o.master_port < 0) o.master_port = kDefaultPort;
    if (!std::getenv("TANDEM_TOKEN"))
      throw CLI::ValidationError("TANDEM_TOKEN",
                                 "several nodes prove to each other that they know a secret: export "
                                 "TANDEM_TOKEN, the same on all (one is made by: openssl rand -hex 16)");
  }
  if (o.master_addr.empty()) o.master_addr = "127.0.0.1";
  if (o.redirects.any() && o.log_dir.empty()) throw CLI::ValidationError("--redirects", "where to? It needs --log-dir");
  if (!o.log_dir.empty() && !o.redirects.any() && !o.tee.any()) o.tee.all = kStdout | kStderr;
  if (const std::string why = misuse_in_cluster(o, process_environment()); !why.empty())
    throw CLI::ValidationError("tandem-run", why);
}

}  // namespace

int parse(int argc, char** argv, Options& o) {
  CLI::App app{
      "Starts a program as N processes, the ranks of one group. They are told who they are by environment variables\n"
      "alone (RANK, WORLD_SIZE, LOCAL_RANK, ...), which init_process_group reads. What an option does not say is "
      "taken\n"
      "from PET_NNODES, PET_NODE_RANK and so on, where they are set, as torchrun takes it.",
      "tandem-run"};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string ranks = "1", endpoint, tee = "0", redirects = "0", program_name;
  bool standalone = false, no_pin = false;
  app.add_option("-n,--nproc-per-node,--nproc_per_node", ranks,
                 "ranks on this machine: a number, or auto or cpu for one per core")
      ->capture_default_str();
  app.add_option("--nnodes", o.nodes, "machines; tandem-run is started once on each")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--node-rank,--node_rank", o.node_rank, "which of them this is, from 0")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--master-addr,--master_addr", o.master_addr, "address of machine 0, where rank 0 runs");
  app.add_option("--master-port,--master_port", o.master_port, "default: a free one; 29500 with several machines")
      ->check(CLI::Range(0, 65535));
  app.add_option("--rdzv-endpoint,--rdzv_endpoint", endpoint, "both as HOST:PORT");
  app.add_flag("--standalone", standalone, "this machine alone, with a free port: the default");
  app.add_option("--max-restarts,--max_restarts", o.max_restarts, "after a failure start all ranks again, so often")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--log-dir,--log_dir", o.log_dir,
                 "folder for attempt_A/RANK/stdout.log and stderr.log; alone it implies --tee 3");
  app.add_option("-r,--redirects", redirects,
                 "streams that go to their files alone: 1 stdout, 2 stderr, 3 both; 0:1,1:3 by local rank")
      ->capture_default_str();
  app.add_option("-t,--tee", tee,
                 "streams that are shown with [rank]: before each line, and kept if there is a --log-dir")
      ->capture_default_str();
  app.add_flag("--no-pin,--no_pin", no_pin, "leave the ranks all cores (they are divided among them)");
  app.add_option("--shutdown-timeout,--shutdown_timeout", o.shutdown_timeout,
                 "seconds that ranks have to end after Ctrl-C; a second one kills them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("PROGRAM", program_name, "what is started; all words after it are its arguments, untouched")
      ->required();
  take_environment(app);
  const int program = first_word_of_program(app, argc, argv);
  try {
    // The program's arguments are not for this parser, whatever they look like. It takes the last word first.
    std::vector<std::string> words(argv + 1, argv + std::min(program + 1, argc));
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    o.command.assign(argv + program, argv + argc);
    o.pin = !no_pin;
    o.ranks = ranks == "auto" || ranks == "cpu" ? std::max(1, int(usable_cores().size()))
                                                : number(ranks, 1, kMostRanks, "--nproc-per-node");
    o.tee = streams(tee, "--tee");
    o.redirects = streams(redirects, "--redirects");
    check_together(o, endpoint, standalone);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return -1;
}

}  // namespace tandem::launcher
