#include "report/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text.h"

namespace ptxbench::report {
namespace {

/// The first byte that is not part of a UTF-8 character, or npos.
std::size_t first_bad_byte(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = byte(i);
    if (c < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    const bool overlong = (c == 0xE0 && byte(i + 1) < 0xA0) || (c == 0xF0 && byte(i + 1) < 0x90);
    const bool outside = (c == 0xED && byte(i + 1) >= 0xA0) || (c == 0xF4 && byte(i + 1) >= 0x90);
    if (overlong || outside) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace

Result<Csv> Csv::parse(std::string text, std::string name) {
  Csv csv;
  csv.text_ = std::make_unique<std::string>(std::move(text));
  csv.name_ = std::move(name);
  if (auto read = csv.read(); !read) return tl::unexpected<Error>(read.error());
  return csv;
}

Result<void> Csv::read() {
  std::string_view text = *text_;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto line_of = [&](std::size_t at) { return 1 + std::count(text.begin(), text.begin() + at, '\n'); };
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    return input_error("{}:{}: a zero byte: the file is no UTF-8 text (UTF-16, or damaged); save it as UTF-8", name_,
                       line_of(at));
  }
  if (const std::size_t at = first_bad_byte(text); at != std::string_view::npos) {
    return input_error("{}:{}: byte {:#04x} is not UTF-8; if the file is Latin-1: iconv -f latin1 -t utf-8", name_,
                       line_of(at), static_cast<unsigned char>(text[at]));
  }
  std::vector<std::string_view> row;
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t first_line = line;
    row.clear();
    for (bool more = true; more;) {
      if (i < text.size() && text[i] == '"') {
        std::string field;
        bool closed = false;
        for (++i; i < text.size(); ++i) {
          if (text[i] == '\n') ++line;
          if (text[i] != '"') {
            field += text[i];
          } else if (i + 1 < text.size() && text[i + 1] == '"') {
            field += text[++i];
          } else {
            closed = true;
            ++i;
            break;
          }
        }
        if (!closed) return input_error("{}:{}: a quoted field does not end", name_, first_line);
        if (i < text.size() && text[i] != ',' && text[i] != '\n' && text[i] != '\r') {
          return input_error("{}:{}: text after the closing quote of a field", name_, line);
        }
        row.push_back(unquoted_.emplace_back(std::move(field)));
      } else {
        const std::size_t end = std::min(text.find_first_of(",\n\r", i), text.size());
        row.push_back(text.substr(i, end - i));
        i = end;
      }
      more = i < text.size() && text[i] == ',';
      if (more) ++i;
    }
    if (i < text.size() && text[i] == '\r') {
      ++i;
      if (i < text.size() && text[i] != '\n') return input_error("{}:{}: a carriage return within a line", name_, line);
    }
    if (i < text.size()) {
      ++i;
      ++line;
    }
    if (row.size() == 1 && row[0].empty()) continue;  // an empty line
    if (header_.empty()) {
      header_ = row;
      for (std::size_t k = 0; k < row.size(); ++k) {
        if (std::find(row.begin(), row.begin() + k, row[k]) != row.begin() + k) {
          return input_error("{}:{}: two columns are called '{}'", name_, first_line, row[k]);
        }
      }
      continue;
    }
    if (row.size() != header_.size()) {
      return input_error("{}:{}: {} fields, the header has {}; the line is torn or the file mixed up", name_,
                         first_line, row.size(), header_.size());
    }
    fields_.insert(fields_.end(), row.begin(), row.end());
    lines_.push_back(first_line);
  }
  if (header_.empty()) return input_error("{} is empty: a header line is needed", name_);
  return {};
}

std::optional<std::size_t> Csv::column(std::string_view name) const {
  const auto at = std::find(header_.begin(), header_.end(), name);
  if (at == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - header_.begin());
}

Result<std::vector<std::size_t>> Csv::columns(std::initializer_list<std::string_view> names) const {
  std::vector<std::size_t> found;
  std::vector<std::string_view> missing;
  for (const std::string_view name : names) {
    if (const auto at = column(name)) {
      found.push_back(*at);
    } else {
      missing.push_back(name);
    }
  }
  if (!missing.empty()) {
    return input_error("{}: no column {}; its columns are {}", name_, fmt::join(missing, ", "),
                       base::shorten_middle(fmt::format("{}", fmt::join(header_, ", ")), 400));
  }
  return found;
}

std::optional<double> Csv::number(std::string_view text) {
  double value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  // Out of range: too big is infinite, too small is zero; both are no measurement.
  if (error == std::errc::result_out_of_range) return text.find('-') == 0 ? -HUGE_VAL : HUGE_VAL;
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  return fmt::format("\"{}\"", base::replace_all(text, "\"", "\"\""));
}

}  // namespace ptxbench::report
