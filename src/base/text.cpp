#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace ptxbench::base {
namespace {

template <class String>
std::optional<std::string_view> nearest_of(std::string_view name, std::span<const String> candidates) {
  std::optional<std::string_view> best;
  std::size_t best_distance = 5;
  for (const std::string_view candidate : candidates) {
    const std::size_t allowed = std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    const std::size_t cap = std::min(best_distance - 1, allowed);
    const std::size_t distance = edit_distance(name, candidate, cap);
    if (distance > cap) continue;
    best = candidate;
    best_distance = distance;
    if (best_distance == 0) break;
  }
  return best;
}

template <class String>
std::string suggestion(std::string_view name, std::span<const String> candidates) {
  const auto best = nearest_of(name, candidates);
  return best ? fmt::format("; did you mean '{}'?", *best) : std::string();
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string result;
  while (true) {
    const std::size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

std::string candidate_file_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t work = path.find("/ptxbench-compile-");
  return std::string(name == "kernel.cu" || name == "kernel.py" || work != std::string_view::npos ? name : path);
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::size_t edit_distance(std::string_view left, std::string_view right, std::size_t cap) {
  if (left.size() > right.size()) std::swap(left, right);
  if (right.size() - left.size() > cap) return cap + 1;
  std::vector<std::size_t> row(left.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    std::size_t smallest = row[0];
    for (std::size_t j = 0; j < left.size(); ++j) {
      const std::size_t substituted = diagonal + (left[j] == right[i] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
      smallest = std::min(smallest, row[j + 1]);
    }
    if (smallest > cap) return cap + 1;
  }
  return std::min(row.back(), cap + 1);
}

std::optional<std::string_view> nearest(std::string_view name, std::span<const std::string_view> candidates) {
  return nearest_of(name, candidates);
}

std::optional<std::string_view> nearest(std::string_view name, std::span<const std::string> candidates) {
  return nearest_of(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  return suggestion(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  return suggestion(name, candidates);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would print as "1024.0" of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return fmt::format("{} s", seconds);
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  const double whole = std::floor(seconds);
  return fmt::format("{:.0f} min {:.0f} s", std::floor(whole / 60), std::fmod(whole, 60));
}

std::string shorten_middle(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  std::size_t head = max_bytes / 2;
  while (head > 0 && is_continuation(text[head])) --head;
  std::size_t tail = text.size() - (max_bytes - max_bytes / 2);
  while (tail < text.size() && is_continuation(text[tail])) ++tail;
  return fmt::format("{}\n... {} bytes left out ...\n{}", text.substr(0, head), tail - head, text.substr(tail));
}

}  // namespace ptxbench::base
