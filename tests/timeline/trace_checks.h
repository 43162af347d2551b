#pragma once

#include <string>

#include "timeline/schedule.h"

/// What holds for every timeline, whatever ran.
namespace ptxbench::timeline {

/// Empty, or what is wrong: spans of a warp or tensor core that overlap or run backwards, a wait that ends before what
/// it waited for, steps without a time in a cluster that came to its end.
std::string fault_of(const LaunchRecord& launch, const ClusterSchedule& schedule);

/// Empty, or what is wrong with the file: no JSON, slices of one thread that overlap, threads without names, arrows
/// that begin or end at no slice.
std::string fault_of_trace(const std::string& text);

}  // namespace ptxbench::timeline
