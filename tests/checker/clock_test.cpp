// Clocks against plain arrays.
#include "checker/clock.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

namespace ptxbench::checker {
namespace {

using Lanes = std::array<Time, 32>;

TEST(Seen, IsAnArrayOfThirtyTwoTimes) {
  std::mt19937 generator(1);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  for (int round = 0; round < 2000; ++round) {
    Seen seen[2];
    Lanes plain[2]{};
    for (int step = 0; step < 12; ++step) {
      const unsigned which = random() % 2;
      if (random() % 4 == 0) {
        const Lanes before = plain[which];
        for (unsigned lane = 0; lane < 32; ++lane)
          plain[which][lane] = std::max(plain[which][lane], plain[1 - which][lane]);
        EXPECT_EQ(seen[which].join(seen[1 - which]), before != plain[which]);
      } else {
        // Few different masks and times, so that they meet.
        const uint32_t masks[] = {kAllLanes, 1, 0xffff, 0xffff0000u, 0xf0f0f0f0u, random()};
        const uint32_t mask = masks[random() % std::size(masks)];
        const Time time = 1 + random() % 6;
        seen[which].advance(mask, time);
        for (unsigned lane = 0; lane < 32; ++lane) {
          if ((mask >> lane & 1) != 0) plain[which][lane] = std::max(plain[which][lane], time);
        }
      }
      for (unsigned lane = 0; lane < 32; ++lane) ASSERT_EQ(seen[which].of(lane), plain[which][lane]);
      const auto mask = random();
      const Time time = 1 + random() % 6;
      bool all = true;
      uint32_t some = 0;
      for (unsigned lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        all = all && plain[which][lane] >= time;
        if (plain[which][lane] >= time) some |= 1u << lane;
      }
      ASSERT_EQ(seen[which].covers(mask, time), all);
      ASSERT_EQ(seen[which].covered(mask, time), some);
    }
  }
}

TEST(Clock, CopiesAreIndependent) {
  Clock one;
  one.advance(3, kAllLanes, 5);
  Clock two = one;
  EXPECT_TRUE(two.same_as(one));
  two.advance(3, 1, 9);
  two.advance(1, kAllLanes, 2);
  EXPECT_FALSE(one.covers(3, 1, 9));
  EXPECT_FALSE(one.covers(1, kAllLanes, 2));
  EXPECT_TRUE(two.covers(3, 1, 9));
  EXPECT_FALSE(two.covers(3, 3, 9));
  EXPECT_TRUE(two.covers(3, kAllLanes, 5));
}

TEST(Clock, JoinsAreTheLaterOfBoth) {
  std::mt19937 generator(2);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  for (int round = 0; round < 1000; ++round) {
    Clock clocks[3];
    std::map<Timeline, Lanes> plain[3];
    for (int step = 0; step < 20; ++step) {
      const unsigned which = random() % 3, other = random() % 3;
      if (random() % 3 == 0) {
        clocks[which].join(clocks[other]);
        for (const auto& [timeline, lanes] : std::map<Timeline, Lanes>(plain[other])) {
          for (unsigned lane = 0; lane < 32; ++lane) {
            Time& mine = plain[which][timeline][lane];
            mine = std::max(mine, lanes[lane]);
          }
        }
      } else {
        const Timeline timeline = random() % 5;
        const uint32_t mask = random() % 2 == 0 ? kAllLanes : random();
        const Time time = 1 + random() % 9;
        clocks[which].advance(timeline, mask, time);
        for (unsigned lane = 0; lane < 32; ++lane) {
          Time& mine = plain[which][timeline][lane];
          if ((mask >> lane & 1) != 0) mine = std::max(mine, time);
        }
      }
      for (Timeline timeline = 0; timeline < 5; ++timeline) {
        for (unsigned lane = 0; lane < 32; lane += 7) {
          const auto found = plain[which].find(timeline);
          const Time wanted = found == plain[which].end() ? 0 : found->second[lane];
          ASSERT_TRUE(clocks[which].covers(timeline, 1u << lane, wanted));
          ASSERT_FALSE(clocks[which].covers(timeline, 1u << lane, wanted + 1));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::checker
