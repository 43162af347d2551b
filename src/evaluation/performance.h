#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "gpu/timing.h"

namespace ptxbench::evaluation {

/// The inputs of timed calls.
enum class TimedInputs {
  fresh,     ///< each call has inputs of its own
  partly,    ///< but for some that fit any others: they are the same in each call
  permuted,  ///< the same slices in another order for each call, with other signs
  repeated,  ///< the same contents at other addresses
};

std::string_view to_string(TimedInputs inputs);

/// How fast the candidate was on a real GPU, and all that is needed to judge the number. Milliseconds.
struct Performance {
  std::string workload;  ///< uuid; empty for axes from the command line
  std::vector<std::pair<std::string, std::int64_t>> axes;
  gpu::TimingSummary times;
  std::string baseline, baseline_version;  ///< "cuBLASLt", "13.1.0"
  std::string no_baseline;                 ///< why there is none
  double floor = 0;                        ///< no call can take less
  TimedInputs inputs = TimedInputs::repeated;
  std::size_t verified_calls = 0, verified_elements = 0;
  bool verified = true;       ///< the sampled outputs of timed calls were right
  double gpu_seconds = 0;     ///< that the timed calls held the GPU
  double kernel_seconds = 0;  ///< of these, and of the first call, what the candidate's and the baseline's kernels took
  base::Json device, clocks;
  base::Json seconds;  ///< of this process, by step
};

base::Json to_json(const Performance& performance);

/// "0.912 ms, 0.987x of cuBLASLt 13.1.0 (0.980-0.992, 40 calls)".
std::string describe(const Performance& performance);

}  // namespace ptxbench::evaluation
