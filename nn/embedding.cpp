#include <tandem/nn/embedding.h>
#include <tandem/nn/init.h>
#include <tandem/ops/embedding.h>

namespace tandem::nn {

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, Options o) {
  weight = empty({num_embeddings, embedding_dim}, {.dtype = o.dtype, .device = o.device});
  add("weight", weight);
  reset_parameters();
}

void Embedding::reset_parameters() { init::normal_(weight); }

Tensor Embedding::forward(const Tensor& indices) { return embedding(indices, weight); }

std::string Embedding::extra_repr() const { return message(weight.size(0), ", ", weight.size(1)); }

}  // namespace tandem::nn
