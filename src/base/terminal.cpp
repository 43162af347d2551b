#include "base/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/text.h"

namespace ptxbench::base {

bool use_color(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return ::isatty(::fileno(stream)) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  return enabled_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      started_(std::chrono::steady_clock::now()),
      last_drawn_(started_) {}

ProgressLine::~ProgressLine() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void ProgressLine::update(std::string_view state) {
  if (!on_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - started_ < std::chrono::seconds(2) || now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  drawn_ = true;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  fmt::print(stderr, "\r\x1b[K{}: {} ({})", what_, state, format_seconds(elapsed));
  std::fflush(stderr);
}

}  // namespace ptxbench::base
