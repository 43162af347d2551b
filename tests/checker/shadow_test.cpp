// Shadow memory under random accesses, against a reference that keeps every byte of every lane of every access. What is
// folded away or not compared must never change whether a new access is in conflict.
#include "checker/shadow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

namespace ptxbench::checker {
namespace {

constexpr uint32_t kWarps = 6, kBytes = 128;

/// Two warps in each of three CTAs; CTA 2 is another cluster.
Position position_of(uint32_t warp) { return {warp / 4, warp / 2 % 2}; }

bool both_see(Reach reach, Position a, Position b) {
  if (reach == Reach::gpu) return true;
  if (reach == Reach::none || a.cluster != b.cluster) return false;
  return reach == Reach::cluster || a.cta == b.cta;
}

class Program {
 public:
  Program(uint32_t seed, size_t crowd)
      : random_(seed),
        shadow_(
            ShadowSpace::global, operations_, [](Timeline t) { return position_of(t); },
            [this](const Report&) { reported_ = true; }, crowd) {
    operations_.emplace_back();
    // Some programs mostly read, some mostly use atomics: with plain writes everywhere the first race comes at once.
    mood_ = pick(4);
  }

  void run() {
    for (int step = 0; step < 400; ++step) {
      switch (pick(6)) {
        case 0:
          synchronise();
          break;
        case 1:
          complete();
          break;
        default: {
          reported_ = false;
          const bool expected = access();
          ASSERT_EQ(reported_, expected) << "step " << step;
          if (expected) return;
        }
      }
    }
  }
  int accesses() const { return made_; }

 private:
  /// One lane on one byte.
  struct Touch {
    uint32_t warp, lane, byte;
    Time time;
    uint32_t operation;
    AccessKind kind;
    Reach reach;
    uint8_t unit;
  };

  uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  void synchronise() {
    const uint32_t from = pick(kWarps), to = pick(kWarps);
    const uint32_t lanes = pick(3) == 0 ? 1u << pick(32) : kAllLanes;
    Clock news = seen_[from].seen;
    news.advance(from, lanes, now_[from]++);
    seen_[to].seen.join(news);
  }

  void complete() {
    if (operations_.size() == 1) return;
    Operation& operation = operations_[1 + pick(static_cast<uint32_t>(operations_.size()) - 1)];
    if (operation.reads_at == Operation::kPending) operation.reads_at = operation.writes_at = ++completions_;
    // Who waits knows all that is complete on the timeline.
    seen_[pick(kWarps)].seen.advance(kCompletions, kAllLanes, completions_);
  }

  bool ordered(const Touch& earlier, const Access& later, uint32_t lane) {
    const Clock& seen = seen_[later.timeline].seen;
    if (earlier.operation != 0) {
      const Time at = operations_[earlier.operation].reads_at;
      return at != Operation::kPending && seen.covers(kCompletions, kAllLanes, at);
    }
    if (later.operation == 0 && earlier.warp == later.timeline && earlier.lane == lane) return true;
    return seen.covers(earlier.warp, 1u << earlier.lane, earlier.time);
  }

  bool access() {
    ++made_;
    Access access;
    access.timeline = pick(kWarps);
    access.time = now_[access.timeline]++;
    const Position here = position_of(access.timeline);
    uint32_t bytes = 1u << pick(4), first_lane = pick(8), count = 1 + pick(8);
    const bool plain = pick(8) == 0;
    access.kind = plain && pick(2) == 0 ? AccessKind::write : AccessKind::read;
    if (!plain && mood_ == 1) {
      access.kind = pick(3) != 0 ? AccessKind::atomic : AccessKind::read;
      access.reach = static_cast<Reach>(pick(12) == 0 ? 1 + pick(3) : 3);
      if (pick(20) != 0) bytes = 4;
    }
    if (!plain && mood_ >= 2 && pick(2) == 0) {
      access.kind = mood_ == 2 ? AccessKind::read : AccessKind::reduce;
      access.proxy = ProxyKind::async;
      Operation operation;
      operation.reads_on = operation.writes_on = kCompletions;
      operations_.push_back(operation);
      access.operation = static_cast<uint32_t>(operations_.size() - 1);
      access.lanes = 1;
      count = 1;
      // Copies read and write whole sectors, and parts of some.
      if (pick(3) != 0) bytes = 16u << pick(3);
      if (mood_ == 2 && pick(6) == 0) access.kind = AccessKind::write;
    }
    access.unit = static_cast<uint8_t>(bytes);
    const uint32_t begin = pick(kBytes / bytes) * bytes;
    uint32_t length = std::min(bytes * count, kBytes - begin);
    if (access.operation == 0 && count > 1) {
      access.first_lane = static_cast<int8_t>(first_lane);
      access.lane_shift = static_cast<uint8_t>(std::countr_zero(bytes));
    } else {
      length = bytes;
      if (access.operation == 0) access.lanes = pick(2) == 0 ? 1u << pick(32) : kAllLanes;
    }
    const size_t before = touches_.size();
    for (uint32_t byte = begin; byte < begin + length; ++byte) {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const bool takes_part = access.lane_shift == Access::kEveryLane ? (access.lanes >> lane & 1) != 0
                                                                        : lane == first_lane + (byte - begin) / bytes;
        if (takes_part)
          touches_.push_back(
              {access.timeline, lane, byte, access.time, access.operation, access.kind, access.reach, access.unit});
      }
    }
    bool conflict = false;
    for (size_t i = 0; i < before && !conflict; ++i) {
      const Touch& earlier = touches_[i];
      for (size_t j = before; j < touches_.size() && !conflict; ++j) {
        const Touch& own = touches_[j];
        if (earlier.byte != own.byte) continue;
        const bool reads = earlier.kind == AccessKind::read && own.kind == AccessKind::read;
        const bool reductions = earlier.kind == AccessKind::reduce && own.kind == AccessKind::reduce;
        if (reads || reductions) continue;
        const Position there = position_of(earlier.warp);
        // A generic write before an operation wants a proxy fence, which nobody here makes.
        const bool unfenced = own.operation != 0 && earlier.operation == 0 && earlier.kind != AccessKind::read;
        if (ordered(earlier, access, own.lane)) {
          conflict = unfenced;
          continue;
        }
        const bool strong = earlier.operation == 0 && own.operation == 0 && earlier.unit == own.unit &&
                            both_see(earlier.reach, there, here) && both_see(own.reach, here, there);
        conflict = !strong;
      }
    }
    Context context;
    context.knowledge = &seen_[access.timeline];
    context.position = here;
    shadow_.touch(context, access, begin, length);
    return conflict;
  }

  static constexpr Timeline kCompletions = 100;
  std::mt19937 random_;
  uint32_t mood_ = 0;
  std::vector<Operation> operations_;
  bool reported_ = false;
  Shadow shadow_;
  Knowledge seen_[kWarps];
  Time now_[kWarps] = {1, 1, 1, 1, 1, 1};
  Time completions_ = 0;
  std::vector<Touch> touches_;
  int made_ = 0;
};

TEST(Shadow, ForgetsNothingThatMatters) {
  int accesses = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Program program(seed, seed % 3 == 0 ? 64 : 1 + seed % 4);
    program.run();
    accesses += program.accesses();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_GT(accesses, 25000);  // else the first races come too early to say anything of crowds
}

/// Reads `address` from `readers` warps that nothing orders, `times` each.
void read(Shadow& shadow, uint32_t readers, int times, const Knowledge* knowledge) {
  for (Time time = 1; time <= static_cast<Time>(times); ++time) {
    for (uint32_t warp = 1; warp <= readers; ++warp) {
      Access access;
      access.timeline = warp;
      access.time = time;
      access.lanes = 1;
      shadow.touch({knowledge, {warp, 0}}, access, 4096, 4);
    }
  }
}

TEST(Shadow, TheOldestOfThousandsOfReadersIsNotForgotten) {
  for (const bool waits : {true, false}) {
    const std::vector<Operation> operations(1);
    int reports = 0;
    Shadow shadow(
        ShadowSpace::global, operations,
        [](Timeline t) {
          return Position{t, 0};
        },
        [&](const Report& report) {
          ++reports;
          EXPECT_EQ(report.earlier.timeline, 1u);
        });
    Knowledge nothing, all;
    read(shadow, 20000, 1, &nothing);
    for (uint32_t warp = waits ? 1 : 2; warp <= 20000; ++warp) all.seen.advance(warp, kAllLanes, 1);
    Access write;
    write.kind = AccessKind::write;
    write.timeline = 30000;
    write.time = 1;
    write.lanes = 1;
    shadow.touch({&all, {30000, 0}}, write, 4096, 4);
    EXPECT_EQ(reports, waits ? 0 : 1);
  }
}

TEST(Shadow, RepeatedReadsTakeNoMemory) {
  const std::vector<Operation> operations(1);
  Knowledge nothing;
  for (const ShadowSpace space : {ShadowSpace::shared, ShadowSpace::global}) {
    size_t memory[2];
    for (const int times : {1000, 10000}) {
      Shadow shadow(
          space, operations,
          [](Timeline t) {
            return Position{t, 0};
          },
          [](const Report&) { ADD_FAILURE() << "reads do not race"; });
      read(shadow, 50, times, &nothing);
      memory[times == 1000 ? 0 : 1] = shadow.memory();
    }
    EXPECT_EQ(memory[0], memory[1]);
    EXPECT_LT(memory[0], 20000u);
  }
}

/// What was read and written is all that a visit finds, whatever was folded away, logged or kept for whole sectors.
TEST(Shadow, VisitsWhatWasTouched) {
  constexpr uint64_t kBase = (uint64_t{1} << 40) - 4096, kSize = 8192;  // across two regions of logged reads
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    std::vector<Operation> operations(1);
    Shadow shadow(
        ShadowSpace::global, operations, [](Timeline) { return Position{}; }, [](const Report&) {});
    std::vector<bool> read(kSize), written(kSize);
    Knowledge knowledge;
    // Where there are only reads they may be logged; the first region has 4 KiB.
    const uint32_t written_part = seed % 3 == 0 ? kSize : seed % 3 == 1 ? 4096 : 0;
    for (Time now = 1; now < 120; ++now) {
      Access access;
      access.timeline = 1;
      access.time = now;
      access.lanes = kAllLanes;
      access.kind = written_part != 0 && pick(3) == 0 ? AccessKind::write : AccessKind::read;
      const bool writes = access.writes();
      const auto mark = [&](uint64_t at, uint32_t bytes) {
        for (uint64_t b = at; b < at + bytes; ++b) (writes ? written : read)[b] = true;
      };
      const uint32_t limit = writes ? written_part : kSize;
      if (pick(2) == 0) {
        const uint32_t bytes = 1u << pick(4), lanes = 1 + pick(32);
        const uint32_t at = pick((limit - 512) / bytes) * bytes;
        access.lane_shift = static_cast<uint8_t>(std::countr_zero(bytes));
        access.first_lane = 0;
        shadow.touch({&knowledge, {}}, access, kBase + at, bytes * lanes);
        mark(at, bytes * lanes);
      } else {
        std::vector<emulator::ByteRange> rows;
        const uint32_t width = 32 * (1 + pick(3)), pitch = 128, count = 1 + pick(5),
                       at = pick((limit - 1024) / 32) * 32;
        for (uint32_t row = 0; row < count; ++row) {
          rows.push_back({kBase + at + uint64_t{row} * pitch, width});
          mark(at + row * pitch, width);
        }
        shadow.touch({&knowledge, {}}, access, rows);
      }
      if (pick(2) == 0) knowledge.seen.advance(1, kAllLanes, now);
    }
    for (int i = 0; i < 60; ++i) {
      const uint32_t from = pick(kSize - 1), bytes = 1 + pick(i % 2 == 0 ? 16 : kSize - from);
      for (const bool reads : {false, true}) {
        std::vector<bool> found(kSize), expected(kSize);
        for (uint64_t b = from; b < std::min<uint64_t>(kSize, from + bytes); ++b)
          expected[b] = written[b] || (reads && read[b]);
        shadow.visit(kBase + from, bytes, reads, [&](const Access& access, uint32_t mask, uint64_t sector) {
          EXPECT_TRUE(reads || access.writes());
          for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
            found[sector + static_cast<uint64_t>(std::countr_zero(rest)) - kBase] = true;
        });
        ASSERT_EQ(found, expected) << "seed " << seed << " from " << from << " bytes " << bytes << " reads " << reads;
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::checker
