#include <cstdio>
#include <string>

#include "ptx/coverage.h"

/// Writes the page docs/ptx-coverage.md to standard output.
int main() {
  const std::string page = ptxbench::ptx::coverage_page();
  std::fwrite(page.data(), 1, page.size(), stdout);
  return 0;
}
