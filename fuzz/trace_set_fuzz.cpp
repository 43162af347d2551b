#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/json.h"
#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/reference.h"
#include "problem/safetensors.h"
#include "problem/validation.h"

namespace {

using namespace ptxbench;
namespace fs = std::filesystem;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// What is read prints to what is read again.
template <class Parse>
void round_trip(std::string_view text, Parse parse) {
  const auto json = base::parse_json_unique(text, "fuzz");
  if (!json) return check(!json.error().message.empty(), "an error without a message");
  const auto value = parse(*json);
  if (!value) return check(!value.error().message.empty(), "an error without a message");
  const base::Json printed = to_json(*value);
  const auto again = parse(printed);
  check(again.has_value(), "what was printed cannot be read");
  check(to_json(*again) == printed, "printing is not stable");
}

/// Inputs and truth of what is small enough to be quick.
void compute(const problem::Dataset& dataset) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;
  constexpr double kMostWork = 1e6;
  problem::InputOptions options;
  options.threads = 1;
  for (const auto& [name, definition] : dataset.definitions()) {
    for (const auto* workloads : {&dataset.workloads(name), &dataset.checks(name)}) {
      for (const problem::Workload& workload : *workloads) {
        const auto made = problem::make_problem(definition, workload);
        if (!made || made->tensor_bytes >= kMostBytes) continue;
        const auto inputs = problem::make_inputs(*made, options);
        check(inputs ? inputs->size() == definition.inputs.size() : !inputs.error().message.empty(), "inputs");
        const auto reference = problem::find_reference(definition);
        const auto work = problem::required_multiply_adds(*made);
        if (!inputs || !reference || !work || *work > kMostWork) continue;
        auto request = problem::request_for(*made, *inputs);
        request.threads = 1;
        const auto truth = (*reference)(request);
        check(truth ? truth->outputs.size() == definition.outputs.size() : !truth.error().message.empty(), "truth");
      }
    }
  }
}

/// A folder of one file each, the parts of the input between zero bytes.
void load_folder(std::string_view text) {
  static const fs::path root = fs::temp_directory_path() / ("trace_set_fuzz." + std::to_string(::getpid()));
  static const char* const kFiles[] = {"definitions/d.json", "workloads/d.jsonl", "checks/d.jsonl", "blob.safetensors"};
  for (const char* file : kFiles) {
    const auto end = std::min(text.find('\0'), text.size());
    fs::create_directories((root / file).parent_path());
    // The last one is the rest, zeros and all.
    const auto part = file == kFiles[3] ? text : text.substr(0, end);
    std::ofstream(root / file, std::ios::binary | std::ios::trunc) << part;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto validation = problem::validate({root});
  if (!validation) return check(!validation.error().message.empty(), "an error without a message");
  for (const auto& remark : validation->remarks) check(!remark.message.empty(), "a remark without a message");
  const auto dataset = problem::Dataset::load({root});
  check(dataset.has_value() || validation->count(problem::Remark::Severity::error) > 0, "an error was not remarked");
  if (dataset) compute(*dataset);
}

}  // namespace

/// Any bytes give a value or an error with a message, in every part of the data format. The first byte chooses the
/// part.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      round_trip(text, [](const base::Json& json) { return problem::parse_definition(json, "fuzz"); });
      break;
    case 1:
      round_trip(text, [](const base::Json& json) { return problem::parse_trace(json, "fuzz"); });
      break;
    case 2:
      if (const auto entries = problem::SafetensorsFile::parse_header(text, 4096, "fuzz")) {
        for (const auto& entry : *entries) check(entry.begin <= entry.end && entry.end <= 4096, "outside of the file");
      }
      break;
    default:
      load_folder(text);
  }
  return 0;
}
