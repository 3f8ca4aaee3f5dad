/// What `cifar10` was asked to do: one struct of options a subcommand, filled by CLI11 from the command line and a JSON
/// file.
#pragma once
#include "apps/cifar10/machine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::cifar10 {

struct DataOptions {
  std::string data;              // folder; empty: TANDEM_DATA, ./data, download, ...
  std::string dataset = "auto";  // auto, cifar10, fashion-mnist, synthetic
  bool download = true;
};

struct TrainOptions {
  DataOptions data;
  std::string normalize = "half";  // half: mean and std 0.5; cifar10: that set's own
  std::string net = "net";
  int epochs = 10;
  int batch_size = 128;  // of all replicas together
  double lr = 0.01, momentum = 0.9, weight_decay = 5e-4;
  std::string schedule = "none";  // none, step, cosine, onecycle
  uint64_t seed = 0;
  int workers = 1;
  MachineOptions machine;
  bool step_graph = true;                   // on GPUs
  std::string parallel = "none";            // none, dp, ddp
  int replicas = 0;                         // 0: one for each GPU, core, or process of a launcher
  std::string checkpoint = "runs/cifar10";  // a folder
  int save_every = 0;                       // steps; 0: at the end of each epoch
  int keep = 2;                             // the last k, beside the best
  std::string resume;                       // empty, auto, a file, or the folder of another run
  bool force = false;
  std::string config;   // a JSON file, read before the rest
  int log_every = 50;   // steps between lines of metrics.jsonl
  int limit_train = 0;  // images; 0: all
  int limit_test = 0;
};

struct EvalOptions {
  DataOptions data;
  std::string checkpoint = "runs/cifar10";  // a file or a folder
  int batch_size = 500;
  MachineOptions machine;
};

struct PredictOptions {
  std::string checkpoint = "runs/cifar10";
  std::vector<std::string> images;  // files or folders
  int top = 3;
  MachineOptions machine;
};

struct ExportOptions {
  std::string checkpoint = "runs/cifar10";
  std::string out = "net.safetensors";
  bool force = false;
};

struct Options {
  std::string command;  // train, eval, predict, export
  TrainOptions train;
  EvalOptions eval;
  PredictOptions predict;
  ExportOptions export_;
};

/// Fills `o`. Returns the exit code where the program is already done (help was asked for, or the line is wrong: then
/// what is wrong is on stderr, with the option it was probably meant to be), else -1.
int parse(int argc, char** argv, Options& o);

}  // namespace tandem::cifar10
