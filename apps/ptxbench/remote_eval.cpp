#include "remote_eval.h"

#include <cstdlib>

#include "base/terminal.h"
#include "service/client.h"

namespace ptxbench::app {

Result<RemoteEvaluation> evaluate_remotely(const std::string& url, const base::Json& request) {
  const char* token = std::getenv("PTXBENCH_SERVICE_TOKEN");
  const auto client = service::Client::connect_to(url, token == nullptr ? "" : token);
  if (!client) return tl::unexpected<Error>(client.error());
  base::ProgressLine progress("eval");
  const auto task = client->evaluate(request, [&](std::string_view state) { progress.update(state); });
  if (!task) return tl::unexpected<Error>(task.error());
  if (const base::Json* error = base::optional_member(*task, "error"); error != nullptr) {
    const bool is_input = error->value("kind", "") == "input";
    return tl::unexpected<Error>(Error{is_input ? ErrorKind::input : ErrorKind::infrastructure,
                                       fmt::format("{}: {}", url, error->value("message", "no reason given"))});
  }
  const base::Json* evaluations = base::optional_member(*task, "evaluations");
  const base::Json* texts = base::optional_member(*task, "texts");
  if (evaluations == nullptr || texts == nullptr || evaluations->size() != 1 || texts->size() != 1 ||
      !evaluations->at(0).is_object() || !texts->at(0).is_string()) {
    return infrastructure_error("{}: the task ended without an evaluation", url);
  }
  RemoteEvaluation remote{evaluations->at(0), texts->at(0).get<std::string>(), false};
  const base::Json* verdict = base::optional_member(remote.evaluation, "verdict");
  remote.passed = verdict != nullptr && verdict->is_object() && verdict->value("status", "") == "passed";
  return remote;
}

}  // namespace ptxbench::app
