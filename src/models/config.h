#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"

namespace ptxbench::models {

/// How an endpoint is spoken to.
enum class Provider : std::uint8_t {
  openai,      ///< chat completions: OpenAI's, and what SGLang, vLLM and many hosters offer
  responses,   ///< OpenAI's responses API
  anthropic,   ///< Anthropic's messages API
  gemini,      ///< Google's generateContent
  openrouter,  ///< chat completions with the cost in the reply
  replay,      ///< recorded answers
};
std::string_view to_string(Provider provider);

/// US dollars per million tokens.
struct Prices {
  std::optional<double> input, output;
  std::optional<double> cached_input;  ///< of prompt tokens read from a cache; else `input`
};

/// One model as configured. docs/models.md describes the TOML.
struct ModelConfig {
  std::string name;  ///< in the configuration
  Provider provider = Provider::openai;
  std::string base_url, model;
  /// Environment variable with the key; empty: none is sent. The key itself is read when a request is made, goes to
  /// this endpoint only and is never stored or shown.
  std::string key_variable;
  std::string key_header;  ///< that carries the key; empty: the provider's own
  std::map<std::string, std::string> headers;

  std::optional<std::uint64_t> max_tokens;
  std::optional<double> temperature, top_p;
  base::Json options = base::Json::object();  ///< merged into the request's body
  bool stream = true;

  Prices prices;
  std::optional<std::uint64_t> requests_per_minute, tokens_per_minute, concurrent;
  unsigned attempts = 10;  ///< network errors, 408, 409, 425, 429, 5xx and broken replies are tried again
  std::chrono::milliseconds first_pause{4000}, longest_pause{60000};
  std::chrono::milliseconds connect_timeout{30000}, total_timeout{1800000};
  std::chrono::seconds idle_timeout{300};
  std::uint64_t max_reply_bytes = std::uint64_t{64} << 20;

  std::filesystem::path answers;  ///< of replay: folder of recorded answers
  std::filesystem::path record;   ///< folder to write every answer to, for replay
};

/// Address, key variable and so on as the provider has them.
ModelConfig default_config(Provider provider, std::string name);

using ModelConfigs = std::map<std::string, ModelConfig>;

/// Reads a `[models.NAME]` table of tables. Relative folders in it start at `folder`.
Result<ModelConfigs> read_model_configs(const base::TomlValue& models, const std::string& file,
                                        const std::filesystem::path& folder);
/// Reads a file that has `[models.NAME]` tables and nothing else.
Result<ModelConfigs> load_model_configs(const std::filesystem::path& file);

/// The file to read unless told otherwise: $PTXBENCH_MODELS, else models.toml in $XDG_CONFIG_HOME/ptxbench or
/// ~/.config/ptxbench, if it is there.
std::optional<std::filesystem::path> default_models_file();

/// What keeps the model from being asked (a variable that is not set, a folder that is missing), or nothing.
std::optional<std::string> what_is_missing(const ModelConfig& config);

/// What it costs by the configured prices, if prices and tokens are known.
std::optional<double> cost_by_prices(const Prices& prices, std::optional<std::uint64_t> prompt,
                                     std::optional<std::uint64_t> cached, std::optional<std::uint64_t> completion);

}  // namespace ptxbench::models
