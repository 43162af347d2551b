#include "emulator/tensor/tensor_box.h"

#include "emulator/tensor/numeric_formats.h"

#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace ptxbench::emulator {
namespace {

constexpr std::uint32_t kChunk = 16;
constexpr std::size_t kMaxRowBytes = 256 * 8;

struct Row {
  std::uint32_t shared_address;  // before swizzling
  std::uint64_t global_address;  // of the element at coordinate 0 of the box, wherever that is
  bool in_bounds;                // in every dimension but the innermost
};

/// The bytes of every row that are exchanged with the tensor: [first, last) counted from the box's start.
struct InnerRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t bytes() const { return last - first; }
};

InnerRange inner_range(const TensorMap& map, const BoxGeometry& geometry, const BoxCoordinates& coordinates,
                       BoxDirection direction) {
  const std::int64_t size = element_bytes(map.data_type);
  const std::int64_t start = coordinates[0] * size;
  const std::int64_t extent = static_cast<std::int64_t>(map.global_dims[0]) * size;
  const std::int64_t end = direction == BoxDirection::load ? extent : (extent + kChunk - 1) / kChunk * kChunk;
  const std::int64_t bytes = geometry.row_bytes;
  const std::int64_t first = std::clamp<std::int64_t>(-start, 0, bytes);
  return {static_cast<std::uint32_t>(first),
          static_cast<std::uint32_t>(std::clamp<std::int64_t>(end - start, first, bytes))};
}

template <class Visit>
void for_each_row(const TensorMap& map, const BoxGeometry& geometry, const BoxCoordinates& coordinates,
                  std::uint32_t shared_address, Visit&& visit) {
  std::array<std::int64_t, kMaxTensorRank> start{};
  std::array<std::int64_t, kMaxTensorRank> step{};
  std::array<std::int64_t, kMaxTensorRank> extent{};
  std::array<std::uint64_t, kMaxTensorRank> stride{};
  for (unsigned i = 1; i < kMaxTensorRank; ++i) {
    const bool used = i < map.rank;
    start[i] = used ? coordinates[i] : 0;
    step[i] = used ? map.element_strides[i] : 1;
    extent[i] = used ? static_cast<std::int64_t>(map.global_dims[i]) : 1;
    stride[i] = used ? map.global_strides[i - 1] : 0;
  }
  const std::uint64_t origin =
      map.global_address +
      static_cast<std::uint64_t>(static_cast<std::int64_t>(coordinates[0]) * element_bytes(map.data_type));
  Row row{shared_address, 0, false};
  for (std::uint32_t i4 = 0; i4 < geometry.counts[4]; ++i4) {
    const std::int64_t c4 = start[4] + step[4] * i4;
    for (std::uint32_t i3 = 0; i3 < geometry.counts[3]; ++i3) {
      const std::int64_t c3 = start[3] + step[3] * i3;
      for (std::uint32_t i2 = 0; i2 < geometry.counts[2]; ++i2) {
        const std::int64_t c2 = start[2] + step[2] * i2;
        const bool plane_in_bounds =
            c4 >= 0 && c4 < extent[4] && c3 >= 0 && c3 < extent[3] && c2 >= 0 && c2 < extent[2];
        const std::uint64_t plane = origin + static_cast<std::uint64_t>(c4) * stride[4] +
                                    static_cast<std::uint64_t>(c3) * stride[3] +
                                    static_cast<std::uint64_t>(c2) * stride[2];
        std::int64_t c1 = start[1];
        for (std::uint32_t i1 = 0; i1 < geometry.counts[1]; ++i1, c1 += step[1]) {
          row.in_bounds = plane_in_bounds && c1 >= 0 && c1 < extent[1];
          row.global_address = plane + static_cast<std::uint64_t>(c1) * stride[1];
          visit(row);
          row.shared_address += geometry.row_pitch;
        }
      }
    }
  }
}

inline void copy_chunk(std::byte* destination, const std::byte* source) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), _mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
}

/// Moves one full row between a linear buffer and its swizzled place; `load` writes shared memory.
template <bool load>
inline void move_row(TensorSwizzle swizzle, std::byte* shared_base, std::uint32_t shared_address, std::byte* linear,
                     std::uint32_t bytes) {
  if (swizzle == TensorSwizzle::none) {
    std::memcpy(load ? shared_base + shared_address : linear, load ? linear : shared_base + shared_address, bytes);
    return;
  }
  for (std::uint32_t offset = 0; offset < bytes; offset += kChunk) {
    std::byte* shared = shared_base + swizzle_address(swizzle, shared_address + offset);
    copy_chunk(load ? shared : linear + offset, load ? linear + offset : shared);
  }
}

/// The common tile: a row fills the 128-byte span. The XOR moves pairs of chunks as wholes and, in every other row,
/// swaps the two chunks of each pair.
inline void load_row_128(std::byte* shared_base, std::uint32_t shared_address, const std::byte* linear) {
  const std::uint32_t flip = (shared_address >> 3) & 0x70U;
  std::byte* shared = shared_base + shared_address;
  const auto copy_pairs = [&](auto arrange) {
    for (std::uint32_t offset = 0; offset < 128; offset += 2 * kChunk) {
      const __m256i pair = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(linear + offset));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(shared + (offset ^ (flip & 0x60U))), arrange(pair));
    }
  };
  if ((flip & kChunk) != 0) {
    copy_pairs([](__m256i pair) { return _mm256_permute4x64_epi64(pair, 0x4e); });
  } else {
    copy_pairs([](__m256i pair) { return pair; });
  }
}

void fill_out_of_bounds(const TensorMap& map, std::byte* destination, std::size_t bytes) {
  if (map.oob_fill == TensorOobFill::zeros) {
    std::memset(destination, 0, bytes);
    return;
  }
  // Observed on an H200: the NaN fill is this halfword for every floating type, whatever its width.
  constexpr std::uint16_t kNanHalfword = 0x7ff7;
  for (std::size_t i = 0; i < bytes; i += sizeof kNanHalfword) {
    std::memcpy(destination + i, &kNanHalfword, sizeof kNanHalfword);
  }
}

bool rounds_to_tf32(TensorDataType type) { return type == TensorDataType::tf32 || type == TensorDataType::tf32_ftz; }

/// A tf32 map rounds what it loads (observed on an H200); f32 maps, flushing or not, copy bits.
void round_row_to_tf32(std::byte* row, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(float)) {
    float value;
    std::memcpy(&value, row + i, sizeof value);
    const std::uint32_t rounded = encode_float(FloatFormat::tf32, static_cast<double>(value));
    std::memcpy(row + i, &rounded, sizeof rounded);
  }
}

}  // namespace

BoxGeometry box_geometry(const TensorMap& map) {
  BoxGeometry geometry;
  geometry.counts[0] = map.box_dims[0];
  geometry.rows = 1;
  for (unsigned i = 1; i < map.rank; ++i) {
    const std::uint32_t step = map.element_strides[i];
    geometry.counts[i] = (map.box_dims[i] + step - 1) / step;
    geometry.rows *= geometry.counts[i];
  }
  geometry.row_bytes = geometry.counts[0] * element_bytes(map.data_type);
  geometry.row_pitch = map.swizzle == TensorSwizzle::none ? geometry.row_bytes : swizzle_span(map.swizzle);
  geometry.shared_bytes = geometry.rows * geometry.row_pitch;
  geometry.transfer_bytes = geometry.rows * geometry.row_bytes;
  return geometry;
}

Result<void> check_box(const TensorMap& map, unsigned instruction_rank, std::uint32_t shared_address,
                       std::uint32_t shared_bytes) {
  if (auto valid = validate(map); !valid) {
    return valid;
  }
  if (map.interleave != TensorInterleave::none) {
    return input_error("unsupported: tensor maps with an interleaved layout are not modelled");
  }
  if (map.rank != instruction_rank) {
    return input_error("the instruction is {}-dimensional but its tensor map has rank {}", instruction_rank, map.rank);
  }
  if (shared_address % 128 != 0) {
    return input_error("shared address {:#x} of a tensor copy must be a multiple of 128 bytes", shared_address);
  }
  const BoxGeometry geometry = box_geometry(map);
  if (std::uint64_t{shared_address} + geometry.shared_bytes > shared_bytes) {
    return input_error("a box of {} bytes at shared address {:#x} exceeds the {} bytes of shared memory",
                       geometry.shared_bytes, shared_address, shared_bytes);
  }
  return {};
}

Result<void> check_coordinates(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction) {
  const std::int64_t offset = std::int64_t{coordinates[0]} * element_bytes(map.data_type);
  if (offset % kChunk != 0) {
    return input_error(
        "the innermost coordinate {} is {} bytes into the row: it must be a multiple of 16 bytes ({} elements), "
        "anything "
        "else is an illegal instruction on the hardware",
        coordinates[0], offset, kChunk / element_bytes(map.data_type));
  }
  for (unsigned i = 0; direction == BoxDirection::store && i < map.rank; ++i) {
    if (coordinates[i] < 0) {
      return input_error(
          "coordinate {} of a tensor store is {}: stores and reductions may not start at a negative index, "
          "the hardware raises an illegal instruction (loads may)",
          i, coordinates[i]);
    }
  }
  return {};
}

void load_box(const TensorMap& map, const BoxCoordinates& coordinates, SharedWindow shared,
              std::uint32_t shared_address, GlobalWindow global) {
  const BoxGeometry geometry = box_geometry(map);
  const InnerRange inner = inner_range(map, geometry, coordinates, BoxDirection::load);
  const std::uint32_t bytes = geometry.row_bytes;
  const bool converts = rounds_to_tf32(map.data_type);
  if (inner.bytes() == bytes && !converts) {
    std::byte filler[kMaxRowBytes];
    fill_out_of_bounds(map, filler, bytes);
    if (map.swizzle == TensorSwizzle::bytes128 && bytes == 128) {
      for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
        load_row_128(shared.base, row.shared_address, row.in_bounds ? global.host(row.global_address) : filler);
      });
      return;
    }
    for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
      move_row<true>(map.swizzle, shared.base, row.shared_address,
                     row.in_bounds ? global.host(row.global_address) : filler, bytes);
    });
    return;
  }
  std::byte buffer[kMaxRowBytes];
  const std::uint32_t first = inner.first;
  const std::uint32_t length = inner.bytes();
  for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
    fill_out_of_bounds(map, buffer, bytes);
    if (row.in_bounds && length != 0) {
      std::memcpy(buffer + first, global.host(row.global_address + first), length);
      if (converts) {
        round_row_to_tf32(buffer + first, length);
      }
    }
    move_row<true>(map.swizzle, shared.base, row.shared_address, buffer, bytes);
  });
}

void store_box(const TensorMap& map, const BoxCoordinates& coordinates, SharedWindow shared,
               std::uint32_t shared_address, GlobalWindow global) {
  const BoxGeometry geometry = box_geometry(map);
  const InnerRange inner = inner_range(map, geometry, coordinates, BoxDirection::store);
  const std::uint32_t bytes = geometry.row_bytes;
  if (inner.bytes() == bytes) {
    for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
      if (row.in_bounds) {
        move_row<false>(map.swizzle, shared.base, row.shared_address, global.host(row.global_address), bytes);
      }
    });
    return;
  }
  if (inner.bytes() == 0) {
    return;
  }
  std::byte buffer[kMaxRowBytes];
  for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
    if (row.in_bounds) {
      move_row<false>(map.swizzle, shared.base, row.shared_address, buffer, bytes);
      std::memcpy(global.host(row.global_address + inner.first), buffer + inner.first, inner.bytes());
    }
  });
}

void reduce_box(BulkReduction operation, const TensorMap& map, const BoxCoordinates& coordinates, SharedWindow shared,
                std::uint32_t shared_address, GlobalWindow global) {
  const BoxGeometry geometry = box_geometry(map);
  const InnerRange inner = inner_range(map, geometry, coordinates, BoxDirection::store);
  if (inner.bytes() == 0) {
    return;
  }
  std::byte buffer[kMaxRowBytes];
  for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
    if (row.in_bounds) {
      move_row<false>(map.swizzle, shared.base, row.shared_address, buffer, geometry.row_bytes);
      reduce_elements(operation, map.data_type, global.host(row.global_address + inner.first), buffer + inner.first,
                      inner.bytes() / element_bytes(map.data_type));
    }
  });
}

void for_each_box_run(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction,
                      std::uint32_t shared_address, bool merge_swizzled,
                      const std::function<void(const BoxRun&)>& visit) {
  const BoxGeometry geometry = box_geometry(map);
  const InnerRange inner = inner_range(map, geometry, coordinates, direction);
  const std::uint32_t first = inner.first;
  const std::uint32_t last = inner.last;
  if (first == last) {
    return;
  }
  const bool full_span = first == 0 && last == geometry.row_bytes && geometry.row_bytes == swizzle_span(map.swizzle);
  const bool whole_rows = map.swizzle == TensorSwizzle::none || (merge_swizzled && full_span);
  for_each_row(map, geometry, coordinates, shared_address, [&](const Row& row) {
    if (!row.in_bounds) {
      return;
    }
    if (whole_rows) {
      visit({row.global_address + first, row.shared_address + first, last - first});
      return;
    }
    for (std::uint32_t offset = first; offset < last;) {
      const std::uint32_t end = std::min(last, (offset / kChunk + 1) * kChunk);
      visit({row.global_address + offset, swizzle_address(map.swizzle, row.shared_address + offset), end - offset});
      offset = end;
    }
  });
}

void for_each_global_range(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction,
                           const std::function<void(std::uint64_t, std::uint64_t)>& visit) {
  const BoxGeometry geometry = box_geometry(map);
  const InnerRange inner = inner_range(map, geometry, coordinates, direction);
  const std::uint64_t length = inner.bytes();
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  for_each_row(map, geometry, coordinates, 0, [&](const Row& row) {
    if (!row.in_bounds || length == 0) {
      return;
    }
    const std::uint64_t address = row.global_address + inner.first;
    if (address == end && start != end) {
      end += length;
      return;
    }
    if (start != end) {
      visit(start, end - start);
    }
    start = address;
    end = address + length;
  });
  if (start != end) {
    visit(start, end - start);
  }
}

}  // namespace ptxbench::emulator
