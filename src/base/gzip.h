#pragma once

#include <string>
#include <string_view>

namespace ptxbench::base {

/// The bytes as a file of gzip. `level`: 1 is fastest, 9 smallest.
std::string gzip(std::string_view bytes, int level = 6);

}  // namespace ptxbench::base
