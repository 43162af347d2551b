#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/language.h"
#include "problem/dataset.h"

namespace ptxbench::agent {

/// The system message: role, format of the answer, a minimal example of the interface, what is judged, the
/// architecture. `knowledge` is the pack's text, empty for none.
std::string system_message(std::string_view target, std::string_view knowledge,
                           candidate::Language language = candidate::Language::cuda);

/// The first user message: the definition without its tags, and, if it is to be told, at which shapes it is judged.
/// `workloads` belong to one definition and are not empty.
std::string task_message(const std::vector<problem::Problem>& workloads, bool tell_shape = true);

}  // namespace ptxbench::agent
