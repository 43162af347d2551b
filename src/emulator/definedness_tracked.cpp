#include "emulator/definedness_tracked.h"

#include <algorithm>
#include <cstring>
#include <span>

/// Lane by lane: values, uses, memory.
namespace ptxbench::emulator {

using ptx::Mod;

const Inst* track_flow(Warp& warp, const Inst& inst) {
  const auto& flow = *static_cast<const TrackedFlow*>(inst.extra);
  TrackContext context(warp, inst);
  const bool clean = std::all_of(flow.sources.begin(), flow.sources.end(),
                                 [&](const TrackedSource& source) { return context.clean(source.plane); });
  if (clean) {
    for (const uint32_t plane : flow.results) context.define(plane);
    return &inst + 1;
  }
  std::array<Bits, 16> bits;
  std::array<uint64_t, 16> results{};
  const size_t sources = flow.sources.size(), outputs = flow.results.size();
  for_each_lane(warp.mask, [&](unsigned lane) {
    OriginId from = 0;
    for (size_t s = 0; s < sources; ++s) {
      const TrackedSource& source = flow.sources[s];
      bits[s].value = value_of(warp, source, lane);
      bits[s].undefined =
          source.plane == ptx::kNone ? 0 : context.frame.get(source.plane, lane) & low_bits(source.width);
      if (bits[s].undefined != 0 && from == 0) from = context.origin(source.plane, lane);
    }
    propagate(flow.rule, {bits.data(), sources}, flow.source_widths, {results.data(), outputs}, flow.result_widths);
    // The result's origin is the first source that has one; selp's is that of the side it took.
    if (flow.rule.flow == Flow::select && outputs != 0 && results[0] != 0 && bits[2].undefined == 0) {
      const size_t side = (bits[2].value & 1) != 0 ? 0 : 1;
      from = context.origin(flow.sources[side].plane, lane);
    }
    for (size_t r = 0; r < outputs; ++r) {
      if (flow.results[r] != ptx::kNone)
        context.frame.set(flow.results[r], lane, results[r], results[r] != 0 ? from : 0);
    }
  });
  for (const uint32_t plane : flow.results) {
    if (plane != ptx::kNone) context.frame.define(plane, ~warp.live);
  }
  return &inst + 1;
}

const Inst* track_uses(Warp& warp, const Inst& inst) {
  const auto& uses = *static_cast<const std::vector<TrackedUse>*>(inst.extra);
  TrackContext context(warp, inst);
  for (const TrackedUse& use : uses) {
    if (context.clean(use.plane)) continue;
    uint32_t lanes = 0;
    OriginId from = 0;
    for_each_lane(warp.mask, [&](unsigned lane) {
      if ((context.frame.get(use.plane, lane) & use.bits) == 0) return;
      const OriginId origin = context.origin(use.plane, lane);
      if (from == 0) from = origin;
      if (origin == from) lanes |= 1u << lane;
      // Said once: what follows from it is no news.
      context.frame.set(use.plane, lane, 0, 0);
    });
    if (lanes == 0) continue;
    Agent agent = context.agent;
    agent.lanes = lanes;
    context.definedness.report(use.kind, agent, context.site, from);
  }
  return &inst + 1;
}

namespace {

void collect(std::span<const std::byte> bytes, uint32_t first, uint32_t count, std::span<uint64_t> words) {
  std::fill(words.begin(), words.end(), 0);
  for (uint32_t i = 0; i < count; ++i) {
    words[i / 8] |= std::to_integer<uint64_t>(bytes[first + i]) << (8 * (i % 8));
  }
}

}  // namespace

const Inst* track_load(Warp& warp, const Inst& inst) {
  const auto& access = *static_cast<const TrackedAccess*>(inst.extra);
  TrackContext context(warp, inst);
  const MemoryOp& op = access.memory;
  std::array<std::byte, 32> undefined{};
  bool any = false;
  std::array<std::array<std::byte, 32>, kLanes> all;
  std::array<OriginId, kLanes> origins{};
  for_each_lane(warp.mask, [&](unsigned lane) {
    const Located where = locate(op.space, lane_address(warp, op, lane));
    const auto view = view_of(context.definedness, warp, where, lane, op.bytes);
    const bool some = context.definedness.read(view, op.bytes, undefined.data(), origins[lane],
                                               context.lane_agent(lane), context.site);
    any = any || some;
    all[lane] = undefined;
  });
  for (unsigned e = 0; e < op.elements; ++e) {
    const auto& planes = access.data[e];
    if (planes.empty()) continue;
    if (!any) {
      for (const uint32_t plane : planes) context.define(plane);
      continue;
    }
    for_each_lane(warp.mask, [&](unsigned lane) {
      std::array<uint64_t, 2> words{};
      collect(all[lane], e * op.element_bytes, op.element_bytes, words);
      const unsigned bits = op.element_bytes * 8;
      if (access.sign_extends && bits < 64 && (words[0] >> (bits - 1) & 1) != 0) words[0] |= ~low_bits(bits);
      for (size_t p = 0; p < planes.size(); ++p) {
        const uint64_t cut = words[p] & low_bits(access.widths[e]);
        context.frame.set(planes[p], lane, cut, cut != 0 ? origins[lane] : OriginId{0});
      }
    });
    for (const uint32_t plane : planes) context.frame.define(plane, ~warp.live);
  }
  return &inst + 1;
}

namespace {

/// The undefined bytes that a lane's registers would store.
OriginId gather(TrackContext& context, const TrackedAccess& access, unsigned lane, std::span<std::byte> undefined) {
  OriginId from = 0;
  const MemoryOp& op = access.memory;
  for (unsigned e = 0; e < op.elements; ++e) {
    for (size_t p = 0; p < access.data[e].size(); ++p) {
      const uint32_t plane = access.data[e][p];
      const uint32_t count = std::min<uint32_t>(8, op.element_bytes - static_cast<uint32_t>(8 * p));
      const uint64_t bits = context.clean(plane) ? 0 : context.frame.get(plane, lane) & low_bits(8 * count);
      if (bits != 0 && from == 0) from = context.origin(plane, lane);
      std::memcpy(undefined.data() + e * op.element_bytes + 8 * p, &bits, count);
    }
  }
  return from;
}

}  // namespace

const Inst* track_store(Warp& warp, const Inst& inst) {
  const auto& access = *static_cast<const TrackedAccess*>(inst.extra);
  TrackContext context(warp, inst);
  const MemoryOp& op = access.memory;
  for_each_lane(warp.mask, [&](unsigned lane) {
    std::array<std::byte, 32> undefined{};
    const OriginId from = gather(context, access, lane, undefined);
    const Located where = locate(op.space, lane_address(warp, op, lane));
    context.definedness.write(view_of(context.definedness, warp, where, lane, op.bytes), op.bytes, undefined.data(),
                              from, context.lane_agent(lane), context.site);
  });
  return &inst + 1;
}

/// st.async and red.async: kept until the operation is issued, a few handlers further on.
const Inst* track_remote(Warp& warp, const Inst& inst) {
  const auto& access = *static_cast<const TrackedAccess*>(inst.extra);
  TrackContext context(warp, inst);
  for_each_lane(warp.mask, [&](unsigned lane) {
    WarpDefinedness::Remote& remote = warp.definedness->remote[lane];
    remote = {};
    remote.origin = gather(context, access, lane, remote.undefined);
  });
  return &inst + 1;
}

const Inst* track_atomic(Warp& warp, const Inst& inst) {
  const auto& atomic = *static_cast<const TrackedAtomic*>(inst.extra);
  const TrackedAccess& access = atomic.access;
  TrackContext context(warp, inst);
  const MemoryOp& op = access.memory;
  const uint64_t mask = low_bits(op.element_bytes * 8);
  for_each_lane(warp.mask, [&](unsigned lane) {
    const Located where = locate(op.space, lane_address(warp, op, lane));
    const auto view = view_of(context.definedness, warp, where, lane, op.bytes);
    std::array<std::byte, 32> old{}, fresh{}, given{};
    OriginId from = 0;
    const bool exchange = atomic.what == Mod::exch && access.results.empty();
    if (!exchange) context.definedness.read(view, op.bytes, old.data(), from, context.lane_agent(lane), context.site);
    const OriginId value_from = gather(context, access, lane, given);
    const OriginId old_from = from;
    if (from == 0) from = value_from;
    bool compares_undefined = false;
    for (const TrackedSource& source : access.compare) {
      if (context.clean(source.plane) || (context.frame.get(source.plane, lane) & mask) == 0) continue;
      compares_undefined = true;
      if (from == 0) from = context.origin(source.plane, lane);
    }
    for (unsigned e = 0; e < op.elements; ++e) {
      for (uint32_t p = 0; p < op.element_bytes; p += 8) {
        const uint32_t count = std::min<uint32_t>(8, op.element_bytes - p);
        std::array<uint64_t, 1> was{}, now{};
        collect(old, e * op.element_bytes + p, count, was);
        collect(given, e * op.element_bytes + p, count, now);
        uint64_t result = 0;
        switch (atomic.what) {
          case Mod::exch:
            result = now[0];
            break;
          case Mod::cas:
            result = was[0] != 0 || compares_undefined ? mask : now[0];
            break;
          case Mod::and_:
          case Mod::or_: {
            // A known 0 of and, a known 1 of or decides the bit.
            const uint64_t value = value_of(warp, access.values[e], lane);
            const uint64_t decides = (atomic.what == Mod::and_ ? ~value : value) & ~now[0];
            result = (was[0] & ~decides) | now[0];
            break;
          }
          case Mod::xor_:
            result = was[0] | now[0];
            break;
          case Mod::add:
            if (atomic.integer) {
              result = upwards(was[0] | now[0]) & mask;
              break;
            }
            [[fallthrough]];
          default:
            for (unsigned part = 0; part < (atomic.pairs ? 2u : 1u); ++part) {
              const uint64_t bits = atomic.pairs ? 0xffffull << (16 * part) : mask;
              if (((was[0] | now[0]) & bits) != 0) result |= bits;
            }
        }
        std::memcpy(fresh.data() + e * op.element_bytes + p, &result, count);
      }
    }
    context.definedness.write(view, op.bytes, fresh.data(), from, context.lane_agent(lane), context.site);
    for (unsigned e = 0; e < access.results.size(); ++e) {
      std::array<uint64_t, 2> words{};
      collect(old, e * op.element_bytes, op.element_bytes, words);
      for (size_t p = 0; p < access.results[e].size(); ++p) {
        if (access.results[e][p] != ptx::kNone)
          context.frame.set(access.results[e][p], lane, words[p], words[p] != 0 ? old_from : OriginId{0});
      }
    }
  });
  return &inst + 1;
}

const Inst* track_unknown(Warp& warp, const Inst& inst) {
  const auto& unknown = *static_cast<const TrackedUnknown*>(inst.extra);
  TrackContext context(warp, inst);
  for (const uint32_t plane : unknown.sources) {
    if (context.clean(plane)) continue;
    bool some = false;
    for_each_lane(warp.mask, [&](unsigned lane) { some = some || context.frame.get(plane, lane) != 0; });
    if (some) {
      context.definedness.add_gap("undefined values reached " + unknown.name + ", through which they are not followed");
    }
  }
  for (const uint32_t plane : unknown.results) context.define(plane);
  return &inst + 1;
}

/// Memory that an instruction other than a store writes with known values.
const Inst* track_written(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  TrackContext context(warp, inst);
  for_each_lane(warp.mask, [&](unsigned lane) {
    const Located where = locate(op.space, lane_address(warp, op, lane));
    context.definedness.define(view_of(context.definedness, warp, where, lane, op.bytes), op.bytes, context.agent,
                               context.site);
  });
  return &inst + 1;
}

}  // namespace ptxbench::emulator
