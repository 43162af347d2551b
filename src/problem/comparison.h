#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "problem/attention_truth.h"
#include "problem/gemm_truth.h"
#include "problem/gqa_truth.h"
#include "problem/tensor.h"

namespace ptxbench::problem {

enum class Verdict { passed, failed, unknown };
std::string_view to_string(Verdict verdict);

/// Limits of the rule for one output tensor, seen as rows of its last dimension. Norms of rows and blocks are floored
/// at a tenth of the tensor's rms. docs/problems.md says where the numbers come from.
struct Limits {
  double tensor_l2 = 0;    ///< ||y - t|| / ||t||
  double block_l2 = 0;     ///< the same over the worst block of 64 rows
  double row_l2 = 0;       ///< the same over the worst row
  double element = 0;      ///< (|y - t| - roundings * unit_roundoff |t|) / row rms, worst element
  double gain = 0;         ///< |<y,t>/<r,t> - 1|, r being t rounded to the type where that has 8 bits or fewer, else t
  bool calibrated = true;  ///< false: from another type or operation, not yet confirmed by measurements
  /// What rounding the terms of a sum may cost, in multiples of its expected size, where that is more than the limits
  /// above grant: the norm of the error of the tensor and of a block, of a row, and one element. Such a row or element
  /// may exceed its limit `cap` times, blocks and the tensor a third of that.
  double noise_block = 4, noise_row = 4, noise_element = 4, noise_cap = 10;
  /// Where given, the tensor is judged by these and by none of the above: |y - t| of the worst element, and its root
  /// mean square.
  std::optional<double> absolute_max = std::nullopt, absolute_rms = std::nullopt;
  double absolute_share = 0;  ///< of |t|, granted to an element beside absolute_max
  double roundings = 1;       ///< how many of the type's roundings of |t| are granted to an element before `element`
};

/// Limits for the logarithms of row sums that attention returns, whose size says nothing about their error.
Limits log_sum_limits();

/// Limits for the gradients of attention, from those for its output.
Limits gradient_limits(Limits limits);

/// Limits for outputs of this type of an operation ("gemm", "attention"); nothing where the rule is not calibrated.
std::optional<Limits> limits_for(std::string_view op_type, Dtype output);

/// Which rule decides. `strict` is ours: the limits. `reference` is the public benchmark's looser one, for results that
/// are to be compared with published ones.
enum class Tolerance { strict, reference };
std::string_view to_string(Tolerance tolerance);

/// The reference benchmark's looser rule: an element is bad if it is off by more than 1e-2 both absolutely and
/// relatively, and no element may be bad (CompareOptions::matched_ratio). Compared with the truth rounded to the
/// output's type.
struct CompatResult {
  bool passed = false;
  std::uint64_t bad_elements = 0;
  double max_absolute_error = 0;
  double max_relative_error = 0;
};

struct ElementError {
  std::int64_t row = 0, column = 0;
  double expected = 0, got = 0;
};

/// One cell of the error map: how many elements of a square of the tensor are wrong.
struct ErrorCell {
  std::int64_t row = 0, column = 0;  ///< of its first element
  std::uint64_t wrong = 0, unwritten = 0, known = 0;
};

/// What the errors look like; `pattern` is stable ("transposed_tile"), `text` is for people.
struct Hypothesis {
  std::string pattern;
  std::string text;
  double confidence = 0;  ///< 0 to 1: share of the sampled errors that it explains
};

/// A limit of the rule and what is compared with it.
struct LimitedValue {
  std::string_view name;  ///< "tensor_l2", "block_l2", "row_l2", "element", "gain", "absolute_max", "absolute_rms"
  double value = 0, limit = 0;
};

struct TensorComparison {
  std::string name;
  Dtype dtype = Dtype::float32;
  std::int64_t rows = 0, columns = 0;
  Verdict verdict = Verdict::unknown;
  std::vector<std::string> failures;  ///< each limit that was broken, in words
  std::string note;                   ///< why the verdict is unknown, or a reservation
  Tolerance rule = Tolerance::strict;

  std::uint64_t known = 0;              ///< elements compared
  std::uint64_t unknown = 0;            ///< elements of which nothing is known (clusters that were not run)
  std::uint64_t wrong = 0;              ///< beyond the element limit, NaN, infinite or unwritten
  std::uint64_t unwritten = 0;          ///< still poison
  std::uint64_t nan = 0, infinite = 0;  ///< where the truth is finite; poison not counted
  std::uint64_t not_infinite = 0;       ///< anything else where the truth is infinite; poison not counted
  std::uint64_t not_nan = 0;            ///< anything else where the truth is NaN; poison not counted

  double tensor_l2 = 0;
  double worst_block_l2 = 0;
  std::int64_t worst_block_row = 0;
  double worst_row_l2 = 0;
  std::int64_t worst_row = 0;
  double worst_element = 0;
  std::optional<ElementError> worst_element_at;
  double gain = 1;
  double max_absolute_error = 0;
  double rms_absolute_error = 0;
  bool absolute = false;  ///< judged by the two above
  std::vector<LimitedValue> limits;

  CompatResult compat;
  std::optional<ElementError> first_wrong;
  std::int64_t cell_size = 0;
  std::vector<ErrorCell> wrong_cells;  ///< cells with a wrong element, in order, at most kMaxCells
  std::uint64_t wrong_cell_count = 0;
  std::uint64_t cell_count = 0;        ///< cells with a known element
  std::vector<Hypothesis> hypotheses;  ///< most convincing first

  static constexpr std::size_t kMaxCells = 4096;
};

/// The inputs of an attention whose output is compared, and which output that is.
struct AttentionOperands {
  enum class Output { o, lse, dq, dk, dv };
  AttentionShape shape;
  AttentionInputs inputs;
  std::optional<AttentionGradientInputs> gradient;  ///< of a backward pass
  Output output = Output::o;
  /// Of a forward pass in e4m3; the shape has their products.
  std::optional<AttentionDescales> descales = std::nullopt;
};

/// The same for grouped-query attention.
struct GqaOperands {
  GqaShape shape;
  GqaInputs inputs;
  std::int64_t page_size = 1;  ///< tokens
  bool is_lse = false;
};

struct CompareOptions {
  /// The elements that are known: the candidate ran on them and the truth was computed. Empty: all.
  std::vector<Tile> known;
  int threads = 0;
  /// Per row: the root of the summed squares of the terms that it adds up (Truth::term_norms). Empty: as the row
  /// itself.
  std::span<const float> term_norms;
  /// Of a GEMM, the operands, which let the diagnosis recognise skipped and stale K tiles and swizzle mistakes.
  const MatrixRows* a = nullptr;
  const MatrixRows* b = nullptr;
  /// Of attention, what lets the diagnosis recognise mistakes in scale, mask, keys and rescaling.
  const AttentionOperands* attention = nullptr;
  /// Of grouped-query attention, what lets it recognise mistakes in head mapping, page table, mask and LSE.
  const GqaOperands* gqa = nullptr;
  bool diagnose = true;
  Tolerance tolerance = Tolerance::strict;
  double matched_ratio = 1;  ///< share of known elements that the reference benchmark wants right
};

/// Compares `output` with `truth` (fp32, as many elements). Without limits the verdict by the strict rule is `unknown`,
/// but NaN, infinities and unwritten elements still fail. Integers and bools must be equal by either rule. Where the
/// truth is NaN, or is not exactly the integer that it stands for, nothing passes.
TensorComparison compare(const Tensor& output, std::span<const float> truth, const std::optional<Limits>& limits,
                         const CompareOptions& options = {});

// Poison: what outputs hold before the candidate runs. For floating types a NaN with an unlikely payload.
void fill_poison(Tensor& tensor);
/// Whether the type has a poison that is an unlikely value: all but integers of 8 bits and float4. Their outputs start
/// as an unlikely value as well, which fails like any wrong one, but is not told from one that was written.
bool has_poison(Dtype dtype);
/// Whether element `index` still holds the poison of its type; no for types without.
bool is_poison(const Tensor& tensor, std::uint64_t index);

/// A few lines for the model and for people: verdict, broken limits, first wrong element, where the errors are, and the
/// most convincing explanation.
std::string describe(const TensorComparison& comparison);
base::Json to_json(const TensorComparison& comparison);

}  // namespace ptxbench::problem
