#include <algorithm>

#include "emulator/definedness_tracked.h"
#include "emulator/tensor/mma_sync.h"

/// Instructions of whole warps: shuffles, votes, matrices.
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;

const Inst* save_operands(Warp& warp, const Inst& inst) {
  const auto& group = *static_cast<const TrackedGroup*>(inst.extra);
  TrackContext context(warp, inst);
  WarpDefinedness& state = *warp.definedness;
  for_each_lane(warp.mask, [&](unsigned lane) {
    const uint32_t plane = group.source.plane;
    const uint64_t undefined = context.clean(plane) ? 0 : context.frame.get(plane, lane) & low_bits(group.source.width);
    state.saved_undefined[lane] = undefined;
    state.saved_origin[lane] = undefined != 0 ? context.origin(plane, lane) : OriginId{0};
    state.saved_value[lane] = value_of(warp, group.source, lane);
    if (group.op == Op::shfl_sync) {
      state.saved_second[lane] = (group.second.get(warp, lane) & 0xffffffff) | group.third.get(warp, lane) << 32;
    } else {
      state.saved_second[lane] = group.has_members ? group.members.get(warp, lane) & 0xffffffff : kFullMask;
    }
  });
  return &inst + 1;
}

namespace {

/// PTX ISA "shfl.sync": the lane read, or the own one where that lies outside the segment.
unsigned shuffle_lane(Mod mode, unsigned lane, uint32_t b, uint32_t c) {
  const uint32_t offset = b & 0x1f, clamp = c & 0x1f, segment = c >> 8 & 0x1f;
  const uint32_t first = lane & segment, last = first | (clamp & ~segment);
  int64_t from = 0;
  bool inside = false;
  switch (mode) {
    case Mod::up:
      from = int64_t{lane} - offset;
      inside = from >= int64_t{last};
      break;
    case Mod::down:
      from = int64_t{lane} + offset;
      inside = from <= int64_t{last};
      break;
    case Mod::bfly:
      from = lane ^ offset;
      inside = from <= int64_t{last};
      break;
    default:
      from = first | (offset & ~segment);
      inside = from <= int64_t{last};
  }
  return inside ? static_cast<unsigned>(from) & 31 : lane;
}

}  // namespace

const Inst* track_group(Warp& warp, const Inst& inst) {
  const auto& group = *static_cast<const TrackedGroup*>(inst.extra);
  TrackContext context(warp, inst);
  const WarpDefinedness& state = *warp.definedness;
  uint64_t some = 0;
  for_each_lane(warp.mask, [&](unsigned lane) { some |= state.saved_undefined[lane]; });
  context.define(group.predicate);
  if (group.result == ptx::kNone) return &inst + 1;
  if (some == 0) {
    context.define(group.result);
    return &inst + 1;
  }
  const uint64_t all = low_bits(group.width);
  for_each_lane(warp.mask, [&](unsigned lane) {
    uint64_t result = 0;
    OriginId from = 0;
    if (group.op == Op::shfl_sync) {
      const unsigned other = shuffle_lane(group.mode, lane, static_cast<uint32_t>(state.saved_second[lane]),
                                          static_cast<uint32_t>(state.saved_second[lane] >> 32));
      // A lane that is not here gives what its register holds, which is undefined by the ISA.
      const bool here = (warp.mask >> other & 1) != 0;
      result = here ? state.saved_undefined[other] : 0;
      from = here ? state.saved_origin[other] : OriginId{0};
    } else {
      uint64_t undefined = 0, open = 0;
      bool known_true = false, known_false = false;
      for_each_lane(static_cast<uint32_t>(state.saved_second[lane]) & warp.mask, [&](unsigned other) {
        if (state.saved_undefined[other] != 0) {
          undefined |= state.saved_undefined[other];
          open |= 1ull << other;
          if (from == 0) from = state.saved_origin[other];
        } else {
          ((state.saved_value[other] & 1) != 0 ? known_true : known_false) = true;
        }
      });
      if (open != 0) {
        switch (group.mode) {
          case Mod::ballot:
            result = open;
            break;
          case Mod::all:
            result = group.op == Op::vote_sync && known_false ? 0 : all;
            break;
          case Mod::any:
            result = group.op == Op::vote_sync && known_true ? 0 : all;
            break;
          case Mod::uni:
            result = known_true && known_false ? 0 : all;
            break;
          case Mod::and_:
          case Mod::or_:
          case Mod::xor_:
            result = undefined & all;
            break;
          default:
            result = all;
        }
      }
    }
    context.frame.set(group.result, lane, result, result != 0 ? from : OriginId{0});
    if (group.op == Op::match_sync && group.predicate != ptx::kNone && result != 0)
      context.frame.set(group.predicate, lane, 1, from);
  });
  context.frame.define(group.result, ~warp.live);
  return &inst + 1;
}

const Inst* save_rows(Warp& warp, const Inst& inst) {
  const auto& matrix = *static_cast<const TrackedMatrix*>(inst.extra);
  for_each_lane(warp.mask, [&](unsigned lane) {
    warp.definedness->saved_value[lane] =
        locate(matrix.address.space, lane_address(warp, matrix.address, lane)).address;
  });
  return &inst + 1;
}

/// ldmatrix and stmatrix move undefined bits and origins as they move the data (two bytes are one element).
const Inst* track_matrix(Warp& warp, const Inst& inst) {
  const auto& matrix = *static_cast<const TrackedMatrix*>(inst.extra);
  TrackContext context(warp, inst);
  constexpr unsigned kRows = 8;
  for (unsigned m = 0; m < matrix.count; ++m) {
    std::array<std::byte*, kRows> undefined{}, origin{};
    bool reachable = true;
    for (unsigned r = 0; r < kRows; ++r) {
      const unsigned lane = m * kRows + r;
      const auto view =
          context.definedness.view(*warp.cluster, Space::shared, warp.definedness->saved_value[lane] & 0xffffffff, 16);
      if (view.written == nullptr) {
        reachable = false;
        break;
      }
      if (matrix.load) {
        context.definedness.settle_mirror(view, 16, context.lane_agent(lane), context.site);
      } else {
        Definedness::mark(view, 16);
      }
      undefined[r] = view.undefined;
      origin[r] = view.origin;
    }
    if (!reachable) continue;
    const uint32_t plane = matrix.planes[m];
    alignas(64) std::array<uint32_t, kLanes> bits{}, ids{};
    if (matrix.load) {
      if (plane == ptx::kNone) continue;
      ldmatrix_b16(undefined.data(), matrix.transpose, bits.data());
      if (std::all_of(bits.begin(), bits.end(), [](uint32_t one) { return one == 0; })) {
        context.define(plane);
        continue;
      }
      ldmatrix_b16(origin.data(), matrix.transpose, ids.data());
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        const uint32_t id = (bits[lane] & 0xffff) != 0 ? ids[lane] & 0xffff : ids[lane] >> 16;
        context.frame.set(plane, lane, bits[lane], bits[lane] != 0 ? static_cast<OriginId>(id) : OriginId{0});
      }
      continue;
    }
    if (!context.clean(plane)) {
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        bits[lane] = static_cast<uint32_t>(context.frame.get(plane, lane));
        if (bits[lane] != 0) ids[lane] = context.origin(plane, lane) * 0x10001u;
      }
    }
    stmatrix_b16(bits.data(), matrix.transpose, undefined.data());
    stmatrix_b16(ids.data(), matrix.transpose, origin.data());
  }
  return &inst + 1;
}

/// mma (PTX ISA, "Matrix Fragments for mma.m8n8k4" to "m16n8k256"): lane l holds row l / 4 of A (odd registers: eight
/// further down), column l / 4 of B, and columns 2 (l % 4) and the next of row l / 4 of C and D. An undefined element
/// of A spoils its row, one of B its column.
const Inst* track_product(Warp& warp, const Inst& inst) {
  const auto& product = *static_cast<const TrackedProduct*>(inst.extra);
  TrackContext context(warp, inst);
  bool clean = true;
  for (const auto* planes : {&product.a, &product.b, &product.c}) {
    for (const uint32_t plane : *planes) clean = clean && context.clean(plane);
  }
  if (clean) {
    for (const uint32_t plane : product.d) context.define(plane);
    return &inst + 1;
  }
  std::array<OriginId, 16> row{};
  std::array<OriginId, 8> column{};
  const uint64_t mask = low_bits(product.width);
  const auto spoil = [&](const std::vector<uint32_t>& planes, const auto& place) {
    for (size_t i = 0; i < planes.size(); ++i) {
      if (context.clean(planes[i])) continue;
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((context.frame.get(planes[i], lane) & mask) == 0) continue;
        OriginId& id = place(i, lane);
        if (id == 0) id = context.origin(planes[i], lane);
      }
    }
  };
  spoil(product.a,
        [&](size_t i, unsigned lane) -> OriginId& { return row[lane / 4 + (product.tall ? 8 * (i % 2) : 0)]; });
  spoil(product.b, [&](size_t, unsigned lane) -> OriginId& { return column[lane / 4]; });
  for (size_t r = 0; r < product.d.size(); ++r) {
    std::array<uint64_t, kLanes> bits{};
    std::array<OriginId, kLanes> from{};
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const size_t m = lane / 4 + 8 * (product.packed ? r : r / 2);
      const uint64_t old = context.clean(product.c[r]) ? 0 : context.frame.get(product.c[r], lane) & mask;
      if (old != 0) from[lane] = context.origin(product.c[r], lane);
      for (unsigned half = 0; half < (product.packed ? 2u : 1u); ++half) {
        const uint64_t part = product.packed ? 0xffffull << (16 * half) : mask;
        const unsigned n = 2 * (lane % 4) + (product.packed ? half : static_cast<unsigned>(r % 2));
        const OriginId id = row[m] != 0 ? row[m] : column[n];
        if ((old & part) != 0 || id != 0) bits[lane] |= part;
        if (from[lane] == 0) from[lane] = id;
      }
    }
    if (product.d[r] == ptx::kNone) continue;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      context.frame.set(product.d[r], lane, bits[lane], bits[lane] != 0 ? from[lane] : OriginId{0});
    context.frame.define(product.d[r], 0);
  }
  return &inst + 1;
}

const Inst* track_transpose(Warp& warp, const Inst& inst) {
  const auto& planes = *static_cast<const std::array<uint32_t, 2>*>(inst.extra);
  TrackContext context(warp, inst);
  if (context.clean(planes[1])) {
    context.define(planes[0]);
    return &inst + 1;
  }
  alignas(64) std::array<uint32_t, kLanes> bits{}, ids{}, moved{}, moved_ids{};
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    bits[lane] = static_cast<uint32_t>(context.frame.get(planes[1], lane));
    if (bits[lane] != 0) ids[lane] = context.origin(planes[1], lane) * 0x10001u;
  }
  movmatrix_b16(bits.data(), moved.data());
  movmatrix_b16(ids.data(), moved_ids.data());
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const uint32_t id = (moved[lane] & 0xffff) != 0 ? moved_ids[lane] & 0xffff : moved_ids[lane] >> 16;
    context.frame.set(planes[0], lane, moved[lane], moved[lane] != 0 ? static_cast<OriginId>(id) : OriginId{0});
  }
  return &inst + 1;
}

}  // namespace ptxbench::emulator
