#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "agent/turn_loop.h"

namespace ptxbench::agent {

/// The turn loop as an environment for reinforcement learning, in OpenEnv's words: an episode is a trajectory whose
/// answers come from outside, one step each. Requests and replies are JSON objects. Each step is on disk before it is
/// answered, so that episodes survive a restart. May be used by several threads at a time; the steps of one episode
/// come one after another.
class Environment {
 public:
  struct Parts {
    std::shared_ptr<const problem::Dataset> dataset;
    /// A judge with these options of `POST /v1/evaluate`.
    std::function<Result<std::unique_ptr<Judge>>(const base::Json& evaluation)> judge;
    std::function<Result<std::string>(std::string_view tag, candidate::Language)> pack_text;  ///< "none": empty
    std::filesystem::path folder;                                                             ///< ID.jsonl per episode
    std::size_t most_open = 4096;  ///< episodes in memory; others are read again when they are asked for
  };
  explicit Environment(Parts parts) : parts_(std::move(parts)) {}

  /// What to answer, with an HTTP status: 200, or 4xx/5xx with a member `detail`.
  struct Answer {
    int status = 200;
    base::Json body;
    std::string episode;
  };
  /// Begins an episode. Members: `problem` (needed), `workloads` or `axes`, `pack`, `turns`, `stop`, `target_speedup`,
  /// `language`, `feedback`, `feedback_tokens`, `context`, `tell_shape`, `reward` ("passed", "stages", "speedup"),
  /// `evaluation` (options of POST /v1/evaluate), `episode_id`, `seed` (kept only).
  Answer reset(const base::Json& request);
  /// One answer of the policy: `action` with `message` (all that the model wrote) or `source` (a candidate);
  /// `episode_id`; `request_id`: the same again gives the same reply without judging again. `cookie` names the episode
  /// where the request does not.
  Answer step(const base::Json& request, std::string_view cookie);
  Answer state(std::string_view episode) const;
  /// JSON Schemas of action, observation and state.
  static base::Json schema();
  /// Name, version and what it is.
  static base::Json metadata(std::string_view version);

 private:
  struct Episode;
  using EpisodePtr = std::shared_ptr<Episode>;
  Result<EpisodePtr> find(const std::string& id) const;
  void keep(const std::string& id, const EpisodePtr& episode) const;
  base::Json reply(Episode& episode, const Turn* turn, std::optional<double> reward) const;

  Parts parts_;
  mutable std::mutex loading_;  ///< held while an episode is made or read; taken before `mutex_`
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::pair<EpisodePtr, std::list<std::string>::iterator>> open_;
  mutable std::list<std::string> recent_;  ///< the latest first
};

}  // namespace ptxbench::agent
