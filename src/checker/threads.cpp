#include "checker/threads.h"

namespace ptxbench::checker {

void Released::fence(const Knowledge& knowledge, Reach reach) {
  for (auto level = static_cast<size_t>(Reach::cta); level <= static_cast<size_t>(reach); ++level)
    levels_[level] = knowledge;
}

void Released::join(const Released& other) {
  for (size_t level = 0; level < levels_.size(); ++level) {
    const auto& theirs = other.levels_[level];
    if (!theirs) continue;
    if (levels_[level]) {
      levels_[level]->join(*theirs);
    } else {
      levels_[level] = theirs;
    }
  }
}

WarpThreads::WarpThreads(Timeline timeline, uint32_t live, const Knowledge& initial) : timeline_(timeline) {
  classes_.push_back({live, initial, {}, std::nullopt});
}

void WarpThreads::split(uint32_t lanes) {
  for (size_t i = 0, count = classes_.size(); i < count; ++i) {
    const uint32_t inside = classes_[i].lanes & lanes;
    if (inside == 0 || inside == classes_[i].lanes) continue;
    LaneClass rest = classes_[i];
    rest.lanes &= ~lanes;
    classes_[i].lanes = inside;
    classes_.push_back(std::move(rest));
  }
}

Knowledge WarpThreads::publish(uint32_t lanes) {
  Knowledge all;
  bool first = true;
  for (const LaneClass& one : classes_) {
    if ((one.lanes & lanes) == 0) continue;
    if (first) {
      all = one.knowledge;
      first = false;
    } else {
      all.join(one.knowledge);
    }
  }
  all.seen.advance(timeline_, lanes, now_);
  ++now_;
  ++changes_;
  return all;
}

const Knowledge& WarpThreads::publish_whole(uint64_t& state) {
  if (published_at_ != changes_) {
    published_ = publish(kAllLanes);
    published_at_ = changes_;
  }
  state = changes_;
  return published_;
}

void WarpThreads::acquire(uint32_t lanes, const Knowledge& news, bool together) {
  ++changes_;
  split(lanes);
  size_t home = classes_.size();
  for (size_t i = 0; i < classes_.size();) {
    LaneClass& one = classes_[i];
    if ((one.lanes & lanes) == 0) {
      ++i;
      continue;
    }
    one.knowledge.join(news);
    if (!together) {
      ++i;
      continue;
    }
    if (home == classes_.size()) {
      home = i++;
      continue;
    }
    LaneClass& target = classes_[home];
    target.lanes |= one.lanes;
    target.knowledge.join(one.knowledge);
    target.released.join(one.released);
    if (one.observed) {
      if (target.observed) {
        target.observed->join(*one.observed);
      } else {
        target.observed = std::move(one.observed);
      }
    }
    classes_.erase(classes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void WarpThreads::advance(uint32_t lanes, Timeline timeline, Time time) {
  for_each_class(lanes, [&](LaneClass& one) { one.knowledge.seen.advance(timeline, kAllLanes, time); });
}

void WarpThreads::fence_proxy(uint32_t lanes, bool shared, bool global) {
  for_each_class(lanes, [&](LaneClass& one) {
    Knowledge& k = one.knowledge;
    const auto cover = [&](Clock& own, Clock& any) {
      own.advance(timeline_, one.lanes & lanes, now_);
      any.join(k.seen);
      any.join(own);
    };
    if (shared) cover(k.fenced_shared_own, k.fenced_shared_any);
    if (global) cover(k.fenced_global_own, k.fenced_global_any);
  });
  ++now_;
  ++changes_;
}

void WarpThreads::fence(uint32_t lanes, Reach reach) {
  for_each_class(lanes, [&](LaneClass& one) {
    if (one.observed) {
      one.knowledge.join(*one.observed);
      one.observed.reset();
    }
    Knowledge ready = one.knowledge;
    ready.seen.advance(timeline_, one.lanes, now_);
    one.released.fence(ready, reach);
  });
  ++now_;
}

Released WarpThreads::released(uint32_t lanes) const {
  Released all;
  for (const LaneClass& one : classes_) {
    if ((one.lanes & lanes) != 0) all.join(one.released);
  }
  return all;
}

void WarpThreads::take_over(uint32_t lanes, const Released& released) {
  if (released.empty()) return;
  for_each_class(lanes, [&](LaneClass& one) { one.released.join(released); });
}

}  // namespace ptxbench::checker
