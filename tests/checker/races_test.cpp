// Random small programs under the checker and under a slow reference: a full vector clock for every thread, and every
// access compared with all earlier ones. Both must see the first race at the same event.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <optional>
#include <random>
#include <vector>

#include "checker/checker.h"

namespace ptxbench::checker {
namespace {

using emulator::AccessEvent;
using emulator::Agent;
using emulator::BarrierAction;
using emulator::BarrierEvent;
using emulator::BarrierKind;
using emulator::FenceEvent;
using emulator::MbarrierAction;
using emulator::MbarrierEvent;
using emulator::Scope;
using emulator::Semantics;
using emulator::Space;

constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kWarps = 3, kThreads = kWarps * 32;
constexpr uint64_t kData = 4096, kFlag = 8192, kBarrier = 12288;

/// The obvious implementation. A thread is warp * 32 + lane.
class Reference {
 public:
  using Vector = std::array<uint32_t, kThreads>;
  Reference() {
    for (uint32_t t = 0; t < kThreads; ++t) clocks_[t][t] = 1;
  }

  /// True if the access races with one of an earlier instruction.
  bool access(uint32_t instruction, uint32_t thread, uint64_t address, uint32_t bytes, bool writes, bool strong) {
    bool races = false;
    for (const Access& other : accesses_) {
      if (other.instruction == instruction || other.thread == thread || (!writes && !other.writes) ||
          (strong && other.strong))
        continue;
      if (other.address + other.bytes <= address || address + bytes <= other.address) continue;
      races = races || clocks_[thread][other.thread] < other.time;
    }
    accesses_.push_back({instruction, thread, clocks_[thread][thread], address, bytes, writes, strong});
    return races;
  }
  void publish(uint32_t thread, Vector& to) {
    for (uint32_t t = 0; t < kThreads; ++t) to[t] = std::max(to[t], clocks_[thread][t]);
    ++clocks_[thread][thread];
  }
  void acquire(uint32_t thread, const Vector& from) {
    for (uint32_t t = 0; t < kThreads; ++t) clocks_[thread][t] = std::max(clocks_[thread][t], from[t]);
  }
  const Vector& clock(uint32_t thread) const { return clocks_[thread]; }

 private:
  struct Access {
    uint32_t instruction, thread, time;
    uint64_t address;
    uint32_t bytes;
    bool writes, strong;
  };
  std::array<Vector, kThreads> clocks_{};
  std::vector<Access> accesses_;
};

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed), checker_(options(seed % 2 == 0 ? 2 : 64)) {
    emulator::LaunchEvent launch;
    launch.launch = 1;
    for (uint32_t& size : launch.grid) size = 1;
    for (uint32_t& size : launch.cluster) size = 1;
    launch.block[0] = kThreads;
    launch.block[1] = launch.block[2] = 1;
    checker_.on_launch_begin(launch);
    mbarrier(0, 1, MbarrierAction::init, 1);
    block_barrier(kWarps, 0);
  }

  /// Runs until one of the two sees a race; they must agree.
  void run() {
    for (int step = 0; step < 40; ++step) {
      const size_t before = races();
      const bool expected = act();
      ASSERT_EQ(races() > before, expected) << "step " << step << ":\n" << log_;
      if (expected) return;
    }
  }

 private:
  static CheckerOptions options(size_t crowd) {
    CheckerOptions options;
    options.crowd = crowd;
    return options;
  }
  uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  uint32_t lanes() {
    const uint32_t masks[] = {0xffffffffu, 0xffffffffu, 1, 0xffff, 0xff00, 0x0f0f0f0f, 1u << pick(32)};
    return masks[pick(std::size(masks))];
  }
  size_t races() const { return checker_.findings().size(); }
  Agent agent(uint32_t warp, uint32_t mask) const { return {1, 0, 0, warp, mask}; }
  emulator::Site site() { return {1, ++sites_}; }
  template <class Use>
  static void each(uint32_t warp, uint32_t mask, Use use) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
      use(warp * 32 + static_cast<uint32_t>(std::countr_zero(rest)));
  }
  void note(const std::string& text) { log_ += text + "\n"; }

  bool access(uint32_t warp, uint32_t mask, const std::array<uint64_t, 32>& addresses, uint32_t bytes, bool writes,
              Semantics semantics = Semantics::weak) {
    AccessEvent event;
    event.agent = agent(warp, mask);
    event.site = site();
    event.space = Space::shared;
    event.kind = writes ? emulator::AccessKind::write : emulator::AccessKind::read;
    event.semantics = semantics;
    event.scope = semantics == Semantics::weak ? Scope::none : Scope::cta;
    event.bytes = bytes;
    event.addresses = addresses.data();
    note("warp " + std::to_string(warp) + " mask " + std::to_string(mask) + (writes ? " writes " : " reads ") +
         std::to_string(addresses[static_cast<size_t>(std::countr_zero(mask))]) + " +" + std::to_string(bytes));
    checker_.on_access(event);
    bool expected = false;
    each(warp, mask, [&](uint32_t thread) {
      expected = reference_.access(event.site.instruction, thread, addresses[thread % 32], bytes, writes,
                                   semantics != Semantics::weak) ||
                 expected;
    });
    return expected;
  }

  void barrier_event(BarrierKind kind, BarrierAction action, uint32_t warp, uint32_t mask, uint32_t id,
                     uint64_t generation) {
    BarrierEvent event;
    event.agent = agent(warp, mask);
    event.site = site();
    event.kind = kind;
    event.action = action;
    event.id = id;
    event.generation = generation;
    event.semantics = Semantics::acq_rel;
    checker_.on_barrier(event);
  }

  /// The first `waiting` of the three warps sync, the others only arrive.
  void block_barrier(uint32_t waiting, uint32_t id) {
    note("barrier " + std::to_string(id) + ", waiting: " + std::to_string(waiting));
    const uint64_t generation = generations_[id]++;
    Reference::Vector all{};
    for (uint32_t warp = 0; warp < kWarps; ++warp) {
      barrier_event(BarrierKind::cta, BarrierAction::arrive, warp, kAllLanes, id, generation);
      each(warp, kAllLanes, [&](uint32_t thread) { reference_.publish(thread, all); });
    }
    for (uint32_t warp = 0; warp < waiting; ++warp) {
      barrier_event(BarrierKind::cta, BarrierAction::wait_end, warp, kAllLanes, id, generation + 1);
      each(warp, kAllLanes, [&](uint32_t thread) { reference_.acquire(thread, all); });
    }
  }

  void warp_barrier(uint32_t warp, uint32_t mask) {
    note("warp barrier of " + std::to_string(warp) + " mask " + std::to_string(mask));
    for (const BarrierAction action : {BarrierAction::arrive, BarrierAction::wait_begin, BarrierAction::wait_end})
      barrier_event(BarrierKind::warp, action, warp, mask, 0, 0);
    Reference::Vector all{};
    each(warp, mask, [&](uint32_t thread) { reference_.publish(thread, all); });
    each(warp, mask, [&](uint32_t thread) { reference_.acquire(thread, all); });
  }

  void mbarrier(uint32_t warp, uint32_t mask, MbarrierAction action, uint32_t count, uint64_t phase = 0) {
    MbarrierEvent event;
    event.agent = agent(warp, mask);
    event.site = site();
    event.action = action;
    event.address = kBarrier;
    event.count = count;
    event.phase = phase;
    event.semantics = action == MbarrierAction::arrive ? Semantics::release : Semantics::acquire;
    event.scope = Scope::cta;
    checker_.on_mbarrier(event);
  }

  /// Some lanes of one warp arrive and end the phase, some of another wait for it.
  void hand_over() {
    const uint32_t from = pick(kWarps), to = pick(kWarps), arriving = lanes(), waiting = lanes();
    note("mbarrier from warp " + std::to_string(from) + " mask " + std::to_string(arriving) + " to warp " +
         std::to_string(to) + " mask " + std::to_string(waiting));
    for (uint32_t rest = arriving; rest != 0; rest &= rest - 1)
      mbarrier(from, rest & (0u - rest), MbarrierAction::arrive, 1, phase_);
    // A wait brings what all earlier phases published, not only the last one.
    each(from, arriving, [&](uint32_t thread) { reference_.publish(thread, handed_); });
    ++phase_;
    mbarrier(to, waiting, MbarrierAction::wait_success, 0, phase_);
    each(to, waiting, [&](uint32_t thread) { reference_.acquire(thread, handed_); });
  }

  /// A flag written with release (or after a fence) by one thread and read with acquire (or before a fence) by another.
  bool flag() {
    const uint32_t from = pick(kWarps), to = pick(kWarps), one = 1u << pick(32), other = 1u << pick(32);
    note("flag from warp " + std::to_string(from) + " mask " + std::to_string(one) + " to warp " + std::to_string(to) +
         " mask " + std::to_string(other));
    std::array<uint64_t, 32> addresses{};
    addresses.fill(kFlag);
    const bool by_fences = pick(2) == 0;
    Reference::Vector published{};
    if (by_fences) {
      fence(from, one);
      each(from, one, [&](uint32_t thread) { reference_.publish(thread, published); });
    }
    bool races = access(from, one, addresses, 4, true, by_fences ? Semantics::relaxed : Semantics::release);
    if (!by_fences) each(from, one, [&](uint32_t thread) { reference_.publish(thread, published); });
    races = access(to, other, addresses, 4, false, by_fences ? Semantics::relaxed : Semantics::acquire) || races;
    if (by_fences) fence(to, other);
    each(to, other, [&](uint32_t thread) { reference_.acquire(thread, published); });
    return races;
  }

  void fence(uint32_t warp, uint32_t mask) {
    FenceEvent event;
    event.agent = agent(warp, mask);
    event.site = site();
    event.kind = emulator::FenceKind::thread;
    event.semantics = Semantics::acq_rel;
    event.scope = Scope::cta;
    checker_.on_fence(event);
  }

  bool act() {
    switch (pick(12)) {
      case 0:
        block_barrier(1 + pick(kWarps), pick(2));
        return false;
      case 1:
        warp_barrier(pick(kWarps), lanes());
        return false;
      case 2:
      case 3:
        hand_over();
        return false;
      case 4:
        return flag();
      default:
        break;
    }
    const uint32_t warp = pick(kWarps), mask = lanes();
    const uint32_t bytes = 1u << pick(5);
    std::array<uint64_t, 32> addresses{};
    const uint32_t shape = pick(4), start = pick(24) * bytes;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t at = shape == 0   ? start
                          : shape == 1 ? start + lane * bytes
                          : shape == 2 ? lane / 4 * bytes
                                       : pick(40) * bytes;
      addresses[lane] = kData + at;
    }
    return access(warp, mask, addresses, bytes, pick(3) == 0);
  }

  std::mt19937 random_;
  Checker checker_;
  Reference reference_;
  Reference::Vector handed_{};
  std::array<uint64_t, 2> generations_{};
  uint64_t phase_ = 0;
  uint32_t sites_ = 0;
  std::string log_;
};

TEST(Races, TheCheckerSeesTheFirstRaceWhenTheReferenceDoes) {
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    RandomProgram program(seed);
    program.run();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ptxbench::checker
