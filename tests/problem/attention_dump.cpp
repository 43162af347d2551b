// Writes the inputs and the truth of small attention problems to a folder, for attention_numpy.py. Everything goes the
// way of an evaluation: definition, workload, inputs, reference.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "problem/attention.h"
#include "problem/dataset.h"
#include "problem/inputs.h"
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

struct Case {
  const char* depth;
  bool causal;
  std::vector<std::string> axes;
  Distribution distribution;
};

void dump(const Dataset& dataset, const Case& what, const std::filesystem::path& folder, base::Json& cases) {
  const std::string suffix = fmt::format("d{}{}", what.depth, what.causal ? "_causal" : "");
  InputOptions options;
  options.seed = 5;
  options.distribution = what.distribution;
  std::filesystem::create_directories(folder);
  // The backward pass has all inputs; the forward pass gets the same Q, K and V.
  const auto make = [&](const std::string& name) {
    const auto definition = dataset.find_definition(name);
    if (!definition) fail(definition.error());
    const auto workload = dataset.workload_for_axes(**definition, what.axes);
    if (!workload) fail(workload.error());
    auto problem = make_problem(**definition, *workload);
    if (!problem) fail(problem.error());
    return std::move(*problem);
  };
  const auto run = [&](const Problem& problem) {
    auto inputs = make_inputs(problem, options);
    if (!inputs) fail(inputs.error());
    auto truth = (*find_reference(problem.definition))(request_for(problem, *inputs));
    if (!truth) fail(truth.error());
    for (const Tensor& input : *inputs) write(folder / input.name, input);
    for (const Tensor& output : truth->outputs) write(folder / (output.name + "_truth"), output);
  };
  const Problem backward = make("mha_bwd_" + suffix);
  run(backward);
  run(make("mha_with_lse_" + suffix));
  const Shape& shape = backward.input_shapes[0];
  cases.push_back({{"folder", folder.filename().string()},
                   {"causal", what.causal},
                   {"B", shape[0]},
                   {"H", shape[1]},
                   {"S", shape[2]},
                   {"D", shape[3]}});
}

int run(const std::filesystem::path& folder) {
  const auto roots = dataset_roots({});
  if (!roots) fail(roots.error());
  const auto dataset = Dataset::load(*roots);
  if (!dataset) fail(dataset.error());
  base::Json cases = base::Json::array();
  int number = 0;
  for (const Distribution distribution : {Distribution::normal, Distribution::scaled, Distribution::spiky,
                                          Distribution::ties, Distribution::flat, Distribution::tiny}) {
    for (const bool causal : {false, true}) {
      for (const char* depth : {"64", "96", "128"}) {
        const Case one{depth, causal, {"B=2", "H=2", number % 2 == 0 ? "S=77" : "S=192"}, distribution};
        dump(*dataset, one, folder / std::to_string(number), cases);
        ++number;
      }
    }
  }
  std::ofstream(folder / "cases.json") << cases.dump(1);
  return 0;
}

}  // namespace
}  // namespace ptxbench::problem

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: attention_dump FOLDER\n");
    return 2;
  }
  return ptxbench::problem::run(arguments[1]);
}
