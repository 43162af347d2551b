// A short run of fuzz/trace_set_fuzz.cpp without libFuzzer: its seeds, mutated. It aborts where a property breaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ptxbench::problem {
namespace {

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

TEST(TraceSetFuzz, MutatedSeeds) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(TRACE_SEED_DIR)) {
    seeds.push_back(*base::read_file(entry.path()));
  }
  std::sort(seeds.begin(), seeds.end());
  ASSERT_GE(seeds.size(), 5u);
  for (const std::string& seed : seeds) feed(seed);
  static const std::string kPieces[] = {"null", "[]",   "{}",   "-1", "1e999",  "18446744073709551615", "\"\"", "\"",
                                        "true", "\xff", "\\u0", "..", "parent", std::string(1, '\0')};
  std::mt19937 random(7);
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(bound, 1));
  };
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[below(seeds.size())];
    const std::size_t changes = 1 + below(4);
    for (std::size_t change = 0; change < changes; ++change) {
      // The first byte, which chooses the parser, stays.
      const std::size_t at = std::min(text.size(), 1 + below(text.size()));
      switch (below(5)) {
        case 0:
          if (at < text.size()) text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, below(12));
          break;
        case 2:
          text.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 3:
          text.insert(at, text.substr(std::min(text.size(), 1 + below(text.size())), below(40)));
          break;
        default:
          text.resize(at);
      }
    }
    feed(text);
  }
}

}  // namespace
}  // namespace ptxbench::problem
