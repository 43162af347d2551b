// Writes made-up results, for browser tests and measurements:
//   report_synthetic published|experiment FOLDER [runs=N] [trajectories=N] [turns=N] [seed=N] [tag=T] [language=L]
//   [hostile=1] [speedups=0] [lines=N]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "synthetic.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: report_synthetic published|experiment FOLDER [runs=N] [trajectories=N] [turns=N] ...\n", stderr);
    return 2;
  }
  ptxbench::report::SyntheticOptions options;
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i], key = argument.substr(0, argument.find('=')),
                      value = argument.substr(argument.find('=') + 1);
    const auto number = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "runs") options.runs = number;
    if (key == "trajectories") options.trajectories = number;
    if (key == "turns") options.turns = number;
    if (key == "seed") options.seed = number;
    if (key == "tag") options.tag = value;
    if (key == "language") options.language = value;
    if (key == "hostile") options.hostile = number != 0;
    if (key == "speedups") options.speedups = number != 0;
    if (key == "lines") options.kernel_lines = number;
    if (key == "strength") options.strength = std::strtod(value.c_str(), nullptr);
  }
  if (std::string(argv[1]) == "published") {
    ptxbench::report::write_published_shape(argv[2], options);
  } else {
    ptxbench::report::write_experiment_shape(argv[2], options);
  }
  return 0;
}
