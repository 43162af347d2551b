#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ptx/parser.h"
#include "ptx/printer.h"

/// Any text gives a module or an error; a module prints to text that parses to the same text again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptxbench::ptx;
  ParseOptions options;
  options.max_initialised_bytes = uint64_t{1} << 20;
  const auto module = parse_module(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz", options);
  if (!module) {
    if (module.error().message.empty()) std::abort();
    return 0;
  }
  const std::string printed = print_module(*module);
  const auto again = parse_module(printed, "printed", options);
  if (!again) {
    std::fprintf(stderr, "printed text does not parse: %s\n%s\n", again.error().message.c_str(), printed.c_str());
    std::abort();
  }
  if (print_module(*again) != printed) {
    std::fprintf(stderr, "printing is not stable:\n%s\n", printed.c_str());
    std::abort();
  }
  return 0;
}
