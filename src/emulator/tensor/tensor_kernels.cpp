// Compiled once per instruction-set level, into its own namespace. Nothing here may call an inline function that
// another translation unit also compiles: the linker would keep one copy, perhaps for a processor we are not on.
#include "emulator/tensor/tensor_kernels.h"

#include <immintrin.h>

#ifndef PTXBENCH_TENSOR_LEVEL
#error "define PTXBENCH_TENSOR_LEVEL as v3 or v4"
#endif
#define PTXBENCH_STRINGIFY_(x) #x
#define PTXBENCH_STRINGIFY(x) PTXBENCH_STRINGIFY_(x)

namespace ptxbench::emulator::PTXBENCH_TENSOR_LEVEL {
namespace {

// Small fixed loops over registers: unrolled early, so that arrays of vectors become registers.
#define PTXBENCH_UNROLL _Pragma("GCC unroll 16")

constexpr unsigned kTileFloats = kLanes;         // of packed A per word and half
constexpr unsigned kGroupWords = kGroupColumns;  // of packed B per word
constexpr std::int16_t kZeroExponent = -1000;
constexpr int kNoExponent = -500;  // any sum with a zero operand lies below

__m128i load_128(const void* source) { return _mm_loadu_si128(static_cast<const __m128i*>(source)); }
__m256i load_256(const void* source) { return _mm256_loadu_si256(static_cast<const __m256i*>(source)); }
void store_256(void* target, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(target), value); }

__m256i bf16_words(__m128i halves) { return _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16); }
__m256i f16_words(__m128i halves) { return _mm256_castps_si256(_mm256_cvtph_ps(halves)); }

// Bytes in the low half of each 16-bit element. e4m3 moved into the f16 fields is 2^-8 of its value; its one NaN is
// made a NaN there.
__m256i e4m3_words(__m128i bytes16) {
  const __m128i magnitude = _mm_and_si128(bytes16, _mm_set1_epi16(0x7f));
  const __m128i nan = _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7fff));
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(bytes16, _mm_set1_epi16(0x80)), 8);
  const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), nan);
  return _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0F)));
}

__m256i e5m2_words(__m128i bytes16) { return f16_words(_mm_slli_epi16(bytes16, 8)); }

/// The addresses of one piece of eight rows.
struct PieceAddresses {
  alignas(32) std::uint32_t offset[8];
};

PieceAddresses piece_addresses(const PiecePattern& pattern, unsigned piece) {
  const __m256i rows = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i first = _mm256_set1_epi32(static_cast<int>(pattern.start + piece * pattern.piece_stride));
  const __m256i stride = _mm256_set1_epi32(static_cast<int>(pattern.row_stride));
  const __m256i linear = _mm256_add_epi32(first, _mm256_mullo_epi32(rows, stride));
  const __m256i phase = _mm256_sub_epi32(linear, _mm256_set1_epi32(static_cast<int>(pattern.phase)));
  const __m256i flip = _mm256_and_si256(_mm256_srli_epi32(phase, 3), _mm256_set1_epi32(static_cast<int>(pattern.mask)));
  PieceAddresses result;
  _mm256_store_si256(reinterpret_cast<__m256i*>(result.offset),
                     _mm256_and_si256(_mm256_xor_si256(linear, flip), _mm256_set1_epi32(0x3ffff)));
  return result;
}

/// Eight words of each of eight rows: one 16-byte piece, two for tf32, half a piece for fp8.
template <MmaType type>
[[gnu::always_inline]] inline void load_octet(const PiecePattern& pattern, unsigned octet, __m256i sign,
                                              __m256i* rows) {
  constexpr bool is_fp8 = type == MmaType::e4m3 || type == MmaType::e5m2;
  const std::byte* base = pattern.shared_base + (is_fp8 ? octet % 2 * 8 : 0);
  const PieceAddresses at = piece_addresses(pattern, type == MmaType::tf32 ? 2 * octet : is_fp8 ? octet / 2 : octet);
  PieceAddresses second{};
  if constexpr (type == MmaType::tf32) {
    second = piece_addresses(pattern, 2 * octet + 1);
  }
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    const std::byte* piece = base + at.offset[i];
    __m256i words;
    if constexpr (type == MmaType::bf16) {
      words = bf16_words(load_128(piece));
    } else if constexpr (type == MmaType::f16) {
      words = f16_words(load_128(piece));
    } else if constexpr (type == MmaType::tf32) {
      words = _mm256_and_si256(_mm256_set_m128i(load_128(base + second.offset[i]), load_128(piece)),
                               _mm256_set1_epi32(static_cast<int>(0xffffe000U)));
    } else if constexpr (is_fp8) {
      const __m128i bytes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(piece)));
      words = type == MmaType::e4m3 ? e4m3_words(bytes) : e5m2_words(bytes);
    } else if constexpr (type == MmaType::s8) {
      words = _mm256_cvtepi8_epi16(load_128(piece));
    } else {
      words = _mm256_cvtepu8_epi16(load_128(piece));
    }
    rows[i] = _mm256_xor_si256(words, sign);
  }
}

/// Calls `visit` with the type as a compile-time constant.
template <class Visit>
void with_type(MmaType type, Visit visit) {
  switch (type) {
    case MmaType::f16:
      visit.template operator()<MmaType::f16>();
      break;
    case MmaType::bf16:
      visit.template operator()<MmaType::bf16>();
      break;
    case MmaType::tf32:
      visit.template operator()<MmaType::tf32>();
      break;
    case MmaType::e4m3:
      visit.template operator()<MmaType::e4m3>();
      break;
    case MmaType::e5m2:
      visit.template operator()<MmaType::e5m2>();
      break;
    case MmaType::s8:
      visit.template operator()<MmaType::s8>();
      break;
    case MmaType::u8:
      visit.template operator()<MmaType::u8>();
      break;
  }
}

__m256i sign_mask(bool negate) { return _mm256_set1_epi32(negate ? static_cast<int>(0x80000000U) : 0); }

/// Transposes eight columns of eight words, even columns first.
[[gnu::always_inline]] inline void store_transposed(const __m256i* columns, std::uint32_t* out) {
  constexpr unsigned order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  __m256i r[8];
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    r[i] = columns[order[i]];
  }
  __m256i pairs[8];
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  __m256i quads[8];
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; i += 4) {
    quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    store_256(out + i * kGroupWords, _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20));
    store_256(out + (i + 4) * kGroupWords, _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31));
  }
}

void pack_b_k_major(MmaType type, const PiecePattern& columns, unsigned words, bool negate, std::uint32_t* out) {
  with_type(type, [&]<MmaType kType>() {
    for (unsigned octet = 0; octet < words / 8; ++octet) {
      __m256i values[8];
      load_octet<kType>(columns, octet, sign_mask(negate), values);
      store_transposed(values, out + octet * 8 * kGroupWords);
    }
  });
}

void pack_b_mn_major(MmaType type, const std::byte* piece, bool negate, std::uint32_t* out) {
  const __m128i even_first = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m128i halves = _mm_shuffle_epi8(load_128(piece), even_first);
  store_256(out, _mm256_xor_si256(type == MmaType::bf16 ? bf16_words(halves) : f16_words(halves), sign_mask(negate)));
}

/// Stores [row 2p word i x4, row 2p+1 word i x4] for the words of two rows.
void splat_row_pair(__m256i low_row, __m256i high_row, std::uint32_t* out) {
  const __m256i first = _mm256_permute2x128_si256(low_row, high_row, 0x20);
  const __m256i second = _mm256_permute2x128_si256(low_row, high_row, 0x31);
  store_256(out + 0 * kTileFloats, _mm256_shuffle_epi32(first, 0x00));
  store_256(out + 1 * kTileFloats, _mm256_shuffle_epi32(first, 0x55));
  store_256(out + 2 * kTileFloats, _mm256_shuffle_epi32(first, 0xaa));
  store_256(out + 3 * kTileFloats, _mm256_shuffle_epi32(first, 0xff));
  store_256(out + 4 * kTileFloats, _mm256_shuffle_epi32(second, 0x00));
  store_256(out + 5 * kTileFloats, _mm256_shuffle_epi32(second, 0x55));
  store_256(out + 6 * kTileFloats, _mm256_shuffle_epi32(second, 0xaa));
  store_256(out + 7 * kTileFloats, _mm256_shuffle_epi32(second, 0xff));
}

void pack_a_k_major(MmaType type, const PiecePattern& rows, unsigned words, bool negate, std::uint32_t* out) {
  with_type(type, [&]<MmaType kType>() {
    for (unsigned octet = 0; octet < words / 8; ++octet) {
      __m256i values[8];
      load_octet<kType>(rows, octet, sign_mask(negate), values);
      PTXBENCH_UNROLL
      for (unsigned pair = 0; pair < 4; ++pair) {
        splat_row_pair(values[2 * pair], values[2 * pair + 1], out + octet * 8 * kTileFloats + 8 * pair);
      }
    }
  });
}

void pack_a_mn_major(MmaType type, const std::byte* piece, bool negate, std::uint32_t* out) {
  const __m128i halves = load_128(piece);
  const __m256i words =
      _mm256_xor_si256(type == MmaType::bf16 ? bf16_words(halves) : f16_words(halves), sign_mask(negate));
  for (int pair = 0; pair < 4; ++pair) {
    const int low = 2 * pair;
    const __m256i index = _mm256_setr_epi32(low, low, low, low, low + 1, low + 1, low + 1, low + 1);
    store_256(out + 8 * pair, _mm256_permutevar8x32_epi32(words, index));
  }
}

/// Eight threads (two rows) hold one word each; word t of a row goes to out[t * step].
void splat_threads(__m256i words, std::uint32_t* out, unsigned step) {
  store_256(out, _mm256_shuffle_epi32(words, 0x00));
  store_256(out + step, _mm256_shuffle_epi32(words, 0x55));
  store_256(out + 2 * step, _mm256_shuffle_epi32(words, 0xaa));
  store_256(out + 3 * step, _mm256_shuffle_epi32(words, 0xff));
}

/// Bits [shift, shift+8) of each 32-bit lane as 16-bit elements.
__m128i byte_lanes(__m256i registers, int shift) {
  const __m256i bytes =
      _mm256_and_si256(_mm256_srl_epi32(registers, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(0xff));
  return _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
}

void pack_a_register(MmaType type, const std::uint32_t* lanes, bool negate, std::uint32_t* out) {
  const __m256i sign = sign_mask(negate);
  for (unsigned pair = 0; pair < 4; ++pair) {
    const __m256i registers = load_256(lanes + 8 * pair);
    std::uint32_t* target = out + 8 * pair;
    const auto emit = [&](unsigned word, unsigned words_per_thread, __m256i values) {
      splat_threads(_mm256_xor_si256(values, sign), target + word * kTileFloats, words_per_thread * kTileFloats);
    };
    switch (type) {
      case MmaType::bf16:
        emit(0, 2, _mm256_slli_epi32(registers, 16));
        emit(1, 2, _mm256_and_si256(registers, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
        break;
      case MmaType::f16:
        for (unsigned c = 0; c < 2; ++c) {
          const __m256i halves =
              c == 0 ? _mm256_and_si256(registers, _mm256_set1_epi32(0xffff)) : _mm256_srli_epi32(registers, 16);
          emit(c, 2, f16_words(_mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1))));
        }
        break;
      case MmaType::tf32:
        emit(0, 1, _mm256_and_si256(registers, _mm256_set1_epi32(static_cast<int>(0xffffe000U))));
        break;
      case MmaType::e4m3:
      case MmaType::e5m2:
        for (unsigned c = 0; c < 4; ++c) {
          const __m128i bytes = byte_lanes(registers, static_cast<int>(8 * c));
          emit(c, 4, type == MmaType::e4m3 ? e4m3_words(bytes) : e5m2_words(bytes));
        }
        break;
      case MmaType::s8:
      case MmaType::u8: {
        // Bytes 0,1 then 2,3 of each lane as a pair of 16-bit numbers.
        const __m256i spread =
            _mm256_setr_epi8(0, -128, 1, -128, 4, -128, 5, -128, 8, -128, 9, -128, 12, -128, 13, -128, 0, -128, 1, -128,
                             4, -128, 5, -128, 8, -128, 9, -128, 12, -128, 13, -128);
        for (int c = 0; c < 2; ++c) {
          __m256i words = _mm256_shuffle_epi8(c == 0 ? registers : _mm256_srli_epi32(registers, 16), spread);
          if (type == MmaType::s8) {
            words = _mm256_srai_epi16(_mm256_slli_epi16(words, 8), 8);
          }
          splat_threads(words, target + static_cast<unsigned>(c) * kTileFloats, 2 * kTileFloats);
        }
        break;
      }
    }
  }
}

#ifdef __AVX512F__
struct Floats {
  static constexpr unsigned kWidth = 16;
  __m512 v;
  static Floats zero() { return {_mm512_setzero_ps()}; }
  static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Floats repeat4(const float* p) { return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))}; }
  // Otherwise the compiler loads the row again for each multiply-add, and the load ports become the limit.
  void keep_in_register() { __asm__("" : "+v"(v)); }
  static Floats multiply_add(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  void store_canonical(float* p) const {
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    _mm512_storeu_ps(p, _mm512_mask_mov_ps(v, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff))));
  }
};
#else
struct Floats {
  static constexpr unsigned kWidth = 8;
  __m256 v;
  static Floats zero() { return {_mm256_setzero_ps()}; }
  static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Floats repeat4(const float* p) { return {_mm256_broadcast_ps(reinterpret_cast<const __m128*>(p))}; }
  void keep_in_register() { __asm__("" : "+x"(v)); }
  static Floats multiply_add(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  void store_canonical(float* p) const {
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    _mm256_storeu_ps(p, _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), nan));
  }
};
#endif

constexpr unsigned kVectors = kLanes / Floats::kWidth;  // per PTX register
// Accumulator registers per tile: twelve vectors in flight hide the latency and leave room for one row and the columns.
constexpr unsigned kTileColumns = 12 / kVectors;

/// One half of the rows by kColumns accumulator registers, the first of them number `column` (parity fastest).
// The pragmas make the compiler see each accumulator as a register of its own.
template <unsigned kColumns>
void multiply_tile(const float* a, const float* b, unsigned words, unsigned half, unsigned column,
                   std::uint32_t* const* d, bool accumulate) {
  Floats acc[kColumns][kVectors];
  const float* b_column[kColumns];
  float* target[kColumns];
  PTXBENCH_UNROLL
  for (unsigned j = 0; j < kColumns; ++j) {
    const unsigned group = (column + j) / 2;
    const unsigned parity = (column + j) % 2;
    b_column[j] = b + std::size_t{group} * words * kGroupWords + 4 * parity;
    target[j] = reinterpret_cast<float*>(d[4 * group + 2 * half + parity]);
    PTXBENCH_UNROLL
    for (unsigned i = 0; i < kVectors; ++i) {
      acc[j][i] = accumulate ? Floats::load(target[j] + i * Floats::kWidth) : Floats::zero();
    }
  }
  const std::size_t end = std::size_t{words} * kGroupWords;
  for (std::size_t at = 0; at < end; at += kGroupWords, a += kTileFloats) {
    Floats columns[kColumns];
    PTXBENCH_UNROLL
    for (unsigned j = 0; j < kColumns; ++j) {
      columns[j] = Floats::repeat4(b_column[j] + at);
    }
    PTXBENCH_UNROLL
    for (unsigned i = 0; i < kVectors; ++i) {
      Floats row = Floats::load(a + i * Floats::kWidth);
      row.keep_in_register();
      PTXBENCH_UNROLL
      for (unsigned j = 0; j < kColumns; ++j) {
        acc[j][i] = Floats::multiply_add(row, columns[j], acc[j][i]);
      }
    }
  }
  PTXBENCH_UNROLL
  for (unsigned j = 0; j < kColumns; ++j) {
    PTXBENCH_UNROLL
    for (unsigned i = 0; i < kVectors; ++i) {
      acc[j][i].store_canonical(target[j] + i * Floats::kWidth);
    }
  }
}

template <unsigned kColumns>
unsigned multiply_columns(const float* a, const float* b, unsigned words, unsigned column, unsigned end,
                          std::uint32_t* const* d, bool accumulate) {
  const std::size_t half_stride = std::size_t{words} * kTileFloats;
  // A warpgroup's accumulators exceed the first-level cache; fetch the next tile's while this one computes.
  const auto prefetch = [&](unsigned half, unsigned first) {
    for (unsigned j = first; j < first + kColumns && j < end; ++j) {
      const std::uint32_t* target = d[4 * (j / 2) + 2 * half + j % 2];
      _mm_prefetch(reinterpret_cast<const char*>(target), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(target + 16), _MM_HINT_T0);
    }
  };
  for (; column + kColumns <= end; column += kColumns) {
    prefetch(1, column);
    multiply_tile<kColumns>(a, b, words, 0, column, d, accumulate);
    prefetch(0, column + kColumns);
    multiply_tile<kColumns>(a + half_stride, b, words, 1, column, d, accumulate);
  }
  return column;
}

void multiply_f32(const float* a, const float* b, unsigned words, unsigned columns, std::uint32_t* const* d,
                  bool accumulate) {
  const unsigned end = columns / 4;  // accumulator registers of one half: an even number
  unsigned column = 0;
  if (end > 4) {
    // Leave an even rest, so that no tile is narrower than two registers.
    const unsigned wide = end / kTileColumns * kTileColumns;
    const unsigned wide_end = (end - wide) % 2 == 0 ? wide : wide - kTileColumns;
    column = multiply_columns<kTileColumns>(a, b, words, 0, wide_end, d, accumulate);
  }
  multiply_columns<2>(a, b, words, column, end, d, accumulate);
}

__m256i add_saturating(__m256i a, __m256i b) {
  const __m256i sum = _mm256_add_epi32(a, b);
  const __m256i overflow = _mm256_and_si256(_mm256_xor_si256(a, sum), _mm256_xor_si256(b, sum));
  const __m256i limit = _mm256_xor_si256(_mm256_srai_epi32(a, 31), _mm256_set1_epi32(0x7fffffff));
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(sum), _mm256_castsi256_ps(limit), _mm256_castsi256_ps(overflow)));
}

void multiply_s32(const std::uint32_t* a, const std::uint32_t* b, unsigned words, unsigned columns,
                  std::uint32_t* const* d, bool accumulate, bool saturate) {
  for (unsigned group = 0; group < columns / kGroupColumns; ++group) {
    const std::uint32_t* b_group = b + std::size_t{group} * words * kGroupWords;
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t* a_half = a + std::size_t{half} * words * kTileFloats;
      __m256i acc[2][4];
      PTXBENCH_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        acc[0][i] = _mm256_setzero_si256();
        acc[1][i] = _mm256_setzero_si256();
      }
      for (unsigned word = 0; word < words; ++word) {
        const __m256i even = _mm256_broadcastsi128_si256(load_128(b_group + word * kGroupWords));
        const __m256i odd = _mm256_broadcastsi128_si256(load_128(b_group + word * kGroupWords + 4));
        PTXBENCH_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
          const __m256i row = load_256(a_half + word * kTileFloats + 8 * i);
          acc[0][i] = _mm256_add_epi32(acc[0][i], _mm256_madd_epi16(row, even));
          acc[1][i] = _mm256_add_epi32(acc[1][i], _mm256_madd_epi16(row, odd));
        }
      }
      PTXBENCH_UNROLL
      for (unsigned parity = 0; parity < 2; ++parity) {
        std::uint32_t* target = d[4 * group + 2 * half + parity];
        PTXBENCH_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
          __m256i result = acc[parity][i];
          if (accumulate) {
            const __m256i old = load_256(target + 8 * i);
            result = saturate ? add_saturating(result, old) : _mm256_add_epi32(result, old);
          }
          store_256(target + 8 * i, result);
        }
      }
    }
  }
}

bool exponents(const float* values, std::size_t count, int smallest, std::int16_t* out) {
  const __m256i field = _mm256_set1_epi32(0xff);
  __m256i special = _mm256_setzero_si256();
  for (std::size_t i = 0; i < count; i += 16) {
    __m256i result[2];
    for (std::size_t j = 0; j < 2; ++j) {
      const __m256i bits = load_256(values + i + 8 * j);
      const __m256i biased = _mm256_and_si256(_mm256_srli_epi32(bits, 23), field);
      special = _mm256_or_si256(special, _mm256_cmpeq_epi32(biased, field));
      const __m256i exponent =
          _mm256_max_epi32(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)), _mm256_set1_epi32(smallest));
      const __m256i zero = _mm256_cmpeq_epi32(_mm256_slli_epi32(bits, 1), _mm256_setzero_si256());
      result[j] = _mm256_blendv_epi8(exponent, _mm256_set1_epi32(kZeroExponent), zero);
    }
    store_256(out + i, _mm256_permute4x64_epi64(_mm256_packs_epi32(result[0], result[1]), 0xd8));
  }
  return _mm256_movemask_epi8(special) != 0;
}

__m128i quarter(const __m256i* vectors, unsigned i) {
  return i % 2 == 0 ? _mm256_castsi256_si128(vectors[i / 2]) : _mm256_extracti128_si256(vectors[i / 2], 1);
}

/// The largest exponent of each lane of both parities: largest[4 * parity + i] for lanes 8i..8i+7. False when a lane
/// cannot be handled by float arithmetic.
bool largest_exponents(const std::int16_t* a, const std::int16_t* b, unsigned words, const float* const* c,
                       int smallest_c_exponent, __m256i* largest) {
  const __m256i lowest = _mm256_set1_epi16(2 * kZeroExponent);
  __m256i top[2][2] = {{lowest, lowest}, {lowest, lowest}};
  for (std::size_t word = 0; word < words; ++word) {
    const __m256i low = load_256(a + word * kTileFloats);
    const __m256i high = load_256(a + word * kTileFloats + 16);
    PTXBENCH_UNROLL
    for (unsigned parity = 0; parity < 2; ++parity) {
      long long four;
      __builtin_memcpy(&four, b + word * kGroupWords + 4 * parity, sizeof four);
      const __m256i column = _mm256_set1_epi64x(four);
      top[parity][0] = _mm256_max_epi16(top[parity][0], _mm256_add_epi16(low, column));
      top[parity][1] = _mm256_max_epi16(top[parity][1], _mm256_add_epi16(high, column));
    }
  }
  __m256i refused = _mm256_setzero_si256();
  PTXBENCH_UNROLL
  for (unsigned parity = 0; parity < 2; ++parity) {
    PTXBENCH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const __m256i bits = load_256(c[parity] + 8 * i);
      const __m256i biased = _mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(0xff));
      const __m256i exponent =
          _mm256_max_epi32(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)), _mm256_set1_epi32(smallest_c_exponent));
      const __m256i zero = _mm256_cmpeq_epi32(_mm256_slli_epi32(bits, 1), _mm256_setzero_si256());
      const __m256i of_c = _mm256_blendv_epi8(exponent, _mm256_set1_epi32(kZeroExponent), zero);
      const __m256i most = _mm256_max_epi32(_mm256_cvtepi16_epi32(quarter(top[parity], i)), of_c);
      const __m256i none = _mm256_cmpgt_epi32(_mm256_set1_epi32(kNoExponent), most);
      // Within these limits no product of two floats over- or underflows in a way that the alignment would show.
      const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(most, _mm256_set1_epi32(120)),
                                              _mm256_cmpgt_epi32(_mm256_set1_epi32(-96), most));
      refused = _mm256_or_si256(refused, _mm256_andnot_si256(none, outside));
      largest[4 * parity + i] = _mm256_andnot_si256(none, most);
    }
  }
  return _mm256_movemask_epi8(refused) == 0;
}

__m256d power_of_two(__m128i exponent) {
  const __m256i biased = _mm256_add_epi64(_mm256_cvtepi32_epi64(exponent), _mm256_set1_epi64x(1023));
  return _mm256_castsi256_pd(_mm256_slli_epi64(biased, 52));
}

/// Adds the cut products of words [first, last) of both parities to sums[4 * parity + i].
void add_cut_products(const float* a, const float* b, std::size_t first, std::size_t last, const __m256* scale,
                      __m256i* sums) {
  __m256i total[8];
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    total[i] = sums[i];
  }
  for (std::size_t word = first; word < last; ++word) {
    const __m256 column[2] = {_mm256_broadcast_ps(reinterpret_cast<const __m128*>(b + word * kGroupWords)),
                              _mm256_broadcast_ps(reinterpret_cast<const __m128*>(b + word * kGroupWords + 4))};
    PTXBENCH_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const __m256 row = _mm256_loadu_ps(a + word * kTileFloats + 8 * i);
      PTXBENCH_UNROLL
      for (unsigned parity = 0; parity < 2; ++parity) {
        const __m256 product = _mm256_mul_ps(_mm256_mul_ps(row, column[parity]), scale[4 * parity + i]);
        total[4 * parity + i] = _mm256_add_epi32(total[4 * parity + i], _mm256_cvttps_epi32(product));
      }
    }
  }
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    sums[i] = total[i];
  }
}

/// cut[parity] = (low + high) * 2^unit, cut toward zero to `result_bits`. False when a sum exceeds 31 bits.
bool cut_sums(const __m256i* low, const __m256i* high, const __m256i* unit, int result_bits, float* const* cut) {
  __m256i overflow = _mm256_setzero_si256();
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    const __m256i sum = _mm256_add_epi32(low[i], high[i]);
    const __m256i wrapped = _mm256_and_si256(_mm256_xor_si256(low[i], sum), _mm256_xor_si256(high[i], sum));
    const __m256i lowest = _mm256_and_si256(sum, _mm256_abs_epi32(sum));  // -2^31 has no magnitude in 31 bits
    overflow = _mm256_or_si256(overflow, _mm256_or_si256(wrapped, lowest));
  }
  if (_mm256_movemask_ps(_mm256_castsi256_ps(overflow)) != 0) {
    return false;
  }
  const __m256i kept = _mm256_set1_epi32(static_cast<int>(~0U << (23 - result_bits)));
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    const __m256i sum = _mm256_add_epi32(low[i], high[i]);
    const __m256i magnitude = _mm256_abs_epi32(sum);
    // The conversion rounds to nearest; where it went up (also to 2^31, which reads back negative), step back down.
    const __m256i nearest = _mm256_castps_si256(_mm256_cvtepi32_ps(magnitude));
    const __m256i back = _mm256_cvttps_epi32(_mm256_castsi256_ps(nearest));
    const __m256i went_up = _mm256_or_si256(_mm256_cmpgt_epi32(back, magnitude), _mm256_srai_epi32(back, 31));
    const __m256i truncated = _mm256_and_si256(_mm256_add_epi32(nearest, went_up), kept);
    const __m256i sign = _mm256_and_si256(sum, _mm256_set1_epi32(static_cast<int>(0x80000000U)));
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(unit[i], _mm256_set1_epi32(127)), 23);
    const __m256 mantissa = _mm256_castsi256_ps(_mm256_or_si256(truncated, sign));
    _mm256_storeu_ps(cut[i / 4] + 8 * (i % 4), _mm256_mul_ps(mantissa, _mm256_castsi256_ps(power)));
  }
  return true;
}

bool fused_dots(const float* a, const std::int16_t* a_exponents, const float* b, const std::int16_t* b_exponents,
                unsigned words, const float* const* c, int smallest_c_exponent, int fraction_bits, int result_bits,
                double (*sums)[32], float* const* cut) {
  __m256i largest[8];
  if (!largest_exponents(a_exponents, b_exponents, words, c, smallest_c_exponent, largest)) {
    return false;
  }
  __m256 scale[8];
  __m256i unit[8];  // exponent of one unit of the sums
  __m256i low[8];
  __m256i high[8];
  PTXBENCH_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    unit[i] = _mm256_sub_epi32(largest[i], _mm256_set1_epi32(fraction_bits));
    scale[i] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(127), unit[i]), 23));
    low[i] = _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_loadu_ps(c[i / 4] + 8 * (i % 4)), scale[i]));
    high[i] = _mm256_setzero_si256();
  }
  // Terms stay below 2^(fraction_bits + 2), so partial sums of eight (sixteen with 13 bits) and C never overflow.
  add_cut_products(a, b, 0, words / 2, scale, low);
  add_cut_products(a, b, words / 2, words, scale, high);
  if (sums == nullptr && cut_sums(low, high, unit, result_bits, cut)) {
    return true;
  }
  const __m256d kept = _mm256_castsi256_pd(_mm256_set1_epi64x(static_cast<long long>(~0ULL << (52 - result_bits))));
  for (unsigned i = 0; i < 16; ++i) {
    const __m256d integer = _mm256_add_pd(_mm256_cvtepi32_pd(quarter(low, i)), _mm256_cvtepi32_pd(quarter(high, i)));
    const __m256d sum = _mm256_mul_pd(integer, power_of_two(quarter(unit, i)));
    if (sums != nullptr) {
      _mm256_storeu_pd(sums[i / 8] + 4 * (i % 8), sum);
    } else {
      // The sum is a normal f32 or zero here, so dropping double bits is the cut and the conversion is exact.
      _mm_storeu_ps(cut[i / 8] + 4 * (i % 8), _mm256_cvtpd_ps(_mm256_and_pd(sum, kept)));
    }
  }
  return true;
}

}  // namespace

const TensorKernels& kernels() {
  static constexpr TensorKernels table = {PTXBENCH_STRINGIFY(PTXBENCH_TENSOR_LEVEL),
                                          pack_b_k_major,
                                          pack_b_mn_major,
                                          pack_a_k_major,
                                          pack_a_mn_major,
                                          pack_a_register,
                                          multiply_f32,
                                          multiply_s32,
                                          exponents,
                                          fused_dots};
  return table;
}

}  // namespace ptxbench::emulator::PTXBENCH_TENSOR_LEVEL
