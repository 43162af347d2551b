#pragma once

#include "agent/trajectory.h"

namespace ptxbench::agent {

/// The same content as a `mini-swe-agent-1.1` trajectory: system, user, then assistant and user messages per turn,
/// `exit`. Costs that are not known are null.
base::Json to_mini_swe(const Trajectory& trajectory);

/// The reverse, of files that this program or the public benchmark wrote. What looks like a key is left out. `what`
/// names the text in messages. The evaluation of a turn holds the traces, and whether it passed.
Result<Trajectory> from_mini_swe(const base::Json& json, std::string_view what);

}  // namespace ptxbench::agent
