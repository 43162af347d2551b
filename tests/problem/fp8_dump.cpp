// Writes the inputs and the truth of small FP8 problems to a folder, for fp8_numpy.py. Everything goes the way of an
// evaluation: definition, workload, inputs, reference.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/reference.h"

namespace ptxbench::problem {
namespace {

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  std::exit(1);
}

base::Json write(const std::filesystem::path& file, const Tensor& tensor) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()));
  return {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}};
}

/// One problem: a folder with a file per tensor, and an entry of the list of cases.
base::Json dump(const Dataset& dataset, const std::string& name, const std::vector<std::string>& axes,
                Distribution distribution, const std::filesystem::path& folder) {
  InputOptions options;
  options.seed = 5;
  options.distribution = distribution;
  const auto definition = dataset.find_definition(name);
  if (!definition) fail(definition.error());
  const auto workload = dataset.workload_for_axes(**definition, axes);
  if (!workload) fail(workload.error());
  const auto problem = make_problem(**definition, *workload);
  if (!problem) fail(problem.error());
  const auto inputs = make_inputs(*problem, options);
  if (!inputs) fail(inputs.error());
  const auto truth = (*find_reference(problem->definition))(request_for(*problem, *inputs));
  if (!truth) fail(truth.error());
  std::filesystem::create_directories(folder);
  base::Json tensors;
  for (const Tensor& input : *inputs) tensors[input.name] = write(folder / input.name, input);
  for (const Tensor& output : truth->outputs)
    tensors[output.name + "_truth"] = write(folder / (output.name + "_truth"), output);
  return {{"folder", folder.filename().string()},
          {"definition", name},
          {"distribution", to_string(distribution)},
          {"op_type", problem->definition.op_type},
          {"causal", problem->definition.has_tag("mask:causal")},
          {"tensors", tensors}};
}

int run(const std::filesystem::path& folder) {
  const auto roots = dataset_roots({});
  if (!roots) fail(roots.error());
  const auto dataset = Dataset::load(*roots);
  if (!dataset) fail(dataset.error());
  base::Json cases = base::Json::array();
  const auto add = [&](const std::string& name, const std::vector<std::string>& axes, Distribution distribution) {
    cases.push_back(dump(*dataset, name, axes, distribution, folder / std::to_string(cases.size())));
  };
  for (const Distribution distribution : {Distribution::normal, Distribution::scaled, Distribution::spiky,
                                          Distribution::ties, Distribution::flat, Distribution::tiny}) {
    for (const char* mask : {"", "_causal"}) {
      for (const char* depth : {"64", "96", "128", "256"}) {
        add(fmt::format("mha_fp8_with_lse_d{}{}", depth, mask), {"B=2", "H=2", "S=77"}, distribution);
      }
    }
    // Megabytes of B each, whose last block of 128 rows is partial.
    if (distribution != Distribution::normal && distribution != Distribution::spiky) continue;
    for (const char* kind : {"1d2d", "1d1d"})
      add(fmt::format("fp8_gemm_nt_{}_n2112_k7168", kind), {"M=9"}, distribution);
  }
  std::ofstream(folder / "cases.json") << cases.dump(1);
  return 0;
}

}  // namespace
}  // namespace ptxbench::problem

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: fp8_dump FOLDER\n");
    return 2;
  }
  return ptxbench::problem::run(arguments[1]);
}
