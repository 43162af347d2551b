// Writes the inputs and the truth of small problems to a folder, for gqa_numpy.py and gdn_numpy.py. Everything goes the
// way of an evaluation: definition, workload, inputs, reference.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "problem/dataset.h"
#include "problem/gqa.h"
#include "problem/inputs.h"
#include "problem/mla.h"
#include "problem/reference.h"

namespace ptxbench::problem {
namespace {

void write(const std::filesystem::path& file, const Tensor& tensor) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()));
}

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  std::exit(1);
}

/// Of attention over requests; no for other problems.
bool is_causal(const Definition& definition) {
  auto roles = gqa_roles(definition);
  if (!roles) roles = mla_roles(definition);
  return roles && roles->causal;
}

void dump(const Problem& problem, Distribution distribution, const std::filesystem::path& folder, base::Json& cases) {
  std::filesystem::create_directories(folder);
  InputOptions options;
  options.seed = 5;
  options.distribution = distribution;
  const auto inputs = make_inputs(problem, options);
  if (!inputs) fail(inputs.error());
  const auto truth = (*find_reference(problem.definition))(request_for(problem, *inputs));
  if (!truth) fail(truth.error());
  base::Json tensors;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    write(folder / name, tensor);
    tensors[name] = {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}};
  };
  for (const Tensor& input : *inputs) add(input.name, input);
  for (const Tensor& output : truth->outputs) add(output.name, output);
  cases.push_back({{"folder", folder.filename().string()},
                   {"what", problem.title()},
                   {"causal", is_causal(problem.definition)},
                   {"tensors", tensors}});
}

int run(const std::filesystem::path& folder, const std::vector<std::string>& kinds) {
  const auto roots = dataset_roots({});
  if (!roots) fail(roots.error());
  const auto dataset = Dataset::load(*roots);
  if (!dataset) fail(dataset.error());
  base::Json cases = base::Json::array();
  const Distribution distributions[] = {Distribution::normal, Distribution::scaled, Distribution::spiky,
                                        Distribution::ties,   Distribution::flat,   Distribution::tiny};
  std::size_t number = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    const auto asked = [type = definition.op_type](const std::string& kind) { return type.starts_with(kind); };
    if (std::none_of(kinds.begin(), kinds.end(), asked)) continue;
    std::vector<Workload> workloads = dataset->checks(name);
    // Queries that see nothing.
    if (definition.op_type.ends_with("_ragged")) {
      auto scarce = dataset->workload_for_axes(definition, {"len_indptr=4", "total_q=60", "total_kv=25"});
      if (!scarce) fail(scarce.error());
      workloads.push_back(std::move(*scarce));
    }
    for (const Workload& workload : workloads) {
      const auto problem = make_problem(definition, workload);
      if (!problem) fail(problem.error());
      dump(*problem, distributions[number % std::size(distributions)], folder / std::to_string(number), cases);
      ++number;
    }
  }
  std::ofstream(folder / "cases.json") << cases.dump(1);
  return 0;
}

}  // namespace
}  // namespace ptxbench::problem

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: operation_dump FOLDER OP_TYPE...   (each the beginning of an op_type)\n");
    return 2;
  }
  return ptxbench::problem::run(arguments[1], {arguments + 2, arguments + count});
}
