/// A table of vectors, looked up by number (torch.nn.Embedding).
#pragma once
#include <tandem/nn/module.h>

namespace tandem::nn {

struct TANDEM_API Embedding : Module {
  struct Options {
    Dtype dtype = Dtype::f32;
    Device device = current_device();
  };
  Embedding(int64_t num_embeddings, int64_t embedding_dim) : Embedding(num_embeddings, embedding_dim, Options()) {}
  Embedding(int64_t num_embeddings, int64_t embedding_dim, Options options);

  /// Integers of any shape to [shape..., embedding_dim].
  Tensor forward(const Tensor& indices) override;
  /// Draws the table anew, normal with mean 0 and deviation 1.
  void reset_parameters();
  std::string extra_repr() const override;

  Tensor weight;  // [num_embeddings, embedding_dim]
};

}  // namespace tandem::nn
