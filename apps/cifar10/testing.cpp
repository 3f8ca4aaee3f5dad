#include "apps/cifar10/testing.h"

#include "apps/models/models.h"

#include <filesystem>
#include <numeric>
#include <sstream>

namespace tandem::cifar10 {

double Accuracy::total() const {
  int64_t n = std::accumulate(all.begin(), all.end(), int64_t{0});
  return n ? double(std::accumulate(right.begin(), right.end(), int64_t{0})) / double(n) : 0;
}

Accuracy accuracy(nn::Module& net, data::DataLoader& loader, Device device) {
  NoGradGuard no_grad;
  const bool was = net.is_training();
  net.eval();
  Accuracy a;
  for (auto& [images, labels] : loader) {
    auto found = argmax(net(images.to(device)), 1).to_vector<int64_t>();
    auto wanted = labels.to_vector<int64_t>();
    for (size_t i = 0; i < found.size(); ++i) {
      auto k = size_t(wanted[i]);
      if (k >= a.all.size()) {
        a.all.resize(k + 1);
        a.right.resize(k + 1);
      }
      ++a.all[k];
      a.right[k] += found[i] == wanted[i];
    }
  }
  net.train(was);
  return a;
}

std::map<std::string, std::string> describe(const std::string& net, const std::string& normalize,
                                            const Datasets& sets) {
  std::string classes;
  for (auto& c : sets.classes) classes += message(classes.empty() ? "" : ",", c);
  return {{"net", net}, {"normalize", normalize}, {"dataset", sets.name}, {"classes", classes}};
}

Trained load_trained(const std::string& where, Device device) {
  Trained t;
  t.file = where;
  check<IoError>(std::filesystem::exists(where), where,
                 ": there is no such checkpoint; `cifar10 train` makes one, --checkpoint says where it is");
  if (std::filesystem::is_directory(where)) {
    auto found = nn::best_checkpoint(where);
    if (!found) found = nn::latest_checkpoint(where);
    check<IoError>(found.has_value(), where, ": no checkpoint in this folder; `cifar10 train` makes one");
    t.file = *found;
  }
  std::map<std::string, std::string> extra;
  nn::load_checkpoint(t.file, {.extra = &extra});
  check<IoError>(extra.count("net"), t.file, ": no checkpoint of this program: it does not say which network it holds");
  t.net = models::make(extra["net"]);
  nn::load_checkpoint(t.file, {.model = t.net.get()});
  t.net->to(device);
  t.net->eval();
  t.dataset = extra["dataset"];
  t.normalize = extra["normalize"];
  std::istringstream classes(extra["classes"]);
  for (std::string c; std::getline(classes, c, ',');) t.classes.push_back(c);
  return t;
}

}  // namespace tandem::cifar10
