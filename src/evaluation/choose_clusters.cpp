#include "evaluation/choose_clusters.h"

#include <algorithm>
#include <random>
#include <set>

namespace ptxbench::evaluation {

std::vector<std::uint32_t> choose_clusters(const std::uint32_t (&clusters)[3], unsigned count, std::uint64_t seed) {
  const std::uint64_t total = std::uint64_t{clusters[0]} * clusters[1] * clusters[2];
  std::set<std::uint32_t> chosen;
  if (total == 0) return {};
  for (unsigned corner = 0; corner < 8; ++corner) {
    const std::uint64_t x = (corner & 1) != 0 ? clusters[0] - 1 : 0;
    const std::uint64_t y = (corner & 2) != 0 ? clusters[1] - 1 : 0;
    const std::uint64_t z = (corner & 4) != 0 ? clusters[2] - 1 : 0;
    chosen.insert(static_cast<std::uint32_t>((z * clusters[1] + y) * clusters[0] + x));
  }
  const std::uint64_t wanted = std::min<std::uint64_t>(total, chosen.size() + count);
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::uint64_t> any(0, total - 1);
  if (wanted * 2 > total) {
    std::vector<std::uint32_t> rest;
    for (std::uint64_t i = 0; i < total; ++i) {
      if (!chosen.contains(static_cast<std::uint32_t>(i))) rest.push_back(static_cast<std::uint32_t>(i));
    }
    std::shuffle(rest.begin(), rest.end(), random);
    for (std::size_t i = 0; chosen.size() < wanted; ++i) chosen.insert(rest[i]);
  } else {
    while (chosen.size() < wanted) chosen.insert(static_cast<std::uint32_t>(any(random)));
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace ptxbench::evaluation
