#include "ptx/spelling.h"

#include <array>

namespace ptxbench::ptx {

void NearestSpelling::offer(std::string_view candidate) {
  if (candidate.size() > kMaxLength || candidate.empty() || candidate == word_) return;
  const size_t rows = word_.size(), columns = candidate.size();
  if ((rows > columns ? rows - columns : columns - rows) >= distance_) return;
  std::array<size_t, kMaxLength + 1> before{}, previous{}, current{};
  for (size_t j = 0; j <= columns; ++j) previous[j] = j;
  for (size_t i = 1; i <= rows; ++i) {
    current[0] = i;
    for (size_t j = 1; j <= columns; ++j) {
      const size_t replace = previous[j - 1] + (word_[i - 1] == candidate[j - 1] ? 0 : 1);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && word_[i - 1] == candidate[j - 2] && word_[i - 2] == candidate[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before = previous;
    previous = current;
  }
  if (previous[columns] < distance_) {
    distance_ = previous[columns];
    best_ = candidate;
  }
}

std::string_view NearestSpelling::best() const {
  const size_t tolerated = std::max<size_t>(1, word_.size() / 3);
  return distance_ <= tolerated ? best_ : std::string_view();
}

std::string NearestSpelling::hint() const {
  const std::string_view found = best();
  return found.empty() ? std::string() : "; did you mean '" + std::string(found) + "'?";
}

}  // namespace ptxbench::ptx
