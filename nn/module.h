/// Module: a part of a model that owns parameters, buffers and other modules as plain members and gives them names.
///
///     struct Net : nn::Module {
///       nn::Linear fc1{784, 100}, fc2{100, 10};
///       Net() { add("fc1", fc1); add("fc2", fc2); }
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
///     };
///
/// Registration keeps the members' addresses, so a module is neither copied nor moved.
#pragma once
#include <tandem/nn/named_tensors.h>

#include <functional>

namespace tandem::nn {

struct LoadOptions {
  /// false: what fits is loaded, the rest is reported.
  bool strict = true;
  /// true: nothing is changed, only looked at.
  bool dry_run = false;
};

/// What load_state_dict found amiss.
struct LoadReport {
  std::vector<std::string> missing;     // keys of the module that no entry has
  std::vector<std::string> unexpected;  // entries that the module has no place for
  std::vector<std::string> misshapen;   // "fc.weight [10,5], not [10,4]"
  bool clean() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
};
/// A line per kind of problem, each begun by a line break; empty where all is well.
TANDEM_API std::string to_string(const LoadReport&);

class TANDEM_API Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  /// The computation. A module that takes something else declares a `forward` of its own instead; this one then throws
  /// Error.
  virtual Tensor forward(const Tensor& x);
  /// The same on a tensor that nobody else needs: a module may override this to write over it.
  virtual Tensor consume(Tensor x) { return forward(x); }
  Tensor operator()(const Tensor& x) { return forward(x); }
  Tensor operator()(Tensor&& x) { return consume(std::move(x)); }

  /// Every parameter once, in order of registration: this module's own, then each child's (torch.nn.Module.parameters).
  std::vector<Tensor> parameters() const;
  /// The same with dotted names, "conv1.weight".
  NamedTensors named_parameters() const;
  /// Tensors that are part of the state and not trained, "bn1.running_mean".
  NamedTensors named_buffers() const;
  /// The direct children, in order of registration.
  std::vector<std::pair<std::string, Module*>> children() const { return children_; }
  /// This module (named "") and all below it, parents first.
  std::vector<std::pair<std::string, Module*>> named_modules();
  /// How many numbers the parameters have, each parameter counted once.
  int64_t num_parameters() const;

  /// Sets training mode, here and below (dropout and batch norm behave differently in evaluation mode).
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  /// Moves parameters, gradients and buffers, in place: every handle of theirs follows, an optimizer's state at its
  /// next step. Throws DeviceError where there is no such device, Error once a data-parallel wrapper holds them.
  void to(Device device);
  /// Converts the floating parameters, their gradients and the floating buffers, in place: every handle follows, views
  /// and detached tensors keep the old values. Throws DtypeError for a dtype that is not floating, Error once a
  /// data-parallel wrapper holds them.
  void to(Dtype dtype);
  /// Calls fn with every module below this one, children before parents, and then with this one.
  void apply(const std::function<void(Module&)>& fn);
  /// Marks every parameter's gradient as absent.
  void zero_grad() const;
  /// Freezes (false) or unfreezes every parameter, here and below.
  void requires_grad_(bool on = true);

  /// Every parameter and buffer under PyTorch's keys and in its order, sharing memory with the module.
  NamedTensors state_dict() const;
  /// Copies the entries into the parameters and buffers of those names, converting dtypes and devices; a `module.` that
  /// a data-parallel wrapper of PyTorch put before a key is ignored. With `strict`, any missing, unexpected or
  /// misshapen key is an Error that lists all of them, and nothing is changed. Returns what did not fit.
  LoadReport load_state_dict(const NamedTensors& entries, LoadOptions options = {});

  /// The class's name as the summary shows it.
  virtual std::string type_name() const;
  /// What the summary shows in parentheses: "3, 64, kernel_size=(3, 3)".
  virtual std::string extra_repr() const { return {}; }

 protected:
  /// Registers a member. Each member has one name, and each name one member: throws Error naming both otherwise, and
  /// for a name that is empty or has a dot.
  void add(const std::string& name, Module& child);
  /// A parameter: from now on it requires grad. An undefined tensor (a layer without bias) keeps its name and is in no
  /// list. Throws DtypeError for one that is not floating, Error for one that is not a leaf, dense and in memory of its
  /// own.
  void add(const std::string& name, Tensor& parameter);
  void add_buffer(const std::string& name, Tensor& buffer);

 private:
  struct Entry {
    std::string name;
    Tensor* tensor;
    bool is_parameter;
  };
  void reserve_name(const std::string& name, const void* member) const;
  bool contains(const Module& other) const;
  template <class F>
  void walk(const std::string& prefix, F&& visit) const;

  std::vector<Entry> tensors_;
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = true;
};

/// Nested as PyTorch prints a module, each line with its number of parameters, and the total below.
TANDEM_API std::string to_string(const Module&);
TANDEM_API std::ostream& operator<<(std::ostream&, const Module&);

}  // namespace tandem::nn
