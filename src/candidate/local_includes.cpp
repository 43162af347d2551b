#include "candidate/local_includes.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "candidate/extraction.h"

namespace ptxbench::candidate {
namespace {

namespace fs = std::filesystem;

/// The name in `#include "NAME"`. `code` is the same line without comments and the contents of strings.
std::string_view quoted_include(std::string_view line, std::string_view code) {
  std::string_view rest = base::trim(code);
  if (!rest.starts_with('#')) return {};
  rest = base::trim(rest.substr(1));
  constexpr std::string_view kInclude = "include";
  if (!rest.starts_with(kInclude) || !base::trim(rest.substr(kInclude.size())).starts_with('"')) return {};
  const std::size_t open = code.find('"');
  const std::size_t close = code.find('"', open + 1);
  return close == std::string_view::npos ? std::string_view() : line.substr(open + 1, close - open - 1);
}

class Expansion {
 public:
  Expansion(fs::path folder, std::uint64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  Result<std::string> run(const fs::path& file) { return expand(file, "kernel.cu"); }

 private:
  struct Open {
    fs::path file;  ///< canonical
    std::string shown;
    std::size_t line = 0;
  };

  /// Whether `name`, included by the innermost open file, is to be replaced, and by which file.
  Result<fs::path> find(std::string_view name) const {
    const bool source = name.ends_with(".cu");
    const std::string where = fmt::format("{}:{}", open_.back().file.string(), open_.back().line);
    if (name.empty() || name.find('/') != std::string_view::npos || name.find('\\') != std::string_view::npos) {
      if (!source) return fs::path();
      return input_error("{}: \"{}\" is not the name of a file beside {}: only such files can be included", where, name,
                         open_.front().file.filename().string());
    }
    std::error_code error;
    const fs::path beside = folder_ / name;
    if (!fs::exists(beside, error)) {
      if (!source) return fs::path();
      return input_error("{}: \"{}\" does not exist in {}", where, name, folder_.string());
    }
    const fs::path file = fs::canonical(beside, error);
    if (error) return input_error("{}: \"{}\": {}", where, name, error.message());
    if (!fs::is_regular_file(file, error)) return input_error("{}: \"{}\" is no ordinary file", where, name);
    if (file.parent_path() != folder_) {
      return input_error("{}: \"{}\" leads out of {}: only files in that folder can be included", where, name,
                         folder_.string());
    }
    return file;
  }

  Result<std::string> expand(const fs::path& file, const std::string& shown) {
    auto text = base::read_file(file, max_bytes_ - std::min(max_bytes_, bytes_));
    if (!text) return tl::unexpected<Error>(text.error());
    if (text->find('\0') != std::string::npos) return input_error("{} is not a text file", file.string());
    bytes_ += text->size();
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (!open_.empty() && text->starts_with(kByteOrderMark)) text->erase(0, kByteOrderMark.size());
    seen_.push_back(file);
    open_.push_back({file, shown, 0});
    const std::string code = blank_comments_and_strings(*text);
    std::string out;
    bool replaced = false;
    for (std::size_t from = 0; from < text->size();) {
      const std::size_t end = std::min(text->find('\n', from), text->size() - 1) + 1;
      const std::string_view line = std::string_view(*text).substr(from, end - from);
      ++open_.back().line;
      const std::string_view name = quoted_include(line, std::string_view(code).substr(from, end - from));
      from = end;
      auto included = name.data() == nullptr ? fs::path() : find(name);
      if (!included) return tl::unexpected<Error>(included.error());
      if (included->empty()) {
        // Each file comes once: what says so means nothing inside another file.
        const bool once = open_.size() > 1 && base::trim(line) == "#pragma once";
        replaced = replaced || once;
        out += once ? std::string_view("\n") : line;
        continue;
      }
      const auto same = [&](const Open& open) { return open.file == *included; };
      if (std::any_of(open_.begin(), open_.end(), same)) return cycle(*included);
      replaced = true;
      if (std::find(seen_.begin(), seen_.end(), *included) != seen_.end()) {
        out += '\n';
        continue;
      }
      auto inner = expand(*included, std::string(name));
      if (!inner) return inner;
      out += fmt::format("#line 1 \"{}\"\n{}", name, *inner);
      if (!out.ends_with('\n')) out += '\n';
      out += fmt::format("#line {} \"{}\"\n", open_.back().line + 1, shown);
    }
    open_.pop_back();
    return replaced ? out : *text;
  }

  tl::unexpected<Error> cycle(const fs::path& file) const {
    std::string chain;
    for (const Open& open : open_) chain += fmt::format("{}:{} -> ", open.file.filename().string(), open.line);
    return input_error("files that include each other: {}{}", chain, file.filename().string());
  }

  fs::path folder_;  ///< canonical
  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  std::vector<Open> open_;
  std::vector<fs::path> seen_;
};

}  // namespace

Result<std::string> read_with_local_includes(const fs::path& file, std::uint64_t max_bytes) {
  std::error_code error;
  const fs::path canonical = fs::canonical(file, error);
  if (error) return base::read_file(file, max_bytes);  // which says what is wrong
  return Expansion(canonical.parent_path(), max_bytes).run(canonical);
}

}  // namespace ptxbench::candidate
