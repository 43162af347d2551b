#include "problem/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/text.h"
#include "problem/parallel.h"
#include "problem/random_element.h"
#include "problem/vector_clones.h"

namespace ptxbench::problem {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"normal", "scaled", "spiky", "ties", "flat", "tiny", "bell"};

constexpr int kBlocks = 64;             // Philox blocks made together
constexpr int kElements = 4 * kBlocks;  // elements in them

struct Words {
  alignas(64) std::uint32_t word[4][kBlocks];
};

/// Words of `kBlocks` consecutive blocks, one array per word.
PTXBENCH_CLONES void make_words(std::uint64_t first_block, const RandomTensor& random, std::uint32_t purpose,
                                int rounds, Words& words) {
  const auto key0 = static_cast<std::uint32_t>(random.seed);
  const auto key1 = static_cast<std::uint32_t>(random.seed >> 32);
  const std::uint32_t tensor = random.tensor;
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first_block + static_cast<std::uint64_t>(i);
    words.word[0][i] = static_cast<std::uint32_t>(block);
    words.word[1][i] = static_cast<std::uint32_t>(block >> 32);
    words.word[2][i] = tensor;
    words.word[3][i] = purpose;
  }
  std::uint32_t k0 = key0;
  std::uint32_t k1 = key1;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * words.word[0][i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * words.word[2][i];
      const std::uint32_t w1 = words.word[1][i];
      const std::uint32_t w3 = words.word[3][i];
      words.word[0][i] = static_cast<std::uint32_t>(product1 >> 32) ^ w1 ^ k0;
      words.word[1][i] = static_cast<std::uint32_t>(product1);
      words.word[2][i] = static_cast<std::uint32_t>(product0 >> 32) ^ w3 ^ k1;
      words.word[3][i] = static_cast<std::uint32_t>(product0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

PTXBENCH_CLONES void words_to_normal(const Words& words, float* out) {
  alignas(64) float value[4][kBlocks];
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < kBlocks; ++i) {
      const NormalPair pair = normal_pair(words.word[2 * half][i], words.word[2 * half + 1][i]);
      value[2 * half][i] = pair.first;
      value[2 * half + 1][i] = pair.second;
    }
  }
  for (int i = 0; i < kBlocks; ++i) {
    out[4 * i] = value[0][i];
    out[4 * i + 1] = value[1][i];
    out[4 * i + 2] = value[2][i];
    out[4 * i + 3] = value[3][i];
  }
}

PTXBENCH_CLONES void words_to_bell(const Words& words, float* out) {
  for (int i = 0; i < kBlocks; ++i) {
    for (int j = 0; j < 4; ++j) out[4 * i + j] = bell_value(words.word[j][i]);
  }
}

/// Multiplies the elements whose word is below a bound.
PTXBENCH_CLONES void apply_spikes(const Words& spikes, std::uint32_t below, float factor, float* out) {
  for (int i = 0; i < kBlocks; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (spikes.word[j][i] < below) out[4 * i + j] *= factor;
    }
  }
}

PTXBENCH_CLONES void apply_ties(float* out) {
  for (int i = 0; i < kElements; ++i) out[i] = near_tie(out[i]);
}

void apply_distribution(std::uint64_t first_block, const RandomTensor& random, float* values) {
  switch (random.distribution) {
    case Distribution::normal:
    case Distribution::bell:  // is made from words of its own
      return;
    case Distribution::scaled:
    case Distribution::flat:
      for (int i = 0; i < kElements; ++i) {
        values[i] *= random.distribution == Distribution::scaled ? kScaledFactor : kFlatFactor;
      }
      return;
    case Distribution::ties:
      return apply_ties(values);
    case Distribution::spiky:
    case Distribution::tiny: {
      Words spikes;
      make_words(first_block, random, 1, 10, spikes);
      const bool tiny = random.distribution == Distribution::tiny;
      return apply_spikes(spikes, tiny ? kTinyBelow : kSpikeBelow, tiny ? kTinyFactor : kSpikeFactor, values);
    }
  }
}

PTXBENCH_CLONES void round_to_bfloat16(const float* values, std::uint16_t* out) {
  for (int i = 0; i < kElements; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);  // never NaN
    out[i] = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}

/// `kElements` elements from `first_block` on, packed.
void make_elements(std::uint64_t first_block, const RandomTensor& random, void* out) {
  Words words;
  const bool bell = random.distribution == Distribution::bell && is_float(random.dtype);
  make_words(first_block, random, bell ? 4 : 0, bell ? kBellRounds : 10, words);
  if (!is_float(random.dtype)) {
    alignas(64) float values[kElements];
    const bool boolean = random.dtype == Dtype::boolean;
    for (int i = 0; i < kBlocks; ++i) {
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t word = words.word[j][i];
        values[4 * i + j] = boolean ? static_cast<float>(word >> 31) : static_cast<float>(word >> 28) - 8.0f;
      }
    }
    return from_float(random.dtype, values, 0, kElements, out);
  }
  alignas(64) float values[kElements];
  if (bell) {
    words_to_bell(words, values);
  } else {
    words_to_normal(words, values);
  }
  apply_distribution(first_block, random, values);
  if (random.dtype == Dtype::bfloat16) {
    round_to_bfloat16(values, static_cast<std::uint16_t*>(out));
  } else {
    from_float(random.dtype, values, 0, kElements, out);
  }
}

}  // namespace

std::string_view to_string(Distribution distribution) { return kNames[static_cast<std::size_t>(distribution)]; }

Result<Distribution> parse_distribution(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Distribution>(i);
  }
  return input_error("unknown distribution '{}'{}: normal, scaled, spiky, ties, flat, tiny or bell", text,
                     base::did_you_mean(text, kNames));
}

void RandomTensor::fill(std::uint64_t first, std::uint64_t count, void* out) const {
  alignas(64) std::byte scratch[kElements * sizeof(std::int64_t)];
  auto* bytes = static_cast<std::byte*>(out);
  std::uint64_t done = 0;
  while (done < count) {
    const std::uint64_t element = first + done;
    const std::uint64_t skip = element % 4;  // elements of the first block that come before
    const std::uint64_t taken = std::min<std::uint64_t>(count - done, kElements - skip);
    std::byte* place = bytes + bytes_of(dtype, done);
    if (skip == 0 && taken == kElements) {
      make_elements(element / 4, *this, place);
    } else {
      make_elements(element / 4, *this, scratch);
      std::memcpy(place, scratch + bytes_of(dtype, skip), bytes_of(dtype, taken));
    }
    done += taken;
  }
}

void fill(const RandomTensor& random, Tensor& tensor, int threads) {
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 18;
  auto* bytes = tensor.storage.data();
  parallel_for((tensor.count + kChunk - 1) / kChunk, threads, [&](std::uint64_t chunk) {
    const std::uint64_t first = chunk * kChunk;
    random.fill(first, std::min(kChunk, tensor.count - first), bytes + bytes_of(random.dtype, first));
  });
}

}  // namespace ptxbench::problem
