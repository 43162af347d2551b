#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/definedness_parts.h"
#include "emulator/isa/engine.h"
#include "emulator/undefined_bits.h"

/// DefinednessMode::track: what is added for an instruction, and the handlers that do it. A plane is a register's place
/// in FrameDefinedness.
namespace ptxbench::emulator {

struct TrackedSource {
  uint32_t plane = ptx::kNone;  ///< kNone: always defined
  uint8_t width = 64;
  bool inverted = false;
  bool has_value = false;
  ValueOperand value;
};

/// The data flow of one instruction.
struct TrackedFlow {
  FlowRule rule;
  std::vector<TrackedSource> sources;
  std::vector<uint8_t> source_widths, result_widths;
  std::vector<uint32_t> results;  ///< planes, kNone for the sink
};

struct TrackedUse {
  UndefinedUse kind{};
  uint32_t plane = 0;
  uint64_t bits = ~0ull;  ///< that matter
};

struct TrackedAccess {
  MemoryOp memory;
  std::vector<std::vector<uint32_t>> data;  ///< per element one plane, or two of 128 bits; kNone: constant or sink
  std::vector<uint8_t> widths;              ///< of each element's register
  std::vector<TrackedSource> compare;       ///< atom.cas
  std::vector<std::vector<uint32_t>> results;
  std::vector<TrackedSource> values;  ///< atom: operands with their values
  bool sign_extends = false;
};

/// PTX ISA "atom", "red". Lanes act one after another, as their handler does it.
struct TrackedAtomic {
  TrackedAccess access;
  ptx::Mod what = ptx::Mod::none;
  bool integer = false, pairs = false;
};

struct TrackedGroup {
  ptx::Op op{};
  ptx::Mod mode = ptx::Mod::none;
  TrackedSource source;                 ///< shfl, match, redux: the value; vote: the predicate
  ValueOperand second, third, members;  ///< shfl: b, c
  bool has_second = false, has_members = false;
  uint32_t result = ptx::kNone, predicate = ptx::kNone;
  uint8_t width = 32;
};

struct TrackedMatrix {
  MemoryOp address;
  unsigned count = 1;
  bool transpose = false, load = true;
  std::array<uint32_t, 4> planes{};
};

struct TrackedProduct {
  std::vector<uint32_t> d, a, b, c;  ///< planes
  bool packed = false;               ///< f16 accumulators, two in a register
  bool tall = true;                  ///< m16: odd registers hold the lower eight rows
  uint8_t width = 32;
};

/// An instruction whose data flow is not modelled: results count as defined, and the answer as incomplete if a source
/// was not.
struct TrackedUnknown {
  std::vector<uint32_t> sources, results;
  std::string name;
};

// Each takes one of the descriptions above as Inst::extra.
const Inst* track_flow(Warp& warp, const Inst& inst);     ///< TrackedFlow
const Inst* track_uses(Warp& warp, const Inst& inst);     ///< std::vector<TrackedUse>
const Inst* track_load(Warp& warp, const Inst& inst);     ///< TrackedAccess
const Inst* track_store(Warp& warp, const Inst& inst);    ///< TrackedAccess
const Inst* track_remote(Warp& warp, const Inst& inst);   ///< TrackedAccess; st.async and red.async, until their issue
const Inst* track_atomic(Warp& warp, const Inst& inst);   ///< TrackedAtomic
const Inst* track_written(Warp& warp, const Inst& inst);  ///< MemoryOp: written with known values
const Inst* track_unknown(Warp& warp, const Inst& inst);  ///< TrackedUnknown
// Instructions of whole warps: operands are saved when a lane arrives, results follow once all have.
const Inst* save_operands(Warp& warp, const Inst& inst);    ///< TrackedGroup
const Inst* track_group(Warp& warp, const Inst& inst);      ///< TrackedGroup
const Inst* save_rows(Warp& warp, const Inst& inst);        ///< TrackedMatrix
const Inst* track_matrix(Warp& warp, const Inst& inst);     ///< TrackedMatrix
const Inst* track_transpose(Warp& warp, const Inst& inst);  ///< std::array<uint32_t, 2>: planes of d, a
const Inst* track_product(Warp& warp, const Inst& inst);    ///< TrackedProduct

/// What a handler works with.
struct TrackContext {
  Warp& warp;
  const Inst& inst;
  Definedness& definedness;
  FrameDefinedness& frame;
  Agent agent;
  Site site;
  TrackContext(Warp& w, const Inst& i)
      : warp(w),
        inst(i),
        definedness(*w.cluster->launch->definedness),
        frame(definedness.frame_of(w)),
        agent(agent_of(w, w.mask)),
        site(site_of(w, i)) {}
  /// Lanes that do not exist need no definition.
  uint32_t whole_mask() const { return warp.mask | ~warp.live; }
  Agent lane_agent(unsigned lane) const {
    Agent one = agent;
    one.lanes = 1u << lane;
    return one;
  }
  /// Origin of a register's undefined bits; a register nobody wrote gets this instruction as its origin.
  OriginId origin(uint32_t plane, unsigned lane) const {
    frame.spread(plane);
    OriginId& id = frame.origin[size_t{plane} * kLanes + lane];
    if (id == 0) id = definedness.new_origin({site, lane_agent(lane), true, Space::registers, plane, 0});
    return id;
  }
  bool clean(uint32_t plane) const { return plane == ptx::kNone || frame.state[plane] == FrameDefinedness::defined; }
  void define(uint32_t plane) const {
    if (plane != ptx::kNone) frame.define(plane, whole_mask());
  }
};
/// A source's value in a lane; 0 if it is not needed.
inline uint64_t value_of(Warp& warp, const TrackedSource& source, unsigned lane) {
  if (!source.has_value) return 0;
  const uint64_t value = source.value.get(warp, lane);
  return source.inverted ? value ^ 1 : value;
}

}  // namespace ptxbench::emulator
