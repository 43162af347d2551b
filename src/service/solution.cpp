#include "service/solution.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "candidate/local_includes.h"

namespace ptxbench::service {
namespace {

constexpr std::size_t kHashDigits = 8;
constexpr std::array<std::string_view, 8> kBlackwell{"blackwell", "b100",  "b200",   "b300",
                                                     "gb200",     "gb300", "sm_100", "sm_103"};

bool is_blackwell(const std::string& hardware) {
  const std::string name = base::to_lower(hardware);
  return std::any_of(kBlackwell.begin(), kBlackwell.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace

std::string Solution::hash() const {
  std::string text = definition + language + entry_point + binding.value_or("");
  for (const std::string& dependency : dependencies) text += dependency;
  for (const SourceFile& source : sources) text += source.path + source.content;
  return base::sha1_hex(text);
}

std::string Solution::normalised_name() const { return name + "_" + hash().substr(0, kHashDigits); }

std::optional<std::string> unsupported_reason(const Solution& solution) {
  const bool triton = solution.language == "triton";
  if (solution.language != "cuda" && !triton) {
    return fmt::format("Solutions in '{}' are not judged here; language must be 'cuda' or 'triton'", solution.language);
  }
  if (!triton && solution.binding && *solution.binding != "tvm-ffi") {
    return fmt::format("Binding '{}' is not provided here; use 'tvm-ffi'", *solution.binding);
  }
  if (!solution.destination_passing_style) {
    return "destination_passing_style must be true: outputs are preallocated";
  }
  if (!solution.entry_point.ends_with("::run")) {
    return fmt::format("entry_point '{}': the exported function must be called 'run'", solution.entry_point);
  }
  if (std::all_of(solution.target_hardware.begin(), solution.target_hardware.end(), is_blackwell)) {
    return "Only Hopper (sm_90a) is served here";
  }
  return std::nullopt;
}

Result<std::string> single_source(const Solution& solution) {
  const std::string entry = solution.entry_point.substr(0, solution.entry_point.find("::"));
  if (solution.sources.size() == 1) return solution.sources.front().content;
  if (solution.language == "triton") return input_error("a solution in Triton is one file");
  const auto folder = base::TempDir::create("ptxbench-solution");
  if (!folder) return tl::unexpected<Error>(folder.error());
  for (const SourceFile& source : solution.sources) {
    // Includes name files of one folder; what lies deeper cannot be included and need not be written.
    if (source.path.find('/') != std::string::npos) {
      return input_error("source {}: files in folders are not supported; put all sources side by side", source.path);
    }
    if (auto written = base::write_file_atomic(folder->path() / source.path, source.content); !written) {
      return tl::unexpected<Error>(written.error());
    }
  }
  auto text = candidate::read_with_local_includes(folder->path() / entry);
  if (text) return text;
  return tl::unexpected<Error>(
      Error{text.error().kind, base::replace_all(text.error().message, folder->path().string() + "/", "")});
}

}  // namespace ptxbench::service
