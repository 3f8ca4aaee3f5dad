/// What all optimizers share: groups of parameters with options of their own, flat memory, state that can be saved.
///
/// Construction lays the parameters' values, and their gradients, side by side, per device and dtype and in reversed
/// order (about that in which gradients become ready), and the states follow the same order; so one pass over memory
/// updates them all. Every handle of a parameter or a gradient follows. Memory that another optimizer or a wrapper has
/// laid out stays where it is.
#pragma once
#include <tandem/core/node.h>
#include <tandem/nn/named_tensors.h>
#include <tandem/ops/param_row.h>

#include <optional>
#include <ranges>
#include <variant>

namespace tandem::nn {

/// Parameters that share options. Options may be changed between steps, parameters may not.
struct TANDEM_API ParamGroup {
  std::vector<Tensor> params;
  double lr = 0;
  double weight_decay = 0;
  bool maximize = false;
  std::optional<double> initial_lr;  // what schedulers compute from; set by the first of them

  struct Option {
    const char* name;
    std::variant<double*, bool*> value;
  };
  /// The options by name, as saved.
  virtual std::vector<Option> options();
  /// What OneCycleLR cycles along with the learning rate, or null: SGD's momentum, Adam's beta1.
  virtual double* cycled_momentum() { return nullptr; }
  virtual ~ParamGroup() = default;
};

class TANDEM_API Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// `optimizer.param_groups()[0].lr = 0.1` holds from the next step on.
  auto param_groups() {
    return groups_ | std::views::transform([](auto& g) -> ParamGroup& { return *g; });
  }

  /// Marks every gradient as absent; the next backward overwrites it.
  virtual void zero_grad() const;
  /// Updates every parameter that has a gradient. One without is skipped, its state too. A frozen parameter is skipped
  /// once its gradient is gone. Parameters that have moved or were converted take their state along.
  virtual void step();

  /// The state under names that hold whatever the optimizer: "momentum_buffer.3" for the third parameter (counted from
  /// 0 over all groups) in its shape, "step.3", "group0.lr". The tensors share memory with the optimizer. A run that
  /// loads them goes on bit for bit.
  virtual NamedTensors state_dict();
  /// Copies what state_dict() returned, converting devices and dtypes. Throws Error listing whatever is missing,
  /// unexpected or misshapen, and then nothing is changed.
  virtual void load_state_dict(const NamedTensors& state);

 protected:
  /// The parameters of one device and dtype, last one first.
  struct Table {
    Device device;
    Dtype dtype{};
    std::vector<ParamRow> rows;
    std::vector<size_t> slots;   // of each row
    int64_t elements = 0;        // of each state
    std::vector<Tensor> states;  // [elements] each; undefined where no group needs it
    Tensor steps;                // f64 [rows], where updates are counted
    Tensor options;              // f64 [groups, options]
  };
  struct Description {
    const char* name;                      // "SGD"
    std::vector<const char*> state_names;  // "momentum_buffer"
    bool counts_steps = false;             // keeps a count of each parameter's updates
    int options = 0;                       // numbers per group that the kernel reads
  };
  explicit Optimizer(Description d) : description_(std::move(d)) {}

  /// Throws Error for a parameter that requires no grad or is in another place already, for no parameters at all.
  void add_group(std::unique_ptr<ParamGroup> group);

  /// Whether parameters of this group have that state.
  virtual bool needs_state(const ParamGroup& group, size_t state) const = 0;
  /// The numbers that the kernel reads, Description::options of them.
  virtual void write_options(const ParamGroup& group, double* to) const = 0;
  /// One update of the active rows.
  virtual void update(Table& table) = 0;
  /// Counts it in their `step`.
  virtual void count_update(Table& table) const = 0;

  std::vector<std::unique_ptr<ParamGroup>> groups_;

 private:
  struct Slot {
    Tensor param;
    Ref<Node> leaf;  // kept: freezing a parameter takes its leaf away
    int group;
    Leaf* get() const { return static_cast<Leaf*>(leaf.get()); }
  };
  void follow_parameters();
  void build_tables();
  void rebuild_tables();
  void refresh_options();
  bool any_needs_state(size_t state) const;
  void join(StepCapture& capture);
  void allocate_states();
  Tensor state_of(const Table& t, const ParamRow& r, size_t state) const;
  NamedTensors parameter_states() const;
  void set_parameter_states(const NamedTensors& states);

  const Description description_;
  std::vector<Slot> slots_;  // in the order in which they were given
  std::vector<Table> tables_;
  std::vector<double> options_;  // as the tables have them
  std::vector<double> options_scratch_;
};

}  // namespace tandem::nn
