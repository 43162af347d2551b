#pragma once

#include <cstdint>
#include <vector>

namespace ptxbench::evaluation {

/// Cluster indices to run of a grid of `clusters[0] x clusters[1] x clusters[2]` (x fastest): the corners of the grid,
/// and `count` others chosen by `seed`. All of them if there are no more than that; sorted.
std::vector<std::uint32_t> choose_clusters(const std::uint32_t (&clusters)[3], unsigned count, std::uint64_t seed);

}  // namespace ptxbench::evaluation
