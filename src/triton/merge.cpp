#include "triton/merge.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "ptx/parser.h"

namespace ptxbench::triton {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

/// The line with whole words replaced; what follows `//` stays.
std::string rename(std::string_view line, const std::map<std::string, std::string, std::less<>>& names) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    if (line.substr(at).starts_with("//")) return out + std::string(line.substr(at));
    if (!is_word(line[at])) {
      out += line[at++];
      continue;
    }
    std::size_t end = at;
    while (end < line.size() && is_word(line[end])) ++end;
    const std::string_view word = line.substr(at, end - at);
    // Registers and directives are words behind a mark.
    const bool plain = at == 0 || (line[at - 1] != '%' && line[at - 1] != '.');
    const auto found = plain ? names.find(word) : names.end();
    out += found == names.end() ? std::string(word) : found->second;
    at = end;
  }
  return out;
}

/// Adds `shift` to the number that follows `word` for the first time.
void shift_number(std::string& line, std::string_view word, std::uint64_t shift) {
  const std::size_t at = line.find(word);
  if (at == std::string::npos) return;
  const std::size_t begin = line.find_first_of("0123456789", at + word.size());
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(line.find_first_not_of("0123456789", begin), line.size());
  const auto number = base::parse_u64(line.substr(begin, end - begin));
  if (number) line.replace(begin, end - begin, std::to_string(*number + shift));
}

class Merger {
 public:
  Result<void> add(const Kernel& kernel) {
    const auto module = ptx::parse_module(kernel.ptx, kernel.name + ".ptx");
    if (!module) return tl::unexpected<Error>(module.error());
    ++count_;
    std::map<std::string, std::string, std::less<>> names;
    const auto define = [&](const std::string& name) {
      std::string unique = name;
      for (int i = 2; !taken_.insert(unique).second; ++i) unique = fmt::format("{}__{}", name, i);
      if (unique != name) names[name] = unique;
      return unique;
    };
    std::string entry;
    for (const ptx::Function& function : module->functions) {
      if (function.is_extern || !function.has_body) continue;
      const std::string name = define(function.name);
      if (function.name == kernel.name) entry = name;
    }
    for (const ptx::Variable& variable : module->variables) {
      if (!variable.is_extern) define(variable.name);
    }
    if (entry.empty()) return input_error("its PTX has no kernel {}", kernel.name);
    std::uint64_t last_file = 0;
    for (const ptx::SourceFile& file : module->files) last_file = std::max<std::uint64_t>(last_file, file.index);
    add_text(kernel.ptx, names);
    files_ += last_file;
    result_.names.push_back(entry);
    return {};
  }

  MergedPtx finish() {
    if (!strings_.empty()) result_.text += ".section .debug_str\n{\n" + strings_ + "}\n";
    return std::move(result_);
  }

 private:
  void add_text(std::string_view text, const std::map<std::string, std::string, std::less<>>& names) {
    enum class Section { none, dropped, strings } section = Section::none;
    std::string external;  // a declaration that may take several lines
    for (const std::string_view raw : base::split_lines(text)) {
      const std::string_view line = base::trim(raw);
      if (section != Section::none) {
        if (line == "}") {
          section = Section::none;
        } else if (section == Section::strings && line != "{") {
          strings_ += own_labels(std::string(raw)) + '\n';
        }
        continue;
      }
      if (line.starts_with(".section")) {
        section = line.find(".debug_str") != std::string_view::npos ? Section::strings : Section::dropped;
        continue;
      }
      const bool heading =
          line.starts_with(".version ") || line.starts_with(".target ") || line.starts_with(".address_size ");
      if (heading && count_ > 1) continue;
      if (!external.empty() || line.starts_with(".extern ")) {
        external += std::string(raw) + '\n';
        if (line.find(';') != std::string_view::npos) {
          if (externals_.insert(external).second) result_.text += external;
          external.clear();
        }
        continue;
      }
      std::string out(raw);
      if (line.starts_with(".loc")) {
        shift_number(out, ".loc", files_);
        shift_number(out, "inlined_at", files_);
        out = own_labels(std::move(out));
      } else if (line.starts_with(".file")) {
        shift_number(out, ".file", files_);
      } else {
        out = rename(out, names);
      }
      result_.text += out + '\n';
    }
  }

  /// Labels of strings are global.
  std::string own_labels(std::string line) const {
    constexpr std::string_view kLabel = "$L__info_string";
    const std::size_t at = line.find(kLabel);
    if (at == std::string::npos || count_ == 1) return line;
    return line.insert(at + kLabel.size(), fmt::format("_{}_", count_));
  }

  MergedPtx result_;
  std::set<std::string> taken_, externals_;
  std::string strings_;
  std::uint64_t files_ = 0;
  int count_ = 0;
};

}  // namespace

Result<MergedPtx> merge_ptx(const std::vector<Kernel>& kernels) {
  // As it came, if it is alone.
  if (kernels.size() == 1) return MergedPtx{kernels.front().ptx, {kernels.front().name}};
  Merger merger;
  for (const Kernel& kernel : kernels) {
    if (auto added = merger.add(kernel); !added) return tl::unexpected<Error>(added.error());
  }
  return merger.finish();
}

}  // namespace ptxbench::triton
