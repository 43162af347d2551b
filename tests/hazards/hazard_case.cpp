#include "hazard_case.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "base/toolkit.h"

namespace ptxbench::hazards {
namespace {

constexpr std::string_view kRootMark = "@hazards@";

/// Held while a compiler runs: one of two lock files.
class CompilerSlot {
 public:
  explicit CompilerSlot(const std::filesystem::path& folder) {
    first_ = open((folder / "compiler-1.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    second_ = open((folder / "compiler-2.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (first_ >= 0 && flock(first_, LOCK_EX | LOCK_NB) == 0) return;
    if (second_ >= 0) flock(second_, LOCK_EX);
  }
  ~CompilerSlot() {
    if (first_ >= 0) close(first_);
    if (second_ >= 0) close(second_);
  }
  CompilerSlot(const CompilerSlot&) = delete;
  CompilerSlot& operator=(const CompilerSlot&) = delete;

 private:
  int first_ = -1, second_ = -1;
};

std::vector<std::string> nvcc_command(const std::string& nvcc, bool faulty) {
  std::vector<std::string> command = {nvcc, "-ptx", "-arch=sm_90a", "-lineinfo", "-std=c++17"};
  if (faulty) command.emplace_back("-DFAULTY");
  return command;
}

}  // namespace

Result<HazardCase> read_case(const std::filesystem::path& path) {
  auto text = base::read_file(path);
  if (!text) return tl::unexpected(text.error());
  HazardCase hazard;
  hazard.path = path;
  bool has_rule = false, has_fault_variant = false;
  uint32_t line_number = 0, launch_line = 0;
  for (const std::string_view line : base::split_lines(*text)) {
    ++line_number;
    if (line.starts_with("// rule: ")) {
      has_rule = true;
      std::string_view rest = line.substr(9);
      if (rest.ends_with(" (engine)")) {
        hazard.engine = true;
        rest.remove_suffix(9);
      }
      for (const std::string_view word : base::split(rest, ' ')) {
        if (word != "or" && word != "none") hazard.rules.emplace_back(word);
      }
    }
    if (line.starts_with("#ifdef FAULTY") || line.starts_with("#ifndef FAULTY")) has_fault_variant = true;
    if (line == "/* launch") launch_line = line_number;
    for (const auto& [mark, place] : {std::pair{"// FAULT", &hazard.fault_line}, {"// OTHER", &hazard.other_line}}) {
      if (line.find(mark) == std::string_view::npos) continue;
      if (*place != 0) return input_error("{}:{}: a second {}", path.string(), line_number, mark);
      *place = line_number;
    }
  }
  if (!has_rule) return input_error("{}: no line `// rule: ID`", path.string());
  if (launch_line == 0) return input_error("{}: no launch description in a comment `/* launch`", path.string());
  if (has_fault_variant == hazard.rules.empty()) {
    return input_error("{}: a faulty variant (#ifdef FAULTY) is needed, except with `// rule: none`", path.string());
  }
  // `memory.unwritten` is about what is missing: no line can be named.
  if ((hazard.fault_line == 0) != (hazard.rules.empty() || hazard.rules[0] == "memory.unwritten")) {
    return input_error("{}: exactly the faulty kernels have a line with // FAULT", path.string());
  }
  const size_t begin = text->find("/* launch\n") + 10;
  const size_t end = text->find("*/", begin);
  auto description = launch::parse(std::string_view(*text).substr(begin, end - begin), path.string(), launch_line + 1);
  if (!description) return tl::unexpected(description.error());
  hazard.launch = std::move(*description);
  return hazard;
}

bool Rule::covers(const std::string& rule) const {
  if (id.ends_with(".*")) return rule.starts_with(id.substr(0, id.size() - 1));
  return rule == id;
}

Result<std::vector<Rule>> read_rules(const std::filesystem::path& document) {
  auto text = base::read_file(document);
  if (!text) return tl::unexpected(text.error());
  std::vector<Rule> rules;
  for (const std::string_view line : base::split_lines(*text)) {
    if (!line.starts_with("| `")) continue;
    const auto cells = base::split(line, '|');
    if (cells.size() < 4 || cells[1].find('.') == std::string_view::npos) continue;
    const auto pieces = base::split(cells[1], '`');
    for (size_t i = 1; i + 1 < pieces.size(); i += 2) {
      rules.push_back({std::string(pieces[i]), std::string(base::trim(cells[2])),
                       pieces[i + 1].find("(engine)") != std::string_view::npos});
    }
  }
  if (rules.empty()) return input_error("{}: no table of rules", document.string());
  return rules;
}

Result<std::string> compile_variant(const HazardCase& hazard, bool faulty, const std::filesystem::path& cache) {
  const auto source = base::read_file(hazard.path);
  if (!source) return tl::unexpected(source.error());
  const auto header = base::read_file(hazard.path.parent_path().parent_path() / "ptx.cuh");
  if (!header) return tl::unexpected(header.error());
  static const auto toolkit = base::find_cuda_toolkit();  // asks nvcc for its version
  if (!toolkit) return tl::unexpected(toolkit.error());
  base::Sha256 hash;
  // The folder's own path is put back when a kept text is read: all checkouts share them.
  const std::string root = hazard.path.parent_path().parent_path().string();
  const std::string relative = base::replace_all(hazard.path.string(), root, kRootMark);
  hash.update_field(toolkit->version).update_field(*source).update_field(*header).update_field(relative);
  for (const std::string& word : nvcc_command("nvcc", faulty)) hash.update_field(word);
  const std::filesystem::path folder = cache / "hazards";
  const std::filesystem::path kept = folder / (hash.hex() + ".ptx");
  if (std::filesystem::exists(kept)) {
    auto text = base::read_file(kept);
    return text ? Result<std::string>(base::replace_all(std::move(*text), kRootMark, root)) : text;
  }

  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const CompilerSlot slot(folder);
  auto work = base::TempDir::create();
  if (!work) return tl::unexpected(work.error());
  base::ProcessOptions options;
  options.argv = nvcc_command(toolkit->nvcc.string(), faulty);
  options.argv.insert(options.argv.end(), {hazard.path.string(), "-o", (work->path() / "kernel.ptx").string()});
  options.wall_limit = std::chrono::seconds(120);
  const auto result = base::run_process(options);
  if (!result) return tl::unexpected(result.error());
  if (!result->ok() || !base::trim(result->stderr_text).empty()) {
    return input_error("{}: nvcc {}:\n{}", hazard.path.string(), result->outcome(), result->stderr_text);
  }
  auto ptx = base::read_file(work->path() / "kernel.ptx");
  if (!ptx) return ptx;
  if (auto written = base::write_file_atomic(kept, base::replace_all(*ptx, root, kRootMark)); !written)
    return tl::unexpected(written.error());
  return ptx;
}

}  // namespace ptxbench::hazards
