#pragma once

#include <array>
#include <optional>
#include <vector>

#include "checker/clock.h"
#include "checker/shadow.h"

/// What the threads of a warp know.
namespace ptxbench::checker {

/// What fences made ready for the strong writes that follow them, for each distance that those may reach.
class Released {
 public:
  void fence(const Knowledge& knowledge, Reach reach);
  void join(const Released& other);
  /// Null: no fence of that reach, or a farther one, was executed.
  const Knowledge* within(Reach reach) const {
    const auto& known = levels_[static_cast<size_t>(reach)];
    return known ? &*known : nullptr;
  }
  bool empty() const { return !levels_[static_cast<size_t>(Reach::cta)]; }

 private:
  std::array<std::optional<Knowledge>, 4> levels_;  ///< by reach
};

/// Lanes that have seen the same. A lane's own accesses are not in `knowledge`: program order covers them.
struct LaneClass {
  uint32_t lanes = 0;
  Knowledge knowledge;
  Released released;
  /// What strong reads have brought that no fence has made effective yet.
  std::optional<Knowledge> observed;
};

class WarpThreads {
 public:
  /// All of `live` start out knowing `initial`.
  WarpThreads(Timeline timeline, uint32_t live, const Knowledge& initial);

  Timeline timeline() const { return timeline_; }
  /// Epoch of what happens now.
  Time now() const { return now_; }
  /// Epoch of one access; the next one has another, so that an instruction is told from its repetition.
  Time take() {
    ++changes_;
    return now_++;
  }

  /// Calls use(class) for each class that has some of `lanes`; none of them has other lanes then.
  template <class Use>
  void for_each_class(uint32_t lanes, const Use& use) {
    ++changes_;
    split(lanes);
    for (size_t i = 0; i < classes_.size(); ++i) {
      if ((classes_[i].lanes & lanes) != 0) use(classes_[i]);
    }
  }
  /// Calls use(lanes, knowledge) with the active lanes of each class, for accesses: nothing is split.
  template <class Use>
  void for_each_context(uint32_t lanes, const Use& use) const {
    for (const LaneClass& one : classes_) {
      if ((one.lanes & lanes) != 0) use(one.lanes & lanes, one.knowledge);
    }
  }

  /// What `lanes` know together, their own accesses so far included. Their later accesses belong to another epoch.
  Knowledge publish(uint32_t lanes);
  /// The same for the whole warp, and which of its states that was: while it does nothing else, both stay as they are.
  const Knowledge& publish_whole(uint64_t& state);
  /// `lanes` learn `news`. With `together` they have met, so that they know the same from now on.
  void acquire(uint32_t lanes, const Knowledge& news, bool together);
  /// `lanes` have seen `timeline` up to `time`.
  void advance(uint32_t lanes, Timeline timeline, Time time);
  /// A proxy fence of `lanes`.
  void fence_proxy(uint32_t lanes, bool shared, bool global);
  /// A memory fence of `lanes` that reaches `reach`.
  void fence(uint32_t lanes, Reach reach);
  /// What fences of `lanes` have made ready.
  Released released(uint32_t lanes) const;
  /// `lanes` have met threads whose fences made this ready.
  void take_over(uint32_t lanes, const Released& released);

 private:
  void split(uint32_t lanes);
  Timeline timeline_;
  Time now_ = 1;
  uint64_t changes_ = 1, published_at_ = 0;  ///< changes_ when published_ was made
  Knowledge published_;
  std::vector<LaneClass> classes_;
};

}  // namespace ptxbench::checker
