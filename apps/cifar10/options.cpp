#include "apps/cifar10/options.h"

#include "apps/cifar10/suggest.h"

#include <tandem/core/error.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>

namespace tandem::cifar10 {
namespace {

// A JSON file's options as the words of a command line: {"epochs": 3} is --epochs=3, and {"batch_size": 3} is
// --batch-size=3.
std::vector<std::string> config_words(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw CLI::FileError::Missing(path);
  auto j = nlohmann::json::parse(in, nullptr, false);
  if (!j.is_object()) throw CLI::FileError(path + ": this is no JSON object of options");
  std::vector<std::string> words;
  for (auto& [key, value] : j.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    words.push_back(message("--", name, '=', value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return words;
}

// The command line with the options of its --config file put before its own, which therefore win.
std::vector<std::string> with_config(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::string flag = "--config";
  for (size_t i = 1; i < words.size(); ++i) {
    std::string path;
    if (words[i] == flag && i + 1 < words.size())
      path = words[i + 1];
    else if (words[i].starts_with(flag + '='))
      path = words[i].substr(flag.size() + 1);
    else
      continue;
    auto from_file = config_words(path);
    words.insert(words.begin() + 1, from_file.begin(), from_file.end());
    break;
  }
  return words;
}

std::string nearest_option(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) names.push_back(message("--", name));
  return nearest(word.substr(0, word.find('=')), names);
}

// Whether the first word is a command, or none at all; else says which there are.
bool is_command(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  std::string list;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
    list += message(list.empty() ? "" : ", ", names.back());
  }
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return true;
  std::cerr << "cifar10: there is no command " << word << "; the commands are " << list << '\n';
  if (std::string near = nearest(word, names); !near.empty()) std::cerr << "  did you mean " << near << "?\n";
  return false;
}

void add_machine(CLI::App& app, MachineOptions& o) {
  app.add_option("--device", o.device, "cpu, cpu:1, cuda, cuda:1, ...")->capture_default_str()->group("Machine");
  app.add_option("--threads", o.threads, "0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->group("Machine");
}

void add_data(CLI::App& app, DataOptions& o, const char* what) {
  app.add_option("--data", o.data, "folder of the data set, or its parent")->envname("TANDEM_DATA")->group("Data");
  app.add_option("--dataset", o.dataset, what)
      ->check(CLI::IsMember({"auto", "cifar10", "fashion-mnist", "synthetic"}))
      ->capture_default_str()
      ->group("Data");
  app.add_flag_callback(
         "--no-download", [&o] { o.download = false; }, "do not fetch CIFAR-10 where it is missing")
      ->group("Data");
}

void add_train(CLI::App& app, TrainOptions& o) {
  add_data(app, o.data, "insist on one data set; auto: the best that is to be had");
  app.add_option("--normalize", o.normalize, "half: mean and std 0.5; cifar10: that set's own")
      ->check(CLI::IsMember({"half", "cifar10"}))
      ->capture_default_str()
      ->group("Data");
  app.add_option("--workers", o.workers, "loader threads")
      ->check(CLI::Range(0, 64))
      ->capture_default_str()
      ->group("Data");
  app.add_option("--limit-train", o.limit_train, "train on the first N images only; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Data");
  app.add_option("--limit-test", o.limit_test, "test on the first N images only; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Data");
  app.add_option("--net", o.net, "which network")
      ->check(CLI::IsMember({"net", "resnet18", "mlp", "small"}))
      ->capture_default_str()
      ->group("Training");
  app.add_option("--epochs", o.epochs)->check(CLI::PositiveNumber)->capture_default_str()->group("Training");
  app.add_option("--batch-size", o.batch_size, "of all replicas together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group("Training");
  app.add_option("--lr", o.lr, "learning rate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Training");
  app.add_option("--momentum", o.momentum)->check(CLI::NonNegativeNumber)->capture_default_str()->group("Training");
  app.add_option("--weight-decay", o.weight_decay)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Training");
  app.add_option("--schedule", o.schedule, "of the learning rate")
      ->check(CLI::IsMember({"none", "step", "cosine", "onecycle"}))
      ->capture_default_str()
      ->group("Training");
  app.add_option("--seed", o.seed, "of weights, order and augmentation")->capture_default_str()->group("Training");
  add_machine(app, o.machine);
  app.add_flag("--step-graph,!--no-step-graph", o.step_graph, "on GPUs: capture the training step, and replay it")
      ->group("Machine");
  app.add_option("--parallel", o.parallel,
                 "dp: DataParallel; ddp: DistributedDataParallel, on threads or under tandem-run, srun, mpirun")
      ->check(CLI::IsMember({"none", "dp", "ddp"}))
      ->capture_default_str()
      ->group("Machine");
  app.add_option("--replicas", o.replicas,
                 "how many train together; 0: one for each GPU, core, or process of a launcher")
      ->check(CLI::Range(0, kMaxDevices))
      ->capture_default_str()
      ->group("Machine");
  app.add_option("--checkpoint", o.checkpoint, "folder of the run: checkpoints and metrics.jsonl")
      ->capture_default_str()
      ->group("Checkpoints");
  app.add_option("--save-every", o.save_every, "steps between checkpoints; 0: after each epoch")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group("Checkpoints");
  app.add_option("--keep", o.keep, "how many of the last checkpoints stay, beside the best")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group("Checkpoints");
  app.add_option("--resume", o.resume, "a checkpoint, a run's folder, or auto: this run's last one")
      ->group("Checkpoints");
  app.add_flag("--force", o.force, "start anew over an existing run")->group("Checkpoints");
  app.add_option("--log-every", o.log_every, "steps between lines of metrics.jsonl")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group("Checkpoints");
  app.add_option("--config", o.config, "a JSON file of these options; the command line wins")->group("Checkpoints");
}

}  // namespace

int parse(int argc, char** argv, Options& o) {
  CLI::App app{"Trains small networks on CIFAR-10, and uses them.", "cifar10"};
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_help_all_flag("--help-all", "help of all commands");

  CLI::App& train = *app.add_subcommand("train", "train a network, testing after each epoch");
  add_train(train, o.train);

  CLI::App& eval = *app.add_subcommand("eval", "test accuracy of a checkpoint");
  add_data(eval, o.eval.data, "which data set; auto: what the checkpoint was trained on");
  eval.add_option("--checkpoint", o.eval.checkpoint, "a file, or a run's folder")->capture_default_str();
  eval.add_option("--batch-size", o.eval.batch_size)->check(CLI::PositiveNumber)->capture_default_str();
  add_machine(eval, o.eval.machine);

  CLI::App& predict = *app.add_subcommand("predict", "classes of images (PNG, JPEG, PPM)");
  predict.add_option("images", o.predict.images, "files, or folders of them")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  predict.add_option("--checkpoint", o.predict.checkpoint, "a file, or a run's folder")->capture_default_str();
  predict.add_option("--top", o.predict.top, "classes shown of each")->check(CLI::Range(1, 10))->capture_default_str();
  add_machine(predict, o.predict.machine);

  CLI::App& exp = *app.add_subcommand("export", "the network's weights alone, as PyTorch loads them");
  exp.add_option("--checkpoint", o.export_.checkpoint, "a file, or a run's folder")->capture_default_str();
  exp.add_option("--out", o.export_.out, "the file to write")->capture_default_str();
  exp.add_flag("--force", o.export_.force, "write over an existing file");

  if (argc > 1 && !is_command(app, argv[1])) return 2;
  std::vector<std::string> words;
  try {
    words = with_config(argc, argv);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them last one first
  } catch (const CLI::ExtrasError& e) {
    const CLI::App& used = app.get_subcommands().empty() ? app : *app.get_subcommands().front();
    std::cerr << "cifar10: " << e.what() << '\n';
    for (const std::string& word : words)  // those of the JSON file too
      if (word.starts_with("--") && !used.get_option_no_throw(word.substr(0, word.find('='))))
        if (std::string near = nearest_option(used, word); !near.empty())
          std::cerr << "  " << word << ": did you mean " << near << "?\n";
    return 2;
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  o.command = app.get_subcommands().front()->get_name();
  return -1;
}

}  // namespace tandem::cifar10
