#pragma once

#include <string_view>
#include <vector>

#include "agent/trajectory.h"

namespace ptxbench::agent {

/// What of the earlier turns a model is shown. What is stored is always everything.
enum class ContextPolicy : std::uint8_t {
  full,         ///< every answer and every feedback
  latest_pair,  ///< the last answer and its feedback
  single_user,  ///< one user message with the task, the last answer and its feedback
};
/// "full", "latest-pair", "single-user".
std::string_view to_string(ContextPolicy policy);
Result<ContextPolicy> parse_context_policy(std::string_view text);

/// The messages that the next question consists of.
std::vector<models::Message> context_of(const Trajectory& trajectory, ContextPolicy policy);

}  // namespace ptxbench::agent
