#include <tandem/parallel/gather_texts.h>

#include <algorithm>

namespace tandem {

std::vector<std::string> gather_texts(Communicator& c, const std::string& mine) {
  Tensor sizes = empty({c.size(), 1}, {.dtype = Dtype::i64, .device = cpu()});
  c.all_gather(sizes, tensor({int64_t(mine.size())}, {.device = cpu()}), {.label = "sizes of descriptions"});
  const auto n = sizes.to_vector<int64_t>();
  const int64_t longest = *std::max_element(n.begin(), n.end());
  std::vector<uint8_t> padded(mine.begin(), mine.end());
  padded.resize(size_t(longest));
  Tensor all = empty({c.size(), longest}, {.dtype = Dtype::u8, .device = cpu()});
  c.all_gather(all, from_vector(padded, {longest}, {.device = cpu()}), {.label = "descriptions"});
  std::vector<std::string> texts;
  for (int r = 0; r < c.size(); ++r) {
    const auto bytes = all.select(0, r).to_vector<uint8_t>();
    texts.emplace_back(bytes.begin(), bytes.begin() + n[size_t(r)]);
  }
  return texts;
}

}  // namespace tandem
