#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ptxbench {

/// Whose fault an error is; decides the program's exit code (2 for `input`, 3 for `infrastructure`).
enum class ErrorKind {
  input,           ///< the user's command line, file, kernel or data
  infrastructure,  ///< a tool, the machine or the operating system
};

/// An error a user can cause: `message` says what is wrong, where, and what to do about it.
struct Error {
  ErrorKind kind = ErrorKind::input;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

template <class... Args>
tl::unexpected<Error> input_error(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{ErrorKind::input, fmt::format(format, std::forward<Args>(args)...)});
}

template <class... Args>
tl::unexpected<Error> infrastructure_error(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{ErrorKind::infrastructure, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace ptxbench
