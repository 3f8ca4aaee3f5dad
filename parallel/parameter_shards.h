/// Not installed. Parameters side by side, cut into one part for each rank, and the stretches of them in a rank's part,
/// each a parameter to an optimizer.
#pragma once
#include <tandem/core/node.h>

namespace tandem {

/// Of one device and dtype. A part's size is the same on all ranks; the last ones may have nothing but filling.
class ParameterBlock {
 public:
  struct Row {
    size_t param;    // its number
    int64_t offset;  // of its first element
    Tensor tensor;
  };
  /// In the order in which they come to lie. Moves their values; gradients that nobody has laid out yet are laid out
  /// the same way.
  ParameterBlock(const std::vector<std::pair<size_t, Tensor>>& params, int parts);

  const std::vector<Row>& rows() const { return rows_; }
  int64_t part_elements() const { return part_; }
  /// [parts, elements], all the values.
  const Tensor& values() const { return values_; }
  /// Throws Error where a parameter's values are not here any more.
  void require_in_place() const;

 private:
  void lay_out_gradients() const;
  int64_t part_ = 0;
  std::vector<Row> rows_;
  Tensor values_;
};

/// A parameter's elements in one part, in the order of its memory.
struct ParameterPiece {
  size_t param;      // its number
  Tensor whole;      // the parameter
  int64_t from = 0;  // in the parameter
  int64_t at = 0;    // in the part
  size_t block = 0;
  Tensor tensor;  // [elements], a leaf over the same memory, as its gradient's window is

  /// Takes the parameter's gradient, if it has one.
  void follow_gradient() const;
};
/// The rows' pieces in that part, last row first.
std::vector<ParameterPiece> pieces_of(const ParameterBlock& block, int part, size_t block_number);

}  // namespace tandem
