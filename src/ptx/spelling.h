#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

namespace ptxbench::ptx {

/// Finds the candidate nearest to a misspelt word by edit distance (insertions, deletions, replacements, swaps of
/// neighbours count one each).
class NearestSpelling {
 public:
  explicit NearestSpelling(std::string_view word) : word_(word.substr(0, kMaxLength)) {}

  void offer(std::string_view candidate);
  /// The best candidate if it is near enough to be worth naming, else "".
  std::string_view best() const;
  /// "; did you mean 'x'?" or "".
  std::string hint() const;

 private:
  static constexpr size_t kMaxLength = 48;
  std::string_view word_;
  std::string_view best_;
  size_t distance_ = std::numeric_limits<size_t>::max();
};

}  // namespace ptxbench::ptx
