#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace ptxbench::service {

/// What a request is answered with.
struct Reply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::map<std::string, std::string> headers;

  static Reply json(const base::Json& json, int status = 200) {
    return {status, json.dump(-1, ' ', false, base::Json::error_handler_t::replace), "application/json", {}};
  }
  /// {"detail": ...}: a sentence, or the list of BodyErrors.
  static Reply detail(int status, const base::Json& detail) { return json(base::Json{{"detail", detail}}, status); }
};

}  // namespace ptxbench::service
