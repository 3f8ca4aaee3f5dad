/// A matrix product as cuBLASLt's descriptors describe it, checked; and the algorithms that can compute it.
#pragma once
#include "cublaslt_descriptors.h"
#include "element.h"
#include "footprint.h"
#include "multiply.h"

namespace simgpu {

struct MatmulProblem {
  MatmulDescription operation;
  MatrixLayout a, b, c, d;
  size_t m = 0, n = 0, k = 0, batch = 0;
  Element in = Element::f32, out = Element::f32;
  bool tf32 = false;

  bool adds_bias() const;
  bool applies_relu() const;
  /// The epilogue stores the sum of A's rows or B's columns to the bias pointer.
  bool stores_bias_gradient() const;
  size_t bias_elements() const;
};

/// SUCCESS and the problem, or why not.
cublasStatus_t describe_problem(const char* function, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                MatmulProblem* problem);

/// One matrix of the batch. The layout's order says which of rows and columns is dense.
Operand operand(const MatrixLayout& l, const void* data, Element e, size_t index);
Footprint footprint(const MatrixLayout& l, const void* data, Element e);

/// What a cublasLtMatmulAlgo_t holds: an algorithm is for one problem, and for pointers of the alignment that was asked
/// for, 256 bytes by default.
struct MatmulAlgorithm {
  static constexpr uint64_t kMark = 0x73696d67707531;
  enum Kind : uint32_t { straight, split };  // split: the sum over k in two parts, through the workspace

  uint64_t mark = kMark;
  uint64_t problem = 0;  // a hash
  uint64_t workspace_bytes = 0;
  Kind kind = straight;
  uint32_t alignment_a = 1, alignment_b = 1, alignment_c = 1, alignment_d = 1, alignment_bias = 1;
};
static_assert(sizeof(MatmulAlgorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// Of all that an algorithm is chosen by; not of pointers.
uint64_t hash_of(const MatmulProblem& p);

uint64_t split_workspace_bytes(const MatmulProblem& p);

/// The greatest power of two up to 256 that divides the address; 256 for a null pointer.
uint32_t alignment_of(const void* p);

}  // namespace simgpu
