#pragma once

#include <string>
#include <vector>

#include "models/config.h"

/// Which models there are, for the subcommands that ask one.
namespace ptxbench::app {

/// The models of these files, or of the default one. The same name in two files is an error.
Result<models::ModelConfigs> find_models(const std::vector<std::string>& files);

/// The error suggests the nearest name, or says how to configure a model.
Result<models::ModelConfig> find_model(const models::ModelConfigs& configs, const std::string& name);

}  // namespace ptxbench::app
