#include "agent/environment_routes.h"

#include <algorithm>

namespace ptxbench::agent {
namespace {

using base::Json;
using service::ExtraRequest;
using service::Reply;

constexpr const char* kCookie = "ptxbench_episode";

std::string cookie_of(const ExtraRequest& request) {
  const auto at = request.cookies.find(kCookie);
  return at == request.cookies.end() ? std::string() : at->second;
}

Reply reply_of(const Environment::Answer& answer) {
  Reply reply = Reply::json(answer.body, answer.status);
  if (answer.status == 200 && !answer.episode.empty()) {
    reply.headers["Set-Cookie"] =
        fmt::format("{}={}; Path=/environment; HttpOnly; SameSite=Strict", kCookie, answer.episode);
  }
  return reply;
}

/// The body as JSON; none at all is an empty object.
Result<Json> body_of(const ExtraRequest& request) {
  if (request.body.empty()) return Json::object();
  return base::parse_json(request.body, "the body");
}

}  // namespace

std::vector<service::ExtraRoute> environment_routes(const std::shared_ptr<Environment>& environment,
                                                    const std::string& version) {
  const auto with_body = [](auto work) {
    return [work](const ExtraRequest& request) {
      const auto body = body_of(request);
      return body ? reply_of(work(*body, request)) : Reply::detail(422, body.error().message);
    };
  };
  return {
      {"POST", "/environment/reset",
       with_body([environment](const Json& body, const ExtraRequest&) { return environment->reset(body); })},
      {"POST", "/environment/step", with_body([environment](const Json& body, const ExtraRequest& request) {
         return environment->step(body, cookie_of(request));
       })},
      {"GET", "/environment/state",
       [environment](const ExtraRequest& request) {
         const auto at = request.query.find("episode_id");
         return reply_of(environment->state(at != request.query.end() ? at->second : cookie_of(request)));
       }},
      {"GET", "/environment/schema", [](const ExtraRequest&) { return Reply::json(Environment::schema()); }},
      {"GET", "/environment/metadata",
       [version](const ExtraRequest&) { return Reply::json(Environment::metadata(version)); }},
      {"GET", "/environment/health",
       [](const ExtraRequest&) {
         return Reply::json({{"status", "healthy"}});
       }},
  };
}

}  // namespace ptxbench::agent
