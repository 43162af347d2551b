#include "models/make_model.h"

#include "models/endpoint.h"
#include "models/replay.h"

namespace ptxbench::models {

Result<std::unique_ptr<Model>> make_model(const ModelConfig& config) {
  std::unique_ptr<Model> model;
  if (config.provider == Provider::replay) {
    auto replay = ReplayModel::open(config.answers);
    if (!replay) return tl::unexpected<Error>(replay.error());
    model = std::move(*replay);
  } else {
    auto endpoint = EndpointModel::create(config);
    if (!endpoint) return tl::unexpected<Error>(endpoint.error());
    model = std::move(*endpoint);
  }
  if (!config.record.empty()) model = std::make_unique<RecordModel>(std::move(model), config.record);
  return model;
}

}  // namespace ptxbench::models
