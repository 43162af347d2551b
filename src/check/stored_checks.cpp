#include "check/stored_checks.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/files.h"

namespace ptxbench::check {
namespace {

constexpr std::string_view kSchema = "ptxbench.stored-check/2";
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

std::string name_of(const CheckKey& key, bool with_places) {
  base::Sha256 hash;
  hash.update_field(kSchema).update_field(key.behaviour).update_field(with_places ? key.places : "");
  return hash.hex();
}

/// Whether the report may say where something stands. Findings do, in their places or in the words of their messages,
/// and so may reasons why something was not looked at; a report that has none of these says nothing about lines.
bool has_places(const CheckReport& report) {
  return !report.findings.empty() || report.findings_dropped != 0 || !report.unknown.empty() ||
         !report.unsupported.empty();
}

std::string now() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

}  // namespace

Result<StoredChecks> StoredChecks::open() {
  auto folder = base::cache_dir("checks");
  if (!folder) return tl::unexpected<Error>(folder.error());
  return StoredChecks(std::move(*folder));
}

bool StoredChecks::is_repeatable(const CheckReport& report) {
  static constexpr std::string_view kOfTheMoment[] = {"host.", "launch.cancelled", "launch.resources",
                                                      "launch.out-of-memory"};
  return std::none_of(report.findings.begin(), report.findings.end(), [](const CheckFinding& finding) {
    return std::any_of(std::begin(kOfTheMoment), std::end(kOfTheMoment),
                       [&](std::string_view rule) { return finding.rule.starts_with(rule); });
  });
}

std::filesystem::path StoredChecks::file_of(const std::string& name) const {
  return root_ / name.substr(0, 2) / (name + ".json");
}

// A file is a line about the report, then the report.
std::optional<CheckReport> StoredChecks::read(const std::string& name, std::string& warning) const {
  const std::filesystem::path path = file_of(name);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const auto damaged = [&](std::string_view what) {
    warning = fmt::format("{}: {}; it is ignored and made again", path.string(), what);
    return std::nullopt;
  };
  const auto text = base::read_file(path, kMaxBytes);
  if (!text) return damaged(text.error().message);
  const std::size_t end = text->find('\n');
  if (end == std::string::npos) return damaged("the stored check is damaged");
  const auto head = base::parse_json(std::string_view(*text).substr(0, end), path.string());
  const std::string_view body = std::string_view(*text).substr(end + 1);
  const auto is = [&](const char* member, std::string_view value) {
    const base::Json* found = head && head->is_object() ? base::optional_member(*head, member) : nullptr;
    return found != nullptr && found->is_string() && found->get_ref<const std::string&>() == value;
  };
  if (!is("schema", kSchema) || !is("name", name) || !is("sha256", base::sha256_hex(body)) || !head->contains("made") ||
      !head->at("made").is_string()) {
    return damaged("the stored check is damaged");
  }
  const auto json = base::parse_json(body, path.string());
  if (!json) return damaged(json.error().message);
  auto report = report_from_json(*json);
  if (!report) return damaged(report.error().message);
  report->stored_at = head->at("made");
  return std::move(*report);
}

std::optional<CheckReport> StoredChecks::find(const CheckKey& key, std::string& warning) const {
  for (const bool with_places : {true, false}) {
    if (auto report = read(name_of(key, with_places), warning)) return report;
  }
  return std::nullopt;
}

Result<void> StoredChecks::keep(const CheckKey& key, const CheckReport& report) const {
  const std::string name = name_of(key, has_places(report));
  const std::string body = to_json(report).dump(-1, ' ', false, base::Json::error_handler_t::replace) + "\n";
  const base::Json head = {{"schema", kSchema}, {"name", name}, {"made", now()}, {"sha256", base::sha256_hex(body)}};
  return base::write_file_atomic(file_of(name), head.dump() + "\n" + body);
}

}  // namespace ptxbench::check
