#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/environment.h"
#include "service/extra_route.h"

namespace ptxbench::agent {

/// `/environment/reset`, `step`, `state`, `schema`, `metadata` and `health`, as clients of OpenEnv ask them. The
/// episode is named by `episode_id` in the body or the query, or by the cookie that reset sets.
std::vector<service::ExtraRoute> environment_routes(const std::shared_ptr<Environment>& environment,
                                                    const std::string& version);

}  // namespace ptxbench::agent
