#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/terminal.h"

namespace ptxbench::report {

struct ReportOptions {
  std::vector<std::string> runs;
  bool json = false;
  std::string csv, html, title;
  std::vector<std::string> group_by, pools, where, compare;
  std::vector<double> thresholds;
  std::vector<unsigned> turn_limits;
  std::uint64_t page_texts = std::uint64_t{24} << 20;
  bool serve = false;
  std::string host = "127.0.0.1";
  int port = 8010;
  std::string version;
};

/// What `ptxbench report` does. `print` gets what belongs on standard output.
Result<void> run_report(const ReportOptions& options, const base::Style& style,
                        const std::function<void(std::string_view)>& print);

}  // namespace ptxbench::report
