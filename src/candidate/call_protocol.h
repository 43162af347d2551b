#pragma once

#include <cstdint>

#include "candidate/abi.h"

/// What the evaluator tells the runner (one call of the candidate's function) and what it hears back. Both are
/// fixed-size and binary. The call lies in a sealed memory file; reports come through a pipe whose other end the
/// candidate can also write to, so a report explains a failure but never makes a candidate pass.
namespace ptxbench::candidate {

inline constexpr std::uint32_t kCallMagic = 0x4c4c4143;    // "CALL"
inline constexpr std::uint32_t kReportMagic = 0x54505252;  // "RRPT"
inline constexpr std::uint32_t kMaxArguments = 64;
inline constexpr std::uint32_t kMaxDimensions = 8;

struct CallArgument {
  enum class Kind : std::uint32_t { tensor, integer, floating, boolean };
  Kind kind = Kind::tensor;
  abi::Dtype dtype;
  std::int32_t dimensions = 0;
  std::uint32_t unused = 0;
  std::int64_t shape[kMaxDimensions]{};
  std::uint64_t address = 0;  ///< device memory
  std::int64_t integer = 0;   ///< also booleans
  double floating = 0;
};

struct Call {
  std::uint32_t magic = kCallMagic;
  std::uint32_t argument_count = 0;
  CallArgument arguments[kMaxArguments];
};

/// How far the runner came. Each step is reported when it begins, so the last report says where a crash happened.
enum class RunnerStep : std::uint32_t { loading = 1, calling, synchronizing, done };

enum class RunnerOutcome : std::uint32_t {
  pending,      ///< the step has begun
  finished,     ///< step `done`: the function returned 0 and the device synchronised without error
  load_failed,  ///< `message`: the dynamic loader's
  no_entry,     ///< no __tvm_ffi_run
  threw,        ///< the function returned an error: kind, message, backtrace
  cuda_error,   ///< cudaDeviceSynchronize failed: `code`, message
  internal,     ///< the runner itself could not go on (message)
};

struct RunnerReport {
  std::uint32_t magic = kReportMagic;
  RunnerStep step = RunnerStep::loading;
  RunnerOutcome outcome = RunnerOutcome::pending;
  std::int32_t code = 0;
  char kind[64]{};  ///< texts end with a zero byte
  char message[4096]{};
  char backtrace[3072]{};
};
/// Few enough that the runner never waits for a reader: a pipe holds 64 KiB.
inline constexpr unsigned kMaxReports = 6;
static_assert(sizeof(RunnerReport) * kMaxReports < 65536);

}  // namespace ptxbench::candidate
