#pragma once

#include <string>
#include <string_view>

namespace ptxbench::base {

enum class Lines { joined, kept };

/// With control characters (but tabs) and bytes that are no UTF-8 as "\x1b": what others wrote must not steer a
/// terminal. Line ends are escaped too, since a line of their own could pass for ours, unless they are `kept`.
std::string printable(std::string_view text, Lines lines = Lines::joined);

}  // namespace ptxbench::base
