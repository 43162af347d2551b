#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "problem/dtype.h"

/// What lowering a Triton candidate gives. The candidate's own Python ran in the process that wrote it, so every number
/// is checked here against what was asked for, and nothing else of that process is used.
namespace ptxbench::triton {

/// One argument of `run`: a dense tensor, or a number that is part of what was compiled.
struct CallArgument {
  std::string name;
  problem::Dtype dtype = problem::Dtype::float32;
  std::vector<std::int64_t> shape;
  bool scalar = false;
  bool floating = false;
  std::int64_t integer = 0;
  double number = 0;

  std::uint64_t bytes() const;  ///< of a tensor
};
using CallArguments = std::vector<CallArgument>;

struct Kernel {
  std::string name;  ///< an identifier
  std::string ptx;
  std::uint32_t warps = 0, shared = 0, cluster = 1;
  bool fmad = true;
};

struct Parameter {
  enum class Kind { null, pointer, scalar, tensor_map };
  Kind kind = Kind::null;
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 8;  ///< of a scalar
  // Of tensor maps, outermost dimension first, as Triton has them; strides in bytes.
  std::uint32_t type = 0, swizzle = 0;
  bool nan_fill = false;
  std::vector<std::uint64_t> shape, strides;
  std::vector<std::uint32_t> box;
};

struct Step {
  enum class Kind { launch, fill, copy };
  Kind kind = Kind::launch;
  std::uint32_t kernel = 0;
  std::array<std::uint32_t, 3> grid{};
  bool cooperative = false, dependent = false;
  std::vector<Parameter> parameters;  ///< without the two pointers to scratch that end every kernel's list
  Parameter scratch;                  ///< the first of these
  std::uint32_t buffer = 0, from = 0, width = 1;
  std::uint64_t offset = 0, from_offset = 0, bytes = 0, value = 0;
};

/// One call of `run`: first the tensors among its arguments, then scratch.
struct RecordedCall {
  std::vector<std::uint64_t> buffers;
  std::vector<Step> steps;
};

struct Record {
  enum class Status {
    lowered,
    failed,   ///< Triton or the stand-in for torch says no
    refused,  ///< against the rules of candidates
    missing,  ///< there is no usable Triton
  };
  Status status = Status::failed;
  std::string rule, message;  ///< when not lowered
  int line = 0;
  std::string triton_version, python_version;
  std::vector<std::string> notes;
  std::vector<Kernel> kernels;
  std::vector<RecordedCall> calls;
};

/// Limits beyond which a record is refused.
inline constexpr std::size_t kMostKernels = 256, kMostSteps = 4096, kMostParameters = 512, kMostBuffers = 1024;
inline constexpr std::size_t kMostNotes = 64, kMostTextBytes = 16 << 10;
inline constexpr std::uint64_t kMostBufferBytes = std::uint64_t{1} << 38;
inline constexpr std::uint32_t kMostShared = 232'448, kMostCluster = 16;

/// The error says what is wrong with the text; then the candidate's process did not leave what our program would.
Result<Record> parse_record(std::string_view text, const std::vector<CallArguments>& calls);

}  // namespace ptxbench::triton
