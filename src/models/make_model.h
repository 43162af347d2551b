#pragma once

#include "models/config.h"
#include "models/model.h"

namespace ptxbench::models {

/// The configured model, ready to be asked; with `record`, one that also writes its answers down.
Result<std::unique_ptr<Model>> make_model(const ModelConfig& config);

}  // namespace ptxbench::models
