#include <tandem/nn/activation.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/softmax.h>
#include <tandem/ops/unary.h>

namespace tandem::nn {

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor ReLU::consume(Tensor x) { return relu(std::move(x)); }

Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, negative_slope); }
Tensor LeakyReLU::consume(Tensor x) { return leaky_relu(std::move(x), negative_slope); }
std::string LeakyReLU::extra_repr() const { return message("negative_slope=", negative_slope); }

Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Sigmoid::consume(Tensor x) { return sigmoid(std::move(x)); }

Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Tanh::consume(Tensor x) { return tanh(std::move(x)); }

Tensor SiLU::forward(const Tensor& x) { return silu(x); }

Tensor GELU::forward(const Tensor& x) { return gelu(x, approximate); }
std::string GELU::extra_repr() const { return message("approximate='", approximate, "'"); }

Tensor Softmax::forward(const Tensor& x) { return softmax(x, dim); }
std::string Softmax::extra_repr() const { return message("dim=", dim); }

Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, dim); }
std::string LogSoftmax::extra_repr() const { return message("dim=", dim); }

}  // namespace tandem::nn
