#include <cstdio>

#include <fmt/format.h>

#include "emulator/coverage.h"
#include "emulator/device.h"

/// Writes the page docs/ptx-coverage.md to standard output.
int main() {
  const auto device = ptxbench::emulator::Device::create();
  const auto page = device ? ptxbench::emulator::coverage_page((*device)->memory())
                           : ptxbench::Result<std::string>(tl::unexpected(device.error()));
  if (!page) {
    fmt::print(stderr, "ptx_coverage: {}\n", page.error().message);
    return 1;
  }
  std::fwrite(page->data(), 1, page->size(), stdout);
  return 0;
}
