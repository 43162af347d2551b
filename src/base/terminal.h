#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

namespace ptxbench::base {

/// Whether text on `stream` may be coloured: a terminal, NO_COLOR unset, TERM not "dumb".
bool use_color(std::FILE* stream);

/// Wraps text in colours, or leaves it alone; decide once with `use_color`.
class Style {
 public:
  explicit Style(bool enabled) : enabled_(enabled) {}
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string red(std::string_view text) const { return wrap("31", text); }
  std::string green(std::string_view text) const { return wrap("32", text); }
  std::string yellow(std::string_view text) const { return wrap("33", text); }
  std::string cyan(std::string_view text) const { return wrap("36", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool enabled_;
};

/// One line on standard error that says what takes so long: silent in a pipe and for the first two seconds, redrawn at
/// most ten times a second, erased at the end. For one thread.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();
  /// Call it as often as is convenient.
  void update(std::string_view state);

 private:
  std::string what_;
  bool on_terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point last_drawn_;
};

}  // namespace ptxbench::base
