#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/gdn.h"
#include "test_support.h"

// Kernels for the gated delta rule, sound ones and wrong ones, computed on the CPU in plain loops that share nothing
// with the truth but the shape.

namespace ptxbench::problem {

struct GdnCase {
  GdnRoles::Kind kind = GdnRoles::Kind::decode;
  std::int64_t sequences = 3;
  std::int64_t tokens = 1;  ///< of each sequence; of prefill, all together
  std::int64_t pool = 5;    ///< states of mtp
  std::int64_t qk_heads = 2, v_heads = 4, depth = 32;
  Distribution distribution = Distribution::normal;

  std::string name() const;
};

Definition gdn_definition(const GdnCase& what);
Problem gdn_problem(const GdnCase& what);

struct GdnData : ProblemData {
  explicit GdnData(const GdnCase& what, std::uint64_t seed = 3);

  GdnCase what;
  GdnRoles roles;
  GdnShape shape;
  const std::vector<float>&output_truth, &state_truth;
};

/// How a kernel goes about it; the defaults are sound.
struct GdnModel {
  enum class Gate { right, none, without_exp, without_bias, exp_for_softplus };
  enum class Beta { right, one, raw };
  enum class Change { right, before_decay, without_removal, whole_removal };
  enum class States { right, none, transposed, in_order, carried };

  Gate gate = Gate::right;
  Beta beta = Beta::right;
  Change change = Change::right;
  States states = States::right;
  double scale_factor = 1;  ///< on the right one
  bool output_from_old = false;
  bool modulo_heads = false;
  bool exchanges_q_and_k = false;
  bool leaves_last_token = false;
  bool updates_pool = false;              ///< mtp: the final state is written to the pool
  float (*round_state)(float) = nullptr;  ///< after every token
  /// Blocks of so many tokens, as tensor cores do it: operands of every product rounded to bf16. 0: token by token.
  std::int64_t chunk = 0;
};

struct GdnOutput {
  std::vector<float> output, state;
};
GdnOutput run_gdn(const GdnData& data, const GdnModel& model);

/// The definition's formula in fp64, with the state as [K, V] and every product on its own, as the data set writes it.
struct GdnExact {
  std::vector<double> output, state;
};
GdnExact gdn_exact(const GdnData& data);

}  // namespace ptxbench::problem
