#include "report/report.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include "agent/trajectory.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/text.h"
#include "report/loader.h"
#include "report/page.h"
#include "report/serve.h"
#include "report/summary.h"

namespace ptxbench::report {
namespace {

Result<void> select(const ReportOptions& options, Table& table) {
  std::map<Dimension, std::vector<std::string>> wanted;
  for (const std::string& text : options.where) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return input_error("--where {}: write KEY=VALUE", text);
    const auto dimension = dimension_of(text.substr(0, equals));
    if (!dimension) return tl::unexpected<Error>(dimension.error());
    if (*dimension == Dimension::pool)
      return input_error("--where pool=...: choose by what pools are made of, such as run=");
    for (const std::string_view value : base::split(std::string_view(text).substr(equals + 1), ',')) {
      wanted[*dimension].emplace_back(value);
    }
  }
  if (!wanted.empty()) {
    if (auto kept = keep_where(table, wanted); !kept) return kept;
  }
  for (const std::string& pool : options.pools) {
    if (auto added = add_pool(table, pool); !added) return added;
  }
  return {};
}

Result<std::vector<Dimension>> dimensions_of(const ReportOptions& options) {
  if (options.group_by.empty()) {
    if (!options.pools.empty()) return std::vector<Dimension>{Dimension::pool, Dimension::arch, Dimension::language};
    return std::vector<Dimension>{Dimension::model, Dimension::arch, Dimension::problem, Dimension::language};
  }
  std::vector<Dimension> out;
  for (const std::string& name : options.group_by) {
    const auto dimension = dimension_of(name);
    if (!dimension) return tl::unexpected<Error>(dimension.error());
    if (std::find(out.begin(), out.end(), *dimension) != out.end())
      return input_error("--group-by has '{}' twice", name);
    if (*dimension == Dimension::pool && options.pools.empty()) {
      return input_error("--group-by pool needs pools: --pool NAME=run1,run2,...");
    }
    out.push_back(*dimension);
  }
  return out;
}

/// A pool, run or model of this name.
Result<Group> side_of(const Table& table, const std::string& name) {
  for (const Dimension dimension : {Dimension::pool, Dimension::run, Dimension::model}) {
    for (Group& group : group_by(table, {dimension})) {
      if (group.values.front() == name) return std::move(group);
    }
  }
  // A folder that was given as one of the runs.
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(name, error);
  Group group{{name}, {}};
  for (std::uint32_t i = 0; i < table.trajectories.size(); ++i) {
    if (std::filesystem::weakly_canonical(table.runs[table.trajectories[i].run].path, error) == whole) {
      group.trajectories.push_back(i);
    }
  }
  if (!group.trajectories.empty()) return group;
  std::vector<std::string> names;
  for (const Pool& pool : table.pools) names.push_back(pool.name);
  for (const Run& run : table.runs) names.push_back(run.name);
  names.insert(names.end(), table.models.all().begin(), table.models.all().end());
  return input_error("--compare: no pool, run or model is called '{}'{}", name, base::did_you_mean(name, names));
}

Result<MetricOptions> metric_options(const ReportOptions& options) {
  MetricOptions out;
  if (!options.thresholds.empty()) out.thresholds = options.thresholds;
  if (!options.turn_limits.empty()) out.turn_limits = options.turn_limits;
  for (const double p : out.thresholds) {
    if (!std::isfinite(p) || p < 0) return input_error("--thresholds: {} is no speed-up; numbers from 0 are needed", p);
  }
  for (const unsigned limit : out.turn_limits) {
    if (limit == 0) return input_error("--turn-limits: 0 turns hold nothing; numbers from 1 are needed");
  }
  return out;
}

}  // namespace

Result<void> run_report(const ReportOptions& options, const base::Style& style,
                        const std::function<void(std::string_view)>& print) {
  const auto metrics = metric_options(options);
  if (!metrics) return tl::unexpected<Error>(metrics.error());
  const auto dimensions = dimensions_of(options);
  if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  const std::vector<std::filesystem::path> paths(options.runs.begin(), options.runs.end());
  PageOptions page;
  page.title = options.title;
  page.version = options.version;
  page.made = agent::utc_now();
  page.text_bytes = options.page_texts;
  page.metrics = *metrics;
  if (options.serve) {
    if (options.json || !options.csv.empty() || !options.html.empty() || !options.compare.empty()) {
      return input_error("--serve goes without --json, --csv, --html and --compare");
    }
    ServeOptions serve;
    serve.host = options.host;
    serve.port = options.port;
    serve.page = page;
    serve.select = [&](Table& table) { return select(options, table); };
    // Before any thread starts: all of them leave the signals to the one that waits for them.
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    auto server = PageServer::bind(std::move(serve), std::make_unique<Loader>(paths, Broken::note));
    if (!server) return tl::unexpected<Error>(server.error());
    print(fmt::format("the page is at http://{}:{} (Ctrl-C ends it)\n", options.host, (*server)->port()));
    std::thread waiting([&] {
      int signal = 0;
      ::sigwait(&signals, &signal);
      (*server)->stop();
    });
    (*server)->run();
    ::pthread_kill(waiting.native_handle(), SIGINT);  // if it was not a signal that ended the server
    waiting.join();
    return {};
  }
  Loader loader(paths);
  auto table = loader.load();
  if (!table) return tl::unexpected<Error>(table.error());
  if (auto selected = select(options, *table); !selected) return selected;

  if (!options.compare.empty()) {
    const auto a = side_of(*table, options.compare[0]), b = side_of(*table, options.compare[1]);
    for (const auto* side : {&a, &b}) {
      if (!*side) return tl::unexpected<Error>(side->error());
    }
    CompareOptions how;
    how.thresholds = metrics->thresholds;
    const auto compared = compare(*table, *a, *b, how);
    if (!compared) return tl::unexpected<Error>(compared.error());
    print(options.json ? comparison_json(*compared).dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n"
                       : comparison_text(*compared, style));
    return {};
  }

  if (!options.html.empty()) {
    const std::string html = page_html(*table, page);
    if (auto written = base::write_file_atomic(options.html, html); !written) return written;
    if (!options.json) print(fmt::format("{} ({})\n", options.html, base::format_bytes(html.size())));
    if (!options.json && options.csv.empty()) {
      for (const Note& note : table->notes) print(style.yellow("note: ") + base::printable(note.text) + "\n");
      return {};
    }
  }
  const Summary summary = summarise(*table, *dimensions, *metrics);
  if (!options.csv.empty()) {
    const auto names = write_csv_files(*table, summary, options.csv);
    if (!names) return tl::unexpected<Error>(names.error());
    if (!options.json) print(fmt::format("{} are in {}\n", fmt::join(*names, ", "), options.csv));
  }
  if (options.json) {
    print(summary_json(*table, summary).dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n");
  } else if (options.csv.empty() && options.html.empty()) {
    print(summary_text(*table, summary, style));
  }
  return {};
}

}  // namespace ptxbench::report
