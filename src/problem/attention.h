#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "problem/attention_truth.h"
#include "problem/reference.h"

namespace ptxbench::problem {

/// Inputs of one fp32 element each: what Q, K and V are multiplied by, and a factor on the second product.
struct DescaleInputs {
  std::size_t q = 0, k = 0, v = 0, o = 0;
};

/// Multi-head attention: which tensors and axes play the parts. Forward: Q, K, V to O and LSE. Backward: Q, K, V, O, dO
/// and L, the forward pass's LSE, to dQ, dK and dV.
struct AttentionRoles {
  bool backward = false;
  bool causal = false;
  std::size_t q = 0, k = 0, v = 0;            ///< inputs
  std::size_t o = 0, lse = 0;                 ///< outputs of the forward pass, inputs of the backward pass
  std::size_t d_o = 0;                        ///< input of the backward pass
  std::size_t dq = 0, dk = 0, dv = 0;         ///< outputs of the backward pass
  std::optional<DescaleInputs> descales;      ///< of the forward pass in e4m3
  std::string batch, heads, sequence, depth;  ///< axis names
};

/// Recognised by op_type "attention" and by the tensors' names, types and shapes: all in BHSD with the same four axes,
/// of bfloat16, float16 or float32, and LSE (L) in float32 with the first three. Causal by the tag "mask:causal" or a
/// name that ends in "_causal". The forward pass may instead be in e4m3 throughout and have four more inputs of one
/// fp32 element, descale_q, descale_k, descale_v and descale_s (or scale_o):
///   O = descale_s descale_v softmax(descale_q descale_k Q K^T / sqrt(D)) V, and LSE that of the same softmax.
std::optional<AttentionRoles> attention_roles(const Definition& definition);

/// Without the factors that are inputs.
AttentionShape attention_shape(const Problem& problem, const AttentionRoles& roles);
/// The inputs that are factors; nothing where there are none.
std::optional<AttentionDescales> attention_descales(const TruthRequest& request, const AttentionRoles& roles);
/// With them.
AttentionShape attention_shape(const TruthRequest& request, const AttentionRoles& roles);

/// The inputs of a request as matrices. Tensors in the request must outlive them.
AttentionInputs attention_inputs(const TruthRequest& request, const AttentionRoles& roles);
/// Only for backward passes.
AttentionGradientInputs attention_gradient_inputs(const TruthRequest& request, const AttentionRoles& roles);

Result<Truth> attention_reference(const TruthRequest& request);

/// What the diagnosis of output `output` of an attention needs; nothing for other problems.
std::optional<AttentionOperands> attention_operands(const TruthRequest& request, std::size_t output);

extern const Operation kAttention;

/// O and L of a backward pass, computed from Q, K and V of the request, in the definition's types.
struct ForwardResults {
  Tensor o, lse;
};
Result<ForwardResults> attention_forward_results(const TruthRequest& request);

}  // namespace ptxbench::problem
