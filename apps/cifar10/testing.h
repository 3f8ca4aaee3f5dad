/// Using a trained network: how right it is on a set, and how to get it back from a checkpoint.
#pragma once
#include "apps/cifar10/datasets.h"

#include <tandem/tandem.h>

#include <map>
#include <memory>

namespace tandem::cifar10 {

struct Accuracy {
  std::vector<int64_t> right, all;  // by class
  double total() const;
};

/// Of `net` in evaluation mode; its mode is put back.
Accuracy accuracy(nn::Module& net, data::DataLoader& loader, Device device);

/// What a checkpoint must say so that its network can be used without other options.
std::map<std::string, std::string> describe(const std::string& net, const std::string& normalize, const Datasets& sets);

struct Trained {
  std::string file;
  std::unique_ptr<nn::Module> net;  // in evaluation mode
  std::string dataset, normalize;
  std::vector<std::string> classes;
};

/// From a checkpoint file, or from a run's folder: its best, else its latest. Throws IoError where there is none.
Trained load_trained(const std::string& file_or_folder, Device device);

}  // namespace tandem::cifar10
