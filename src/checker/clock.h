#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

/// Vector clocks of warps and asynchronous operations (docs/hazards.md, "The model").
namespace ptxbench::checker {

/// A timeline: what time is counted on. Warps are timelines of 32 lanes; an mbarrier, a wgmma group sequence and a
/// bulk-copy group sequence are timelines of their own. Numbers are handed out by Timelines.
using Timeline = uint32_t;
using Time = uint32_t;  ///< starts at 1; 0 = nothing happened yet

inline constexpr uint32_t kAllLanes = 0xffffffffu;

/// How far one timeline has been seen, lane by lane. Lanes in `ahead` have been seen up to `later`, the others up to
/// `base`; `lanes` replaces both when two values are not enough.
class Seen {
 public:
  Seen() = default;
  explicit Seen(Time all) : base_(all) {}

  Time of(unsigned lane) const {
    if (lanes_) return (*lanes_)[lane];
    return (ahead_ >> lane) & 1 ? later_ : base_;
  }
  /// True if every lane of `lanes` has been seen at least up to `time`.
  bool covers(uint32_t lanes, Time time) const {
    if (base_ >= time) return true;
    if (!lanes_) return later_ >= time && (lanes & ~ahead_) == 0;
    return covers_slowly(lanes, time);
  }
  /// Lanes of `lanes` seen up to `time`.
  uint32_t covered(uint32_t lanes, Time time) const;
  void advance(uint32_t lanes, Time time);
  /// The later of both, lane by lane. True if this changed.
  bool join(const Seen& other);
  bool operator==(const Seen& other) const;

 private:
  bool covers_slowly(uint32_t lanes, Time time) const;
  void spread();

  Time base_ = 0, later_ = 0;
  uint32_t ahead_ = 0;
  std::shared_ptr<std::array<Time, 32>> lanes_;
};

/// What somebody has seen of everybody. A value: copies share their contents until one is changed.
class Clock {
 public:
  /// Null if nothing of the timeline was seen.
  const Seen* find(Timeline timeline) const;
  bool covers(Timeline timeline, uint32_t lanes, Time time) const {
    if (time == 0) return true;
    const Seen* seen = find(timeline);
    return seen != nullptr && seen->covers(lanes, time);
  }
  void advance(Timeline timeline, uint32_t lanes, Time time);
  void join(const Clock& other);
  bool same_as(const Clock& other) const { return entries_ == other.entries_; }
  bool empty() const { return entries_ == nullptr; }
  size_t size() const { return entries_ ? entries_->size() : 0; }

 private:
  struct Entry {
    Timeline timeline = 0;
    Seen seen;
    bool operator==(const Entry&) const = default;
  };
  using Entries = std::vector<Entry>;  // by timeline
  Entries& own();
  std::shared_ptr<Entries> entries_;
};

/// What a thread knows and hands on when it synchronises.
struct Knowledge {
  Clock seen;
  /// Generic writes that a proxy fence covers, per state space. `own` counts only fences of the writing thread itself,
  /// `any` those of whoever knew of the write.
  Clock fenced_shared_own, fenced_shared_any;
  Clock fenced_global_own, fenced_global_any;
  Clock inits;       ///< mbarrier initialisations that fence.mbarrier_init covers
  Clock fenced_map;  ///< writes to tensor maps that a tensor-map fence with acquire covers
  Clock narrow;      ///< what would have been seen if all scopes had been wide enough

  void join(const Knowledge& other) {
    seen.join(other.seen);
    fenced_shared_own.join(other.fenced_shared_own);
    fenced_shared_any.join(other.fenced_shared_any);
    fenced_global_own.join(other.fenced_global_own);
    fenced_global_any.join(other.fenced_global_any);
    inits.join(other.inits);
    fenced_map.join(other.fenced_map);
    narrow.join(other.narrow);
  }
};

}  // namespace ptxbench::checker
