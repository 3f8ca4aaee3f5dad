#include <tandem/core/copy.h>
#include <tandem/parallel/gather_texts.h>
#include <tandem/parallel/model_agreement.h>

#include <algorithm>
#include <sstream>

namespace tandem {
namespace {

// FNV-1a of the values: equal where all bits are.
uint64_t hash_of(const Tensor& t) {
  const Tensor host = copy_of(t, {.dtype = t.dtype(), .device = cpu()});
  const auto* bytes = static_cast<const uint8_t*>(host.raw());
  uint64_t h = 14695981039346656037ull;
  for (size_t i = 0; i < size_t(host.numel()) * size_of(host.dtype()); ++i) h = (h ^ bytes[i]) * 1099511628211ull;
  return h;
}

// A line for each tensor.
std::string describe(const nn::NamedTensors& tensors) {
  std::string s;
  for (auto& [name, t] : tensors)
    s += message(name, ' ', t.shape(), ' ', t.dtype(), t.requires_grad() ? " requires grad" : "", '\n');
  return s;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What rank r's lines have otherwise than rank 0's.
std::string differences(int r, const std::vector<std::string>& first, const std::vector<std::string>& other) {
  std::string s;
  for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    const std::string a = i < first.size() ? first[i] : "nothing", b = i < other.size() ? other[i] : "nothing";
    if (a != b) s += message("\n  number ", i, ": rank 0 has ", a, ", rank ", r, " has ", b);
  }
  return s;
}

}  // namespace

void require_same_model(Communicator& c, const nn::NamedTensors& tensors) {
  const auto texts = gather_texts(c, describe(tensors));
  const auto first = lines_of(texts[0]);
  std::string all;
  for (int r = 1; r < c.size(); ++r) all += differences(r, first, lines_of(texts[size_t(r)]));
  check<CommError>(all.empty(), "[DistributedDataParallel] the ranks do not have the same model:", all);
}

void broadcast_tensors(Communicator& c, const nn::NamedTensors& tensors, int root) {
  std::vector<Work> works;
  for (auto& [name, t] : tensors) works.push_back(c.broadcast_async(t.detach(), root, {.label = name}));
  for (const Work& w : works) w.wait();
  for (auto& [name, t] : tensors) t.storage()->bump();
}

void require_same_values(Communicator& c, const nn::NamedTensors& tensors) {
  std::string mine;
  for (auto& [name, t] : tensors) mine += message(name, ' ', hash_of(t), '\n');
  const auto texts = gather_texts(c, mine);
  const auto first = lines_of(texts[0]);
  std::string all;
  for (int r = 1; r < c.size(); ++r) {
    const auto other = lines_of(texts[size_t(r)]);
    for (size_t i = 0; i < std::min(first.size(), other.size()); ++i)
      if (first[i] != other[i]) all += message("\n  rank ", r, ": ", tensors[i].first);
  }
  check<CommError>(all.empty(), "[DistributedDataParallel] values differ from rank 0's:", all);
}

}  // namespace tandem
