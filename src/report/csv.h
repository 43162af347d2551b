#pragma once

#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ptxbench::report {

/// A comma-separated file with a header line: UTF-8, LF or CRLF, optionally a byte order mark, fields optionally in
/// double quotes. Everything else is an error that names the line.
class Csv {
 public:
  /// `name` is how messages call the text.
  static Result<Csv> parse(std::string text, std::string name);

  std::size_t rows() const { return lines_.size(); }
  /// The line of a row in the file, from 1.
  std::size_t line(std::size_t row) const { return lines_[row]; }
  std::optional<std::size_t> column(std::string_view name) const;
  /// Of columns that must be there: an error names the ones that are missing, and what is there.
  Result<std::vector<std::size_t>> columns(std::initializer_list<std::string_view> names) const;
  std::string_view at(std::size_t row, std::size_t column) const { return fields_[row * header_.size() + column]; }
  const std::string& name() const { return name_; }
  /// "file.csv:12"
  std::string where(std::size_t row) const { return fmt::format("{}:{}", name_, line(row)); }

  /// A number, NaN and infinities included; nothing when it is none or followed by anything.
  static std::optional<double> number(std::string_view text);

 private:
  Result<void> read();
  std::unique_ptr<std::string> text_;  ///< fields point into it
  std::deque<std::string> unquoted_;
  std::string name_;
  std::vector<std::string_view> header_, fields_;
  std::vector<std::size_t> lines_;
};

/// A field as it must be written: in quotes where it needs them.
std::string csv_field(std::string_view text);

}  // namespace ptxbench::report
