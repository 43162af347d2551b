#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "report/metrics.h"
#include "report/table.h"

namespace ptxbench::report {

struct PageOptions {
  std::string title;                                   ///< empty: made from what is shown
  std::string version;                                 ///< of this program
  std::string made;                                    ///< when, as it is shown
  std::uint64_t text_bytes = std::uint64_t{24} << 20;  ///< kernels and feedback that the page may hold
  bool live = false;                                   ///< it asks its server for data instead
  MetricOptions metrics;
};

/// One file that needs nothing else: style, scripts, charting library and data are in it.
std::string page_html(const Table& table, const PageOptions& options);

/// What the page shows but for texts, column by column ("ptxbench.page/1"); under "details" what its first screen does
/// not need. `with_texts` says for each trajectory whether its texts can be had.
base::Json page_data(const Table& table, const PageOptions& options, const std::vector<bool>& with_texts,
                     std::uint64_t left_out_bytes);

/// Kernels, findings, counts and feedback of one trajectory, as the page shows them ("ptxbench.page-trajectory/1").
Result<base::Json> trajectory_texts(const TrajectoryRow& trajectory);

std::string base64(std::string_view bytes);

}  // namespace ptxbench::report
