#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <random>

#include "models/config.h"
#include "models/dialect.h"
#include "models/model.h"
#include "models/rate_limiter.h"
#include "models/transport.h"

namespace ptxbench::models {

/// A model behind an HTTP endpoint. Any number of requests may be under way: they share its limits, and none has a
/// thread of its own.
class EndpointModel : public Model {
 public:
  /// Checks what the configuration needs from outside: the key's variable.
  static Result<std::unique_ptr<EndpointModel>> create(ModelConfig config, Transport& transport = Transport::shared());
  void start(std::vector<Message> messages, CompletionOptions options, Done done) override;
  std::string name() const override;
  base::Json describe() const override;
  bool knows_cost() const override;
  Lost lost() const override;

 private:
  class Call;
  EndpointModel(ModelConfig config, Transport& transport);
  ModelConfig config_;
  Transport& transport_;
  std::unique_ptr<Dialect> dialect_;

  // Used on the transport's thread only.
  RateLimiter limiter_;
  std::uint64_t running_ = 0;
  std::deque<std::shared_ptr<Call>> waiting_;  ///< for others to end, where a number of concurrent ones is set
  std::uint64_t completion_tokens_ = 0, completions_ = 0;
  std::minstd_rand random_;

  mutable std::mutex lost_mutex_;
  Lost lost_;
};

}  // namespace ptxbench::models
