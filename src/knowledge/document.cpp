#include "knowledge/document.h"

#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "knowledge/source_text.h"

namespace ptxbench::knowledge {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 20;

/// One {{...}} of a document.
struct Directive {
  std::string_view name, arguments;
};

Directive parse_directive(std::string_view inside) {
  inside = base::trim(inside);
  const std::size_t space = inside.find(' ');
  if (space == std::string_view::npos) return {inside, {}};
  return {inside.substr(0, space), base::trim(inside.substr(space))};
}

class Renderer {
 public:
  Renderer(const fs::path& folder, std::string_view document, const Numbers& numbers, std::string_view target)
      : folder_(folder), document_(document), numbers_(numbers), target_(target) {}

  Result<Rendered> run() {
    const auto text = read_inside(folder_, document_);
    if (!text) return tl::unexpected(text.error());
    for (const std::string_view line : base::split_lines(*text)) {
      ++line_;
      auto done = add_line(line);
      if (!done) return input_error("{}:{}: {}", document_, line_, done.error().message);
    }
    return std::move(out_);
  }

 private:
  Result<void> add_line(std::string_view line) {
    if (base::trim(line).starts_with("```")) {
      return input_error(
          "code in a document is not tested: move it to a source file and write {{{{code FILE#REGION}}}}");
    }
    const std::string_view trimmed = base::trim(line);
    if (trimmed.starts_with("{{") && trimmed.ends_with("}}") && trimmed.find("}}") == trimmed.size() - 2) {
      const Directive directive = parse_directive(trimmed.substr(2, trimmed.size() - 4));
      if (directive.name != "number") {
        out_.prose += '\n';
        return add_block(directive);
      }
    }
    std::string result;
    std::size_t at = 0;
    while (true) {
      const std::size_t open = line.find("{{", at);
      result += line.substr(at, open - at);
      if (open == std::string_view::npos) break;
      const std::size_t close = line.find("}}", open);
      if (close == std::string_view::npos) return input_error("a {{{{ without its }}}}");
      const Directive directive = parse_directive(line.substr(open + 2, close - open - 2));
      if (directive.name != "number") {
        return input_error("unknown '{{{{{}}}}}' inside a line: only {{{{number GROUP.KEY}}}} may stand there",
                           directive.name);
      }
      const auto number = numbers_.find(target_, directive.arguments);
      if (!number) return tl::unexpected(number.error());
      result += (*number)->text;
      at = close + 2;
    }
    out_.text += result + '\n';
    out_.prose += result + '\n';
    return {};
  }

  Result<void> add_block(const Directive& directive) {
    if (directive.name == "table") {
      auto text = read_inside(folder_, directive.arguments);
      if (!text) return tl::unexpected(text.error());
      out_.sources.emplace(directive.arguments);
      out_.text += *text;
      if (!out_.text.ends_with('\n')) out_.text += '\n';
      return {};
    }
    if (directive.name == "numbers") {
      auto table = numbers_.table(target_, directive.arguments);
      if (!table) return tl::unexpected(table.error());
      out_.text += *table;
      return {};
    }
    if (directive.name != "code") {
      return input_error("unknown '{{{{{}}}}}': code, table, numbers or number", directive.name);
    }
    std::string block;
    const bool python = directive.arguments.find(".py") != std::string_view::npos;
    for (const std::string_view piece : base::split(directive.arguments, ' ')) {
      if (piece.empty()) continue;
      auto text = piece_of(piece);
      if (!text) return tl::unexpected(text.error());
      if (!block.empty()) block += '\n';
      block += *text;
    }
    if (base::trim(block).empty()) return input_error("{{{{code}}}} puts nothing in");
    if (block.find("#include \"") != std::string::npos) {
      return input_error(
          "shown code includes a header of ours; what a model hands in is one file: show a region without it");
    }
    out_.code += block;
    out_.text += fmt::format("```{}\n{}```\n", python ? "python" : "cpp", block);
    return {};
  }

  Result<std::string> piece_of(std::string_view piece) {
    const std::size_t hash = piece.find('#');
    const std::string_view file = piece.substr(0, hash);
    auto source = read_inside(folder_, file);
    if (!source) return source;
    out_.sources.emplace(file);
    const auto regions = find_regions(*source, file);
    if (!regions) return tl::unexpected(regions.error());
    std::string text;
    if (hash == std::string_view::npos) {
      for (const std::string_view line : base::split_lines(*source)) {
        const std::string_view trimmed = base::trim(line);
        if (is_region_mark(trimmed)) continue;
        text.append(line).append("\n");
      }
      return text;
    }
    const std::string_view name = piece.substr(hash + 1);
    const auto found = regions->find(name);
    if (found == regions->end()) {
      std::vector<std::string> names;
      for (const auto& [known, region] : *regions) names.push_back(known);
      return input_error("{} has no region '{}'{}", file, name, base::did_you_mean(name, names));
    }
    // Indented regions are shown from the left edge.
    std::size_t indent = std::string_view::npos;
    for (const std::string_view line : base::split_lines(found->second.text)) {
      if (!base::trim(line).empty()) indent = std::min(indent, line.find_first_not_of(' '));
    }
    for (const std::string_view line : base::split_lines(found->second.text)) {
      text.append(line.substr(std::min(indent, line.size()))).append("\n");
    }
    return text;
  }

  const fs::path& folder_;
  std::string_view document_;
  const Numbers& numbers_;
  std::string_view target_;
  Rendered out_;
  std::uint32_t line_ = 0;
};

class Flattening {
 public:
  Flattening(const fs::path& folder, std::string_view target) : folder_(folder), target_(target) {}

  Result<std::string> run(const std::string& file) {
    auto text = read_inside(folder_, file);
    if (!text) return text;
    if (std::find(open_.begin(), open_.end(), file) != open_.end()) {
      return input_error("{} includes itself: {} -> {}", file, fmt::format("{}", fmt::join(open_, " -> ")), file);
    }
    open_.push_back(file);
    std::string out;
    for (const std::string_view line : base::split_lines(*text)) {
      const std::string_view trimmed = base::trim(line);
      if (trimmed == "#pragma once" || trimmed.starts_with("// region ") || trimmed.starts_with("// endregion"))
        continue;
      if (!trimmed.starts_with("#include \"")) {
        out.append(line).append("\n");
        continue;
      }
      const std::string_view name = trimmed.substr(10, trimmed.find('"', 10) - 10);
      auto included = locate(file, name);
      if (!included) return tl::unexpected(included.error());
      // Headers come in once, as their `#pragma once` says; a pattern may come in again, under other macros.
      if (included->ends_with(".cuh") && std::find(open_.begin(), open_.end(), *included) == open_.end() &&
          !seen_.insert(*included).second) {
        continue;
      }
      auto inner = run(*included);
      if (!inner) return inner;
      out += *inner;
    }
    open_.pop_back();
    return out;
  }

 private:
  Result<std::string> locate(const std::string& from, std::string_view name) const {
    const std::string own = fs::path(from).parent_path().generic_string();
    for (const std::string& place : {own + "/", std::string("common/include/"), std::string(target_) + "/include/",
                                     std::string(), std::string("sm_100a/include/")}) {
      const std::string candidate = place + std::string(name);
      std::error_code ignored;
      if (fs::is_regular_file(folder_ / candidate, ignored)) return candidate;
    }
    return input_error(
        "{} includes \"{}\", which is neither beside it nor in common/include or {}/include, nor a path "
        "from the knowledge folder",
        from, name, target_);
  }

  const fs::path& folder_;
  std::string_view target_;
  std::vector<std::string> open_;
  std::set<std::string> seen_;
};

}  // namespace

Result<std::string> read_inside(const fs::path& folder, std::string_view relative) {
  const fs::path path(relative);
  const bool climbs = std::find(path.begin(), path.end(), fs::path("..")) != path.end();
  if (relative.empty() || path.is_absolute() || climbs) {
    return input_error("'{}' is no path inside the knowledge folder", relative);
  }
  std::error_code error;
  const fs::path real = fs::canonical(folder / path, error);
  if (error) return input_error("there is no {} in {}", relative, folder.string());
  const fs::path root = fs::canonical(folder, error);
  const fs::path back = real.lexically_relative(root);
  if (back.empty() || *back.begin() == "..") return input_error("'{}' leads out of the knowledge folder", relative);
  return base::read_file(real, kMaxFileBytes);
}

Result<Rendered> render_document(const fs::path& folder, std::string_view document, const Numbers& numbers,
                                 std::string_view target) {
  return Renderer(folder, document, numbers, target).run();
}

Result<std::string> flatten(const fs::path& folder, std::string_view file, std::string_view target) {
  return Flattening(folder, target).run(std::string(file));
}

}  // namespace ptxbench::knowledge
