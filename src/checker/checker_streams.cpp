#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "checker/checker_state.h"

/// Kernels, copies and fills that overlap on a GPU: other streams without an event in between, and programmatic
/// dependent launches before griddepcontrol.wait. The emulator runs one after the other, so what an earlier one did is
/// known when a later one is compared with it.
namespace ptxbench::checker {

namespace {

// Earlier work is kept for what may still overlap it. What the latest work comes after is dropped first.
constexpr size_t kMaxOrdered = 128, kMaxUnordered = 256;
constexpr const char* kReadsUnknown =
    "work on another stream may overlap a kernel of which only the writes are known (race.stream)";
constexpr size_t kOrderedShare = 16, kUnorderedShare = 4;  ///< parts of the bound on shadow memory

constexpr const char* kHandOverUnknown =
    "a kernel that may overlap another one is handed data by it, of which not enough is known to tell what comes "
    "before "
    "(race.stream)";
constexpr const char* kRowsUnknown =
    "a copy of very many rows may overlap other work on the memory that they lie in: they were not compared "
    "(race.stream)";

using Range = emulator::StreamCopyEvent::Range;

/// Where a range of bytes meets others, which are disjoint and sorted.
std::optional<uint64_t> meeting(uint64_t address, uint64_t bytes, const std::vector<Range>& ranges) {
  auto range = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](uint64_t at, const Range& one) { return at < one.address + one.bytes; });
  if (range == ranges.end() || range->address >= address + bytes) return std::nullopt;
  return std::max(address, range->address);
}

}  // namespace

bool Checker::State::comes_after(const emulator::StreamOrder& order, const EarlierWork& work) const {
  if (order.process != work.process || order.after(work.stream, work.position)) return true;
  // A chain of dependent launches: each begins when all CTAs of the one before have triggered or ended.
  return order.programmatic && order.stream == work.stream &&
         std::any_of(earlier_.begin(), earlier_.end(), [&](const EarlierWork& between) {
           return between.waited && between.process == order.process && between.stream == order.stream &&
                  between.position > work.position && between.position < order.position;
         });
}

void Checker::State::meet_earlier(const emulator::StreamOrder* order) {
  order_.reset();
  if (order != nullptr) order_ = *order;
  if (order != nullptr && !order->known) {
    unknown.insert("there are too many streams to keep their order: races between them are not looked for");
  }
  const bool alone = order == nullptr || !order->known || (!earlier_.empty() && earlier_[0].process != order->process);
  if (alone) {
    earlier_.clear();
    forgotten_.clear();
    earlier_bytes_ = 0;
    return;
  }
  const auto too_much = [&](size_t count, size_t share) {
    return earlier_.size() > count || earlier_bytes_ > options_.shadow_bytes / share;
  };
  const auto drop_while = [&](size_t count, size_t share, bool all) {
    for (auto it = earlier_.begin(); it != earlier_.end() && too_much(count, share);) {
      if (!all && !comes_after(*order, *it)) {
        ++it;
        continue;
      }
      uint64_t& latest = forgotten_[it->stream];
      latest = std::max(latest, it->position);
      earlier_bytes_ -= it->bytes;
      it = earlier_.erase(it);
    }
  };
  drop_while(kMaxOrdered, kOrderedShare, false);
  drop_while(kMaxUnordered, kUnorderedShare, true);
  for (const auto& [stream, position] : forgotten_) {
    if (order->after(stream, position) || (order->programmatic && stream == order->stream)) continue;
    unknown.insert("too much work was in flight on other streams: the oldest was not compared (race.stream)");
  }
}

void Checker::State::begin_overlaps() {
  overlaps_.clear();
  triggered_ = proved_ = false;
  proved_writes_.clear();
  held_ctas_.clear();
  early_ctas_.clear();
  waits_ = new_timeline({});
  if (!order_) return;
  for (EarlierWork& work : earlier_) {
    if (comes_after(*order_, work)) continue;
    const bool until_wait = order_->programmatic && work.stream == order_->stream;
    if (work.proved && !until_wait) unknown.insert(kReadsUnknown);
    // The parts that several workers saw are one piece of work.
    const bool part = !overlaps_.empty() && overlaps_.back().work->stream == work.stream &&
                      overlaps_.back().work->position == work.position;
    overlaps_.push_back({&work, part ? overlaps_.back().timeline : new_timeline({}), until_wait, {}, 0});
  }
}

void Checker::State::keep_earlier(EarlierWork work, const emulator::StreamOrder* order) {
  if (order == nullptr || !order->known) return;
  work.order = *order;
  work.process = order->process;
  work.stream = order->stream;
  work.position = order->position;
  work.bytes = work.memory();
  earlier_bytes_ += work.bytes;
  earlier_.push_back(std::move(work));
}

void Checker::State::keep_proved(std::span<const emulator::ByteRange> written) {
  proved_ = true;
  if (!order_) return;
  std::vector<Range> ranges;
  ranges.reserve(written.size());
  for (const emulator::ByteRange& range : written) ranges.push_back({range.address, range.bytes});
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.address < b.address; });
  for (const Range& range : ranges) {
    if (proved_writes_.empty() || proved_writes_.back().address + proved_writes_.back().bytes < range.address) {
      proved_writes_.push_back(range);
      continue;
    }
    Range& last = proved_writes_.back();
    last.bytes = std::max(last.address + last.bytes, range.address + range.bytes) - last.address;
  }
}

void Checker::State::grid_dependency(const emulator::BarrierEvent& event, WarpThreads& warp) {
  const std::pair<uint32_t, uint32_t> cta{event.agent.cluster, event.agent.cta_rank};
  if (event.action == BarrierAction::arrive) {
    triggered_ = true;
    // One thread's trigger is the CTA's: which of two warps comes first is chance unless one knows of the other.
    warp.for_each_context(event.agent.lanes, [&](uint32_t, const Knowledge& knowledge) {
      (knowledge.seen.covers(waits_, kAllLanes, 1) ? held_ctas_ : early_ctas_).insert(cta);
    });
    return;
  }
  // PTX ISA, griddepcontrol: all prerequisite grids have completed and their memory operations are visible to the grid.
  // A CTA that never triggers lets dependents go when it ends, after its waits.
  held_ctas_.insert(cta);
  warp.advance(event.agent.lanes, waits_, 1);
  for (const Overlap& overlap : overlaps_) {
    if (overlap.until_wait) warp.advance(event.agent.lanes, overlap.timeline, 1);
  }
}

bool Checker::State::waited_before_triggers() const {
  // Dependents begin when all CTAs have triggered or ended: one that held them back is enough.
  return std::any_of(held_ctas_.begin(), held_ctas_.end(), [&](const auto& cta) { return !early_ctas_.contains(cta); });
}

bool Checker::State::needs_watching() const { return unknown.contains(kReadsUnknown); }

void Checker::State::keep_releases(EarlierWork& work) const {
  for (const Overlap& overlap : overlaps_) {
    if (overlap.handed_over.empty()) continue;
    const auto add = [&](const emulator::StreamOrder& from) {
      const bool known = std::any_of(work.received_from.begin(), work.received_from.end(), [&](const auto& one) {
        return one.stream == from.stream && one.position == from.position;
      });
      if (!known) work.received_from.push_back(from);
    };
    add(overlap.work->order);
    for (const emulator::StreamOrder& from : overlap.work->received_from) add(from);
  }
  for (const auto& [address, releases] : locations_) {
    for (const Release& release : releases) {
      // Threads of another kernel are reached by the widest scopes only.
      if (release.reach == Reach::gpu) work.releases[address].join(release.knowledge.seen);
    }
  }
}

void Checker::State::acquire_from_overlaps(const emulator::AccessEvent& event, WarpThreads& warp) {
  // Kernels may run at the same time and hand over by release and acquire, as the threads of one kernel do.
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1) {
    const uint32_t lane = rest & (0u - rest);
    const uint64_t address = event.addresses[std::countr_zero(rest)];
    // What fences make effective later is known at once to who acquires.
    const auto learn = [&](Timeline timeline) {
      warp.for_each_class(lane, [&](LaneClass& one) {
        if (!acquires(event.semantics) && !one.observed) one.observed.emplace();
        (acquires(event.semantics) ? one.knowledge : *one.observed).seen.advance(timeline, kAllLanes, 1);
      });
    };
    // The latest write is what is read, unless it is a read-modify-write operation: those continue earlier releases.
    bool hidden = false;
    for (auto overlap = overlaps_.rbegin(); overlap != overlaps_.rend() && !hidden; ++overlap) {
      const EarlierWork& work = *overlap->work;
      if (meeting(address, event.bytes, work.writes)) {
        // The order of a kernel that was not watched is not known, nor whether it released anything.
        if (work.proved) {
          unknown.insert(kReadsUnknown);
          learn(overlap->timeline);
        }
        hidden = true;
      }
      if (work.global == nullptr) continue;
      if (work.releases.contains(address)) {
        auto known = std::find_if(overlap->handed_over.begin(), overlap->handed_over.end(),
                                  [&](const auto& one) { return one.first == address; });
        if (known == overlap->handed_over.end())
          known = overlap->handed_over.insert(known, {address, new_timeline({})});
        learn(known->second);
        // All of that kernel comes after what precedes it on its stream.
        for (Overlap& before : overlaps_) {
          const uint64_t stream = before.work->stream, position = before.work->position;
          if (work.order.after(stream, position)) learn(before.timeline);
          const bool chained = std::any_of(work.received_from.begin(), work.received_from.end(), [&](const auto& from) {
            return (from.stream == stream && position <= from.position) || from.after(stream, position);
          });
          if (!chained) continue;
          if (before.chained == 0) before.chained = new_timeline({});
          learn(before.chained);
        }
      }
      work.global->visit(address, event.bytes, false, [&](const Access& access, uint32_t, uint64_t) {
        hidden = hidden || access.kind == AccessKind::write;
      });
    }
  }
}

bool Checker::State::may_be_chained(const Overlap& overlap, const Knowledge& knowledge) {
  if (overlap.chained == 0 || !knowledge.seen.covers(overlap.chained, kAllLanes, 1)) return false;
  unknown.insert(kHandOverUnknown);
  return true;
}

bool Checker::State::handed_over(const Overlap& overlap, const Knowledge& knowledge, const Access& earlier,
                                 uint32_t bytes) {
  for (const auto& [address, timeline] : overlap.handed_over) {
    if (!knowledge.seen.covers(timeline, kAllLanes, 1)) continue;
    if (earlier.operation != 0) {
      // Who had waited for the operation when the kernel released is not kept.
      unknown.insert(kHandOverUnknown);
      return true;
    }
    if (overlap.work->releases.at(address).covers(earlier.timeline, earlier.lanes_of(bytes), earlier.time)) return true;
  }
  return may_be_chained(overlap, knowledge);
}

void Checker::State::compare_with_overlaps(const Context& context, const Access& access, uint32_t lanes,
                                           uint64_t address, uint32_t bytes) {
  for (const Overlap& overlap : overlaps_) {
    if (context.knowledge->seen.covers(overlap.timeline, kAllLanes, 1)) continue;
    EarlierWork& work = *overlap.work;
    for (const bool wrote : {true, false}) {
      if (!wrote && !access.writes()) continue;
      if (const auto at = meeting(address, bytes, wrote ? work.writes : work.reads)) {
        if (work.parts_only) {
          unknown.insert(kRowsUnknown);
        } else if (!may_be_chained(overlap, *context.knowledge)) {
          report_overlap(overlap, nullptr, access, lanes, *at, 1);
        }
      }
    }
    if (work.global == nullptr) continue;
    bool found = false;
    work.global->visit(address, bytes, access.writes(), [&](const Access& earlier, uint32_t common, uint64_t sector) {
      if (found || (!earlier.writes() && !access.writes())) return;
      if (earlier.proxy == ProxyKind::tensor_map) return;
      if (earlier.reach == Reach::gpu && access.reach == Reach::gpu) return;
      const bool reductions = earlier.kind == AccessKind::reduce && access.kind == AccessKind::reduce;
      if (reductions) return;
      const auto first = static_cast<unsigned>(std::countr_zero(common));
      // The block of the parameters may be handed out again.
      if (sector + first - work.parameters.address < work.parameters.bytes) return;
      if (handed_over(overlap, *context.knowledge, earlier, common)) return;
      found = true;
      report_overlap(overlap, &earlier, access, lanes, sector + first,
                     static_cast<uint32_t>(std::countr_one(common >> first)));
    });
  }
}

void Checker::State::report_overlap(const Overlap& overlap, const Access* earlier, const Access& later, uint32_t lanes,
                                    uint64_t address, uint32_t bytes) {
  const EarlierWork& work = *overlap.work;
  const Place& here = timeline_places_[later.timeline];
  Agent agent;
  agent.cluster = here.position.cluster;
  agent.cta_rank = here.position.cta;
  agent.warp = here.warp;
  agent.lanes = lanes;
  const bool equal =
      later.unchanged && later.kind == AccessKind::write && (earlier == nullptr || earlier->kind == AccessKind::write);
  Finding found =
      finding(equal                ? "race.equal-writes"
              : overlap.until_wait ? "race.dependent-launch"
                                   : "race.stream",
              equal ? Severity::note : Severity::error, agent, sites_[later.site], Space::global, address, bytes);
  found.party.what = describe(later);
  if (earlier != nullptr) {
    const Place& there = work.places[earlier->timeline];
    std::string what = earlier->kind == AccessKind::read    ? "reads"
                       : earlier->kind == AccessKind::write ? "writes"
                                                            : "updates";
    if (earlier->operation != 0) what = fmt::format("{} {}", name_of(work.infos[earlier->operation].kind), what);
    found.other = Party{site_of(work, *earlier),
                        fmt::format("{} in an earlier launch", what),
                        there.position.cluster,
                        there.position.cta,
                        there.warp,
                        earlier->lanes};
  }
  if (overlap.until_wait) {
    found.message =
        "memory of the kernel before it in the stream is used, and no griddepcontrol.wait comes first: a programmatic "
        "dependent launch may begin before that kernel has ended and its writes are visible";
    found.fix =
        "griddepcontrol.wait (cudaGridDependencySynchronize) before the first use, and a barrier if another thread "
        "executes it";
    // A kernel that never lets its dependents go holds them up to its end; only its writes' visibility is in doubt.
    if (!work.triggered) {
      found.message += "; here that kernel never executes griddepcontrol.launch_dependents";
      if (!equal) found.severity = options_.pedantic ? Severity::warning : Severity::note;
    }
  } else {
    found.message = earlier != nullptr
                        ? fmt::format(
                              "kernels on streams {} and {} touch the same bytes, one of them writes, and "
                              "no event, synchronisation or stream orders them",
                              work.stream, order_->stream)
                        : fmt::format(
                              "{} on stream {} and this kernel on stream {} touch the same bytes, one of them "
                              "writes, and nothing orders them",
                              work.what, work.stream, order_->stream);
    found.fix = "cudaEventRecord after the first and cudaStreamWaitEvent before the second, or one stream for both";
  }
  if (equal) found.message += " (with the same value)";
  add(std::move(found));
}

void Checker::State::stream_copy(const emulator::StreamCopyEvent& event) {
  meet_earlier(event.order);
  if (!order_ || !order_->known) return;
  const emulator::StreamOrder order = *order_;
  for (EarlierWork& work : earlier_) {
    if (comes_after(order, work)) continue;
    if (work.proved && !event.writes.empty()) unknown.insert(kReadsUnknown);
    bool reported = false;
    const auto report = [&](const Access* earlier, uint64_t address, uint32_t bytes) {
      if (std::exchange(reported, true)) return;
      if (event.parts_only || work.parts_only) {
        unknown.insert(kRowsUnknown);
        return;
      }
      Agent agent;
      Finding found = finding("race.stream", Severity::error, agent,
                              earlier != nullptr ? site_of(work, *earlier) : Site{}, Space::global, address, bytes);
      if (earlier != nullptr) {
        const Place& there = work.places[earlier->timeline];
        found.party.cluster = there.position.cluster;
        found.party.cta_rank = there.position.cta;
        found.party.warp = there.warp;
        found.party.lanes = earlier->lanes;
        found.party.what = earlier->writes() ? "writes" : "reads";
        found.launch = work.launch;
      }
      found.message = fmt::format(
          "{} on stream {} and {} on stream {} touch the same bytes, one of them writes, and "
          "nothing orders them",
          event.what, order.stream, earlier != nullptr ? "this kernel" : work.what, work.stream);
      found.fix = "cudaStreamSynchronize or an event between them, or one stream for both";
      add(std::move(found));
    };
    for (const bool writes : {false, true}) {
      for (const auto& range : writes ? event.writes : event.reads) {
        if (range.bytes == 0) continue;
        for (const bool wrote : {true, false}) {
          if (!wrote && !writes) continue;
          if (const auto at = meeting(range.address, range.bytes, wrote ? work.writes : work.reads))
            report(nullptr, *at, 1);
        }
        if (work.global == nullptr) continue;
        work.global->visit(range.address, range.bytes, writes,
                           [&](const Access& earlier, uint32_t common, uint64_t sector) {
                             if (reported || (!earlier.writes() && !writes) || earlier.proxy == ProxyKind::tensor_map)
                               return;
                             const auto first = static_cast<unsigned>(std::countr_zero(common));
                             if (sector + first - work.parameters.address < work.parameters.bytes) return;
                             report(&earlier, sector + first, static_cast<uint32_t>(std::countr_one(common >> first)));
                           });
      }
    }
  }
  EarlierWork work;
  work.what = event.what;
  work.parts_only = event.parts_only;
  work.reads.assign(event.reads.begin(), event.reads.end());
  work.writes.assign(event.writes.begin(), event.writes.end());
  keep_earlier(std::move(work), &order);
}

}  // namespace ptxbench::checker
