#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "problem/dataset.h"
#include "triton/installation.h"
#include "triton/record.h"

namespace ptxbench::triton {

/// What `run` is called with for a problem: inputs, then outputs. Scalars have the workload's values.
Result<CallArguments> call_arguments(const problem::Problem& problem);

struct LoweringOptions {
  unsigned arch = 90;  ///< 90 (Hopper) or 100 (Blackwell), each with its "a" features
  std::chrono::milliseconds wall_limit = std::chrono::minutes(3);
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  ///< private writable
  std::stop_token cancel;
};

struct Lowering {
  Record record;
  std::string log;         ///< what the process wrote, shortened
  bool timed_out = false;  ///< then, and with `out_of_memory`, the record says `failed`
  bool out_of_memory = false;
  double seconds = 0;
};

/// Runs the candidate's Python once, in a process without network, files and variables of its user, with Triton's
/// compiler and a driver that only records. Errors are infrastructure; whatever the candidate does is in the record.
Result<Lowering> lower(const Installation& installation, std::string_view source,
                       const std::vector<CallArguments>& calls, const LoweringOptions& options = {});

/// Over the programs that make a record: part of the key under which results are kept.
std::string lowering_digest();

}  // namespace ptxbench::triton
