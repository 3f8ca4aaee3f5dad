/// Modules one after the other (torch.nn.Sequential). It owns them, and names them "0", "1", ...
///
///     nn::Sequential net;
///     net.append<nn::Conv2d>(3, 64, {.kernel = 3, .padding = 1}).append<nn::ReLU>().append<nn::MaxPool2d>(2);
#pragma once
#include <tandem/nn/module.h>

#include <memory>

namespace tandem::nn {

class TANDEM_API Sequential : public Module {
 public:
  /// A module made in place, from what its constructor takes.
  template <class M, class... Args>
  Sequential& append(Args&&... args) {
    return append(std::make_unique<M>(std::forward<Args>(args)...));
  }
  // The same where the last argument is an aggregate of options, so that it can be written in braces.
  template <class M>
  Sequential& append(int64_t size, typename M::Options options) {
    return append(std::make_unique<M>(size, std::move(options)));
  }
  template <class M>
  Sequential& append(int64_t in, int64_t out, typename M::Options options) {
    return append(std::make_unique<M>(in, out, std::move(options)));
  }
  Sequential& append(std::unique_ptr<Module> module);

  size_t size() const { return modules_.size(); }
  /// Throws Error out of range.
  Module& operator[](size_t i) const;

  Tensor forward(const Tensor& x) override;
  /// Each result is the next module's to write over.
  Tensor consume(Tensor x) override;

 private:
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace tandem::nn
