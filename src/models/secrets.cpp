#include "models/secrets.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace ptxbench::models {
namespace {

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

bool names_a_key(std::string_view name) {
  const std::string lower = base::to_lower(name);
  for (const std::string_view word :
       {"api_key", "apikey", "api-key", "authorization", "secret", "password", "access_token", "goog-api"}) {
    if (lower.find(word) != std::string::npos) return true;
  }
  return lower == "key" || lower == "token";
}

void Secrets::add(std::string_view key) {
  if (key.empty()) return;
  std::string quoted = base::Json(std::string(key)).dump(-1, ' ', false, base::Json::error_handler_t::replace);
  quoted = quoted.substr(1, quoted.size() - 2);
  for (std::string form : {std::string(key), std::move(quoted), percent_encoded(key)}) {
    if (std::find(forms_.begin(), forms_.end(), form) == forms_.end()) forms_.push_back(std::move(form));
  }
  // A key that contains another one is replaced whole.
  std::sort(forms_.begin(), forms_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string Secrets::replace(std::string text, std::size_t shortest) const {
  for (const std::string& form : forms_) {
    if (form.size() >= shortest) text = base::replace_all(text, form, "[key]");
  }
  return text;
}

}  // namespace ptxbench::models
