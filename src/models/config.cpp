#include "models/config.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "models/secrets.h"

namespace ptxbench::models {
namespace {

using base::Json;
using base::TomlReader;
using base::TomlValue;

struct ProviderFacts {
  Provider provider;
  std::string_view name, base_url, key_variable;
};
constexpr std::array<ProviderFacts, 6> kProviders = {{
    {Provider::openai, "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"},
    {Provider::responses, "openai-responses", "https://api.openai.com/v1", "OPENAI_API_KEY"},
    {Provider::anthropic, "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
    {Provider::gemini, "gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"},
    {Provider::openrouter, "openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"},
    {Provider::replay, "replay", "", ""},
}};

constexpr double kMost = 1e12;
constexpr std::int64_t kMostCount = 1'000'000'000;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Members of a body that the program writes itself.
constexpr std::array<std::string_view, 7> kOwnMembers = {"model",    "messages", "stream",      "input",
                                                         "contents", "system",   "instructions"};

void read_prices(TomlReader& table, const TomlValue& value, Prices& prices) {
  TomlReader reader(value, table.file(), table.path_of("prices"));
  prices.input = reader.number("input", 0, kMost);
  prices.output = reader.number("output", 0, kMost);
  prices.cached_input = reader.number("cached_input", 0, kMost);
  if (auto read = reader.finish(); !read) {
    table.keep(read.error());
  } else if (prices.input.has_value() != prices.output.has_value()) {
    table.fail("prices", "needs both 'input' and 'output', in dollars per million tokens");
  }
}

void read_limits(TomlReader& table, const TomlValue& value, ModelConfig& config) {
  TomlReader reader(value, table.file(), table.path_of("limits"));
  const auto count = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto number = reader.integer(key, 1, kMostCount);
    return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
  };
  config.requests_per_minute = count("requests_per_minute");
  config.tokens_per_minute = count("tokens_per_minute");
  config.concurrent = count("concurrent");
  if (auto read = reader.finish(); !read) table.keep(read.error());
}

void read_retry(TomlReader& table, const TomlValue& value, ModelConfig& config) {
  TomlReader reader(value, table.file(), table.path_of("retry"));
  if (const auto attempts = reader.integer("attempts", 1, 1000)) config.attempts = static_cast<unsigned>(*attempts);
  if (const auto pause = reader.number("first_pause", 0, 3600)) config.first_pause = milliseconds(*pause);
  if (const auto pause = reader.number("longest_pause", 0, 3600)) config.longest_pause = milliseconds(*pause);
  if (auto read = reader.finish(); !read) table.keep(read.error());
}

void read_timeouts(TomlReader& table, const TomlValue& value, ModelConfig& config) {
  TomlReader reader(value, table.file(), table.path_of("timeouts"));
  if (const auto seconds = reader.number("connect", 0.1, 86400)) config.connect_timeout = milliseconds(*seconds);
  if (const auto seconds = reader.number("total", 0.1, 86400)) config.total_timeout = milliseconds(*seconds);
  if (const auto seconds = reader.integer("idle", 1, 86400)) config.idle_timeout = std::chrono::seconds(*seconds);
  if (auto read = reader.finish(); !read) table.keep(read.error());
}

void read_headers(TomlReader& table, ModelConfig& config) {
  const auto headers = table.object("headers");
  if (!headers) return;
  for (const auto& [name, value] : headers->items()) {
    if (names_a_key(name)) {
      table.fail("headers", fmt::format("has '{}': keys come from the environment only; name the variable in "
                                        "'key_variable' and the header in 'key_header'",
                                        name));
    } else if (!value.is_string() || value.get_ref<const std::string&>().find_first_of("\r\n") != std::string::npos ||
               name.find_first_of("\r\n: ") != std::string::npos || name.empty()) {
      table.fail("headers", fmt::format("has a '{}' that is no header: a name and one line of text are needed", name));
    } else {
      config.headers[name] = value.get<std::string>();
    }
  }
}

bool is_variable_name(std::string_view text) {
  if (text.empty() || (text.front() >= '0' && text.front() <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// The first member, at any depth, whose name says that it holds a key. What a list holds goes by the list's name.
std::optional<std::string> key_in(const Json& json, const std::string& name = {}) {
  if (json.is_string()) {
    return may_hold_a_key(name, json.get_ref<const std::string&>()) ? std::optional(name) : std::nullopt;
  }
  if (!json.is_structured()) return std::nullopt;
  for (const auto& item : json.items()) {
    if (auto found = key_in(item.value(), json.is_object() ? item.key() : name)) return found;
  }
  return std::nullopt;
}

void check_base_url(TomlReader& table, ModelConfig& config) {
  std::string& url = config.base_url;
  while (url.ends_with('/')) url.pop_back();
  const std::size_t scheme = url.find("://");
  if (!(url.starts_with("http://") || url.starts_with("https://")) || url.size() == scheme + 3) {
    table.fail("base_url", fmt::format("is '{}'; it must start with http:// or https://", url));
  } else if (url.substr(0, url.find('/', scheme + 3)).find('@') != std::string::npos) {
    table.fail("base_url", "holds a user name or password; keys come from the environment: use 'key_variable'");
  } else if (url.find_first_of("?# \t\r\n") != std::string::npos) {
    table.fail("base_url", "must be an address without query, fragment or blanks");
  }
}

void read_endpoint(TomlReader& table, ModelConfig& config) {
  if (auto text = table.text("base_url")) config.base_url = *text;
  check_base_url(table, config);
  config.model = table.text("model").value_or("");
  if (config.model.empty()) table.fail("model", "is missing: the model's name at the endpoint");
  if (auto text = table.text("key_variable")) {
    config.key_variable = *text;
    // What is no name may be the key itself; it must not be repeated.
    if (!text->empty() && !is_variable_name(*text)) {
      table.fail("key_variable", "is no name of an environment variable; the key itself does not belong in this file");
    }
  }
  if (auto text = table.text("key_header")) config.key_header = *text;
  if (config.key_header.find_first_of("\r\n: ") != std::string::npos) {
    table.fail("key_header", "is no name of a header");
  }
  for (const char* key : {"api_key", "key", "token"}) {
    if (table.find(key) != nullptr) {
      table.fail(key,
                 "does not belong in a file: put the key into an environment variable and name that in "
                 "'key_variable'");
    }
  }
  read_headers(table, config);
  if (const auto count = table.integer("max_tokens", 1, kMostCount)) {
    config.max_tokens = static_cast<std::uint64_t>(*count);
  }
  config.temperature = table.number("temperature", 0, 10);
  config.top_p = table.number("top_p", 0, 1);
  if (auto options = table.object("options")) {
    config.options = std::move(*options);
    for (const std::string_view own : kOwnMembers) {
      if (config.options.contains(std::string(own))) {
        table.fail("options", fmt::format("has '{}', which the program writes itself{}", own,
                                          own == "stream" ? "; set 'stream' beside 'options'" : ""));
      }
    }
  }
  if (const auto name = key_in(config.options)) {
    table.fail("options", fmt::format("has '{}': keys come from the environment only; name the variable in "
                                      "'key_variable'",
                                      *name));
  }
  if (const auto stream = table.flag("stream")) config.stream = *stream;
  if (const TomlValue* value = table.find("prices")) read_prices(table, *value, config.prices);
  if (const TomlValue* value = table.find("limits")) read_limits(table, *value, config);
  if (const TomlValue* value = table.find("retry")) read_retry(table, *value, config);
  if (const TomlValue* value = table.find("timeouts")) read_timeouts(table, *value, config);
  if (const auto bytes = table.integer("max_reply_bytes", 1024, std::int64_t{1} << 40)) {
    config.max_reply_bytes = static_cast<std::uint64_t>(*bytes);
  }
}

Result<ModelConfig> read_one(const std::string& name, const TomlValue& value, const std::string& file,
                             const std::filesystem::path& folder) {
  TomlReader table(value, file, "models." + name);
  const std::string provider = table.text("provider").value_or("");
  const auto known = std::find_if(kProviders.begin(), kProviders.end(),
                                  [&](const ProviderFacts& facts) { return facts.name == provider; });
  if (known == kProviders.end()) {
    std::vector<std::string_view> names;
    names.reserve(kProviders.size());
    for (const ProviderFacts& facts : kProviders) names.push_back(facts.name);
    std::string list;
    for (const std::string_view one : names) list += fmt::format("{}{}", list.empty() ? "" : ", ", one);
    table.fail("provider", provider.empty() ? fmt::format("is missing; known are {}", list)
                                            : fmt::format("is '{}'{}; known are {}", provider,
                                                          base::did_you_mean(provider, names), list));
    auto failed = table.finish();
    return tl::unexpected<Error>(failed.error());
  }
  ModelConfig config = default_config(known->provider, name);
  const auto path = [&](std::string_view key) -> std::filesystem::path {
    const auto text = table.text(key);
    return text && !text->empty() ? folder / *text : std::filesystem::path();
  };
  config.record = path("record");
  if (config.provider == Provider::replay) {
    config.answers = path("answers");
    if (config.answers.empty()) table.fail("answers", "is missing: the folder of the recorded answers");
  } else {
    read_endpoint(table, config);
  }
  if (auto read = table.finish(); !read) return tl::unexpected<Error>(read.error());
  return config;
}

}  // namespace

std::string_view to_string(Provider provider) {
  for (const ProviderFacts& facts : kProviders) {
    if (facts.provider == provider) return facts.name;
  }
  return "";
}

ModelConfig default_config(Provider provider, std::string name) {
  ModelConfig config;
  config.name = std::move(name);
  config.provider = provider;
  for (const ProviderFacts& facts : kProviders) {
    if (facts.provider != provider) continue;
    config.base_url = facts.base_url;
    config.key_variable = facts.key_variable;
  }
  return config;
}

Result<ModelConfigs> read_model_configs(const TomlValue& models, const std::string& file,
                                        const std::filesystem::path& folder) {
  const auto* table = models.get_if<TomlValue::Table>();
  if (table == nullptr) {
    return input_error("{}:{}: 'models' is {}; write a table [models.NAME] per model", file, models.line,
                       models.kind());
  }
  ModelConfigs configs;
  for (std::size_t i = 0; i < table->keys.size(); ++i) {
    const std::string& name = table->keys[i];
    if (name.empty() || name.find_first_of("/\\\r\n") != std::string::npos) {
      return input_error("{}:{}: '{}' is no name for a model", file, table->values[i].line, name);
    }
    auto config = read_one(name, table->values[i], file, folder);
    if (!config) return tl::unexpected<Error>(config.error());
    configs.emplace(name, std::move(*config));
  }
  return configs;
}

Result<ModelConfigs> load_model_configs(const std::filesystem::path& file) {
  auto text = base::read_file(file, std::uint64_t{4} << 20);
  if (!text) return tl::unexpected<Error>(text.error());
  auto toml = base::read_toml(*text, file.string(), "a models file");
  if (!toml) return tl::unexpected<Error>(toml.error());
  TomlReader top(*toml, file.string(), "");
  const TomlValue* models = top.find("models");
  if (auto read = top.finish(); !read) return tl::unexpected<Error>(read.error());
  if (models == nullptr) return ModelConfigs();
  return read_model_configs(*models, file.string(), file.parent_path());
}

std::optional<std::filesystem::path> default_models_file() {
  const auto value = [](const char* name) -> std::filesystem::path {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  if (const auto own = value("PTXBENCH_MODELS"); !own.empty()) return own;
  std::filesystem::path folder = value("XDG_CONFIG_HOME");
  if (folder.empty() && !value("HOME").empty()) folder = value("HOME") / ".config";
  if (folder.empty()) return std::nullopt;
  std::filesystem::path file = folder / "ptxbench" / "models.toml";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  return file;
}

std::optional<std::string> what_is_missing(const ModelConfig& config) {
  if (config.provider == Provider::replay) {
    std::error_code error;
    if (!std::filesystem::is_directory(config.answers, error)) {
      return fmt::format("the folder of recorded answers {} is missing", config.answers.string());
    }
    return std::nullopt;
  }
  if (config.key_variable.empty()) return std::nullopt;
  const char* key = std::getenv(config.key_variable.c_str());
  if (key == nullptr || *key == '\0') {
    return fmt::format(
        "the environment variable {} with the endpoint's key is not set; for a server without keys set an empty key "
        "variable (key_variable = \"\", --key-variable '')",
        config.key_variable);
  }
  if (std::string_view(key).find_first_of("\r\n") != std::string_view::npos) {
    return fmt::format("the key in the environment variable {} has more than one line", config.key_variable);
  }
  return std::nullopt;
}

std::optional<double> cost_by_prices(const Prices& prices, std::optional<std::uint64_t> prompt,
                                     std::optional<std::uint64_t> cached, std::optional<std::uint64_t> completion) {
  if (!prices.input || !prices.output || !prompt || !completion) return std::nullopt;
  const std::uint64_t from_cache = std::min(cached.value_or(0), *prompt);
  const double dollars = static_cast<double>(*prompt - from_cache) * *prices.input +
                         static_cast<double>(from_cache) * prices.cached_input.value_or(*prices.input) +
                         static_cast<double>(*completion) * *prices.output;
  return dollars / 1e6;
}

}  // namespace ptxbench::models
