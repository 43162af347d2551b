#pragma once

#include <string_view>

#include "agent/trajectory.h"

namespace ptxbench::agent {

/// The trajectory in the Agent Trajectory Interchange Format, version 1.7: system and task messages, then one step of
/// the agent per turn with its answer, and the feedback as its observation. What is not known is left out.
base::Json to_atif(const Trajectory& trajectory, std::string_view name, std::string_view version);

}  // namespace ptxbench::agent
