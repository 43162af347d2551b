#pragma once

#include <functional>
#include <map>
#include <string>

#include "service/reply.h"

namespace ptxbench::service {

struct ExtraRequest {
  std::string body;
  std::map<std::string, std::string> query, cookies;
};

/// An endpoint that a room above adds to the service. The token, limits, logs and metrics hold for it as for the
/// others.
struct ExtraRoute {
  std::string method, path;  ///< "POST", "/environment/step"
  std::function<Reply(const ExtraRequest&)> answer;
};

}  // namespace ptxbench::service
