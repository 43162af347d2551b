#include "model_choice.h"

#include "base/text.h"

namespace ptxbench::app {

Result<models::ModelConfigs> find_models(const std::vector<std::string>& files) {
  std::vector<std::filesystem::path> paths(files.begin(), files.end());
  if (paths.empty()) {
    if (const auto usual = models::default_models_file()) paths.push_back(*usual);
  }
  models::ModelConfigs all;
  for (const auto& path : paths) {
    auto configs = models::load_model_configs(path);
    if (!configs) return tl::unexpected<Error>(configs.error());
    for (auto& [name, config] : *configs) {
      if (all.contains(name))
        return input_error("{}: the model '{}' is configured in another file too", path.string(), name);
      all.emplace(name, std::move(config));
    }
  }
  return all;
}

Result<models::ModelConfig> find_model(const models::ModelConfigs& configs, const std::string& name) {
  const auto at = configs.find(name);
  if (at != configs.end()) return at->second;
  if (configs.empty()) {
    return input_error(
        "no model '{}': none is configured; write a [models.{}] table into a file and give it with "
        "--models (docs/models.md)",
        name, name);
  }
  std::vector<std::string> names;
  for (const auto& [one, config] : configs) names.push_back(one);
  std::string list;
  for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
  return input_error("no model '{}'{}; configured are {}", name, base::did_you_mean(name, names), list);
}

}  // namespace ptxbench::app
