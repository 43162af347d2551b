#include "report/page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>

#include "base/gzip.h"
#include "base/text.h"
#include "report/page_files.h"

namespace ptxbench::report {
namespace {

using base::Json;

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// How a content security policy names a script or style.
std::string digest(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return "'sha256-" + base64({reinterpret_cast<const char*>(hash.data()), hash.size()}) + "'";
}

/// The template with its marks filled in, in one pass: what is filled in may hold what looks like a mark.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& parts) {
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t open = page.find("{{", at), close = page.find("}}", open);
    out += page.substr(at, open - at);
    if (open == std::string_view::npos) break;
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    if (part == parts.end()) throw std::logic_error("page.html has a mark that nothing fills");
    out += part->second;
    at = close + 2;
  }
  return out;
}

/// JSON as it is: taking it apart again costs a browser several times less than unpacking it first. Nothing in it can
/// end the element, since "<" stands there as its escape (it can only be within a string).
std::string json_block(std::string_view id, std::string_view json) {
  std::string safe;
  safe.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, safe);
}

std::string packed_block(std::string_view id, std::string_view compressed) {
  // Base64 has no character that could end the element.
  return fmt::format("<script type=\"text/plain\" id=\"{}\">{}</script>\n", id, base64(compressed));
}

/// The trajectories' texts, compressed, as far as they fit.
struct Texts {
  std::vector<bool> present;
  std::string blocks;
  std::uint64_t left_out = 0;  ///< bytes
};

Texts texts_of(const Table& table, std::uint64_t most) {
  Texts out;
  out.present.resize(table.trajectories.size());
  // First one of each run, then a second one, and so on: where not all fit, every run has some.
  std::vector<std::uint32_t> order, seen(table.runs.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranked;
  for (std::uint32_t i = 0; i < table.trajectories.size(); ++i) {
    if (!table.trajectories[i].file.empty()) ranked.emplace_back(seen[table.trajectories[i].run]++, i);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> compressed(ranked.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> used = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < ranked.size(); i = next++) {
      if (used > most) return;
      const auto texts = trajectory_texts(table.trajectories[ranked[i].second]);
      if (!texts) continue;
      compressed[i] = base::gzip(texts->dump(-1, ' ', false, Json::error_handler_t::replace));
      used += compressed[i].size();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < std::max(1U, std::thread::hardware_concurrency()); ++i) helpers.emplace_back(work);
    work();
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (compressed[i].empty()) continue;
    if (sum + compressed[i].size() > most) {
      out.left_out += compressed[i].size();
      continue;
    }
    sum += compressed[i].size();
    out.present[ranked[i].second] = true;
    out.blocks += packed_block(fmt::format("texts-{}", ranked[i].second), compressed[i]);
  }
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

namespace {

/// In ASCII, as everything in the page but a title: browsers read that fastest. Bytes that are not UTF-8 are replaced.
std::string dump(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace

std::string page_html(const Table& table, const PageOptions& options) {
  const std::string style = files::style_charting() + "\n" + files::page_css();
  const std::string charting = "/*\n" + files::license_charting() + "*/\n" + files::script_charting();
  const std::string script = fmt::format("(() => {{\n\"use strict\";\n{}{}{}{}{}{}{}}})();\n", files::script_base(),
                                         files::script_data(), files::script_stats(), files::script_charts(),
                                         files::script_sections(), files::script_trajectory(), files::script_app());
  const std::string title = options.title.empty() ? "PTXBench results" : options.title;
  std::string data, blocks;  // before the scripts and after them
  if (!options.live) {
    Texts texts = texts_of(table, options.text_bytes);
    Json json = page_data(table, options, texts.present, texts.left_out);
    blocks = json_block("details", dump(json["details"])) + texts.blocks;
    json.erase("details");
    data = json_block("data", dump(json));
  }
  // Nothing is loaded and no script runs but these two, whatever a run's texts hold.
  const std::string policy = fmt::format(
      "default-src 'none'; script-src {} {}; style-src {}; img-src data:; connect-src {}; base-uri 'none'; "
      "form-action 'none'",
      digest(charting), digest(script), digest(style), options.live ? "'self'" : "'none'");
  return filled(files::page_html(), {{"policy", policy},
                                     {"title", escape_html(title)},
                                     {"style", style},
                                     {"data", data},
                                     {"script", script},
                                     {"charting", charting},
                                     {"blocks", blocks}});
}

}  // namespace ptxbench::report
