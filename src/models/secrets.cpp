#include "models/secrets.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace ptxbench::models {
namespace {

constexpr std::size_t kMostForms = 300;  ///< every text is searched for each

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
  // "X-Auth-Token", "hfToken" and "HF_TOKEN" are the same words.
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z' && !plain.empty() && plain.back() >= 'a' && plain.back() <= 'z') plain += '_';
    plain += c == '-' || c == '.' || c == ' ' ? '_' : c;
  }
  plain = base::to_lower(plain);
  for (const std::string_view word : {"api_key", "apikey", "authorization", "secret", "passw", "credential", "cookie",
                                      "access_key", "private_key", "goog_api", "bearer"}) {
    if (plain.find(word) != std::string::npos) return true;
  }
  if (plain == "key" || plain == "authtoken" || plain == "accesstoken") return true;
  // Pieces of text and not keys: eos_token and the like. A bare "token" is one in every reply with log probabilities.
  if (!plain.ends_with("_token")) return false;
  const std::string_view kind = std::string_view(plain).substr(0, plain.size() - 6);
  for (const std::string_view text : {"eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "start", "end", "first",
                                      "last", "next", "special", "image", "per"}) {
    if (kind == text || kind.ends_with(fmt::format("_{}", text))) return false;
  }
  return true;
}

bool may_hold_a_key(std::string_view name, std::string_view value) {
  constexpr std::size_t kShortest = 16;
  if (names_a_key(name)) return true;
  return base::to_lower(name) == "token" && value.size() >= kShortest &&
         value.find_first_of(" \t\n") == std::string_view::npos;
}

void Secrets::add(std::string_view key) {
  if (key.empty() || forms_.size() >= kMostForms) return;
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
