#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/process.h"
#include "base/toolkit.h"
#include "ptx/parser.h"
#include "ptx/printer.h"
#include "ptx/tools/cubin.h"

/// ptx_roundtrip [--parse | --print] FILE.ptx...
/// Parses each file, prints it, assembles both texts with ptxas and compares what the two cubins execute.
/// Exit 0 if all are equal, 1 if one differs or fails, 77 if there is no ptxas, 2 for a bad command line.
namespace {

using ptxbench::Result;
namespace fs = std::filesystem;

constexpr int kSkipped = 77;

Result<std::map<std::string, std::vector<std::byte>>> assemble(const fs::path& ptxas, const std::string& target,
                                                               const fs::path& folder, std::string_view text,
                                                               std::string_view which) {
  // Both texts get the same file name, in folders of their own, because the name may reach the cubin.
  const fs::path place = folder / which;
  std::error_code ignored;
  fs::create_directories(place, ignored);
  const fs::path source = place / "module.ptx", cubin = place / "module.cubin";
  if (const auto written = ptxbench::base::write_file_atomic(source, text); !written)
    return tl::unexpected<ptxbench::Error>(written.error());
  ptxbench::base::ProcessOptions options;
  options.argv = {ptxas.string(), "-arch=" + target, "module.ptx", "-o", "module.cubin"};
  options.working_directory = place;
  const auto ran = ptxbench::base::run_process(options);
  if (!ran) return tl::unexpected<ptxbench::Error>(ran.error());
  if (!ran->ok())
    return ptxbench::input_error("ptxas {} on the {} text: {}", ran->outcome(), which,
                                 ran->stderr_text + ran->stdout_text);
  const auto bytes = ptxbench::base::read_file(cubin);
  if (!bytes) return tl::unexpected<ptxbench::Error>(bytes.error());
  return ptxbench::ptx::code_sections(std::as_bytes(std::span(bytes->data(), bytes->size())));
}

/// Empty if both cubins agree.
std::string compare(const std::map<std::string, std::vector<std::byte>>& original,
                    const std::map<std::string, std::vector<std::byte>>& printed) {
  for (const auto& [name, bytes] : original) {
    const auto other = printed.find(name);
    if (other == printed.end()) return fmt::format("section {} is missing from the printed text's cubin", name);
    if (other->second != bytes) return fmt::format("section {} differs", name);
  }
  for (const auto& [name, bytes] : printed)
    if (!original.contains(name)) return fmt::format("section {} is new in the printed text's cubin", name);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  bool parse_only = false, print = false;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--parse")
      parse_only = true;
    else if (argument == "--print")
      print = true;
    else
      files.emplace_back(argument);
  }
  if (files.empty()) {
    fmt::print(stderr, "usage: ptx_roundtrip [--parse | --print] FILE.ptx...\n");
    return 2;
  }
  fs::path ptxas;
  if (!parse_only && !print) {
    const auto toolkit = ptxbench::base::find_cuda_toolkit();
    const auto found = ptxbench::base::find_cuda_tool("ptxas", toolkit ? &*toolkit : nullptr);
    if (!found) {
      fmt::print(stderr, "ptx_roundtrip: ptxas not found; skipped\n");
      return kSkipped;
    }
    ptxas = *found;
  }
  int status = 0;
  for (const std::string& file : files) {
    const auto text = ptxbench::base::read_file(file, uint64_t{1} << 31);
    if (!text) {
      fmt::print(stderr, "{}\n", text.error().message);
      status = 1;
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const auto module = ptxbench::ptx::parse_module(*text, file);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!module) {
      fmt::print(stderr, "{}\n", module.error().message);
      status = 1;
      continue;
    }
    size_t instructions = 0;
    for (const auto& function : module->functions) instructions += function.instructions.size();
    if (parse_only) {
      fmt::print("{}: {} instructions, {:.1f} MB/s\n", file, instructions,
                 static_cast<double>(text->size()) / 1e6 / seconds);
      continue;
    }
    const std::string printed = ptxbench::ptx::print_module(*module);
    if (print) {
      std::fwrite(printed.data(), 1, printed.size(), stdout);
      continue;
    }
    const auto folder = ptxbench::base::TempDir::create("ptx_roundtrip");
    if (!folder) {
      fmt::print(stderr, "{}\n", folder.error().message);
      return 1;
    }
    const auto before = assemble(ptxas, module->target, folder->path(), *text, "original");
    if (!before) {
      fmt::print(stderr, "{}: {}\n", file, before.error().message);
      status = 1;
      continue;
    }
    const auto after = assemble(ptxas, module->target, folder->path(), printed, "printed");
    const std::string difference = after ? compare(*before, *after) : after.error().message;
    if (!difference.empty()) {
      fmt::print(stderr, "{}: {}\n", file, difference);
      status = 1;
      continue;
    }
    fmt::print("{}: equal, {} instructions, {} sections\n", file, instructions, before->size());
  }
  return status;
}
