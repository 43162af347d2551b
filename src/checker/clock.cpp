#include "checker/clock.h"

#include <algorithm>
#include <bit>

namespace ptxbench::checker {

bool Seen::covers_slowly(uint32_t lanes, Time time) const { return covered(lanes, time) == lanes; }

uint32_t Seen::covered(uint32_t lanes, Time time) const {
  uint32_t result = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (of(lane) >= time) result |= 1u << lane;
  }
  return result;
}

void Seen::spread() {
  auto all = std::make_shared<std::array<Time, 32>>();
  for (unsigned lane = 0; lane < 32; ++lane) (*all)[lane] = of(lane);
  lanes_ = std::move(all);
  base_ = *std::min_element(lanes_->begin(), lanes_->end());
}

void Seen::advance(uint32_t lanes, Time time) {
  if (covers(lanes, time)) return;
  if (lanes == kAllLanes && !lanes_) {
    if (time >= later_) {
      *this = Seen(time);
      return;
    }
    base_ = std::max(base_, time);
    return;
  }
  if (!lanes_ && (ahead_ == 0 || (lanes == ahead_ && time >= later_) || ((ahead_ & ~lanes) == 0 && time >= later_))) {
    ahead_ = lanes;
    later_ = time;
    return;
  }
  // Copies share the array, so it is replaced rather than changed.
  spread();
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    Time& value = (*lanes_)[static_cast<unsigned>(std::countr_zero(rest))];
    value = std::max(value, time);
  }
  base_ = *std::min_element(lanes_->begin(), lanes_->end());
  const Time top = *std::max_element(lanes_->begin(), lanes_->end());
  uint32_t high = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((*lanes_)[lane] != base_ && (*lanes_)[lane] != top) return;
    if ((*lanes_)[lane] == top) high |= 1u << lane;
  }
  lanes_.reset();
  ahead_ = top == base_ ? 0 : high;
  later_ = top == base_ ? 0 : top;
}

bool Seen::join(const Seen& other) {
  if (!lanes_ && !other.lanes_) {
    if (other.ahead_ == 0 && other.base_ <= base_) return false;
    if (ahead_ == 0 && base_ <= other.base_) {
      const bool changed = other.base_ > base_ || (other.ahead_ != 0 && other.later_ > base_);
      *this = other;
      return changed;
    }
    if (ahead_ == other.ahead_ || other.ahead_ == 0) {
      const Time base = std::max(base_, other.base_), later = std::max(later_, other.later_);
      const bool changed = base != base_ || later != later_;
      base_ = base;
      later_ = later;
      if (later_ <= base_) ahead_ = later_ = 0;
      return changed;
    }
  }
  const Seen before = *this;
  if (other.base_ != 0) advance(kAllLanes, other.base_);
  if (other.lanes_) {
    for (unsigned lane = 0; lane < 32; ++lane) advance(1u << lane, other.of(lane));
  } else if (other.ahead_ != 0) {
    advance(other.ahead_, other.later_);
  }
  return !(*this == before);
}

bool Seen::operator==(const Seen& other) const {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (of(lane) != other.of(lane)) return false;
  }
  return true;
}

Clock::Entries& Clock::own() {
  if (entries_ == nullptr) {
    entries_ = std::make_shared<Entries>();
  } else if (entries_.use_count() != 1) {
    entries_ = std::make_shared<Entries>(*entries_);
  }
  return *entries_;
}

const Seen* Clock::find(Timeline timeline) const {
  if (entries_ == nullptr) return nullptr;
  // The warps of a CTA have neighbouring numbers and mostly know all of each other.
  const size_t guess = timeline - entries_->front().timeline;
  if (guess < entries_->size() && (*entries_)[guess].timeline == timeline) return &(*entries_)[guess].seen;
  const auto at = std::lower_bound(entries_->begin(), entries_->end(), timeline,
                                   [](const Entry& entry, Timeline wanted) { return entry.timeline < wanted; });
  return at != entries_->end() && at->timeline == timeline ? &at->seen : nullptr;
}

void Clock::advance(Timeline timeline, uint32_t lanes, Time time) {
  if (covers(timeline, lanes, time)) return;
  Entries& entries = own();
  const auto at = std::lower_bound(entries.begin(), entries.end(), timeline,
                                   [](const Entry& entry, Timeline wanted) { return entry.timeline < wanted; });
  if (at == entries.end() || at->timeline != timeline) {
    Seen fresh;
    fresh.advance(lanes, time);
    entries.insert(at, {timeline, std::move(fresh)});
  } else {
    at->seen.advance(lanes, time);
  }
}

void Clock::join(const Clock& other) {
  if (other.entries_ == nullptr || other.entries_ == entries_) return;
  if (entries_ == nullptr) {
    entries_ = other.entries_;
    return;
  }
  // Often nothing is new: look before copying.
  const Entries& theirs = *other.entries_;
  size_t mine = 0, missing = 0;
  bool newer = false;
  for (const Entry& entry : theirs) {
    while (mine < entries_->size() && (*entries_)[mine].timeline < entry.timeline) ++mine;
    if (mine == entries_->size() || (*entries_)[mine].timeline != entry.timeline) {
      ++missing;
    } else if (!newer) {
      Seen joined = (*entries_)[mine].seen;
      newer = joined.join(entry.seen);
    }
  }
  if (missing == 0 && !newer) return;
  if (missing == 0 && entries_.use_count() == 1) {
    mine = 0;
    for (const Entry& entry : theirs) {
      while ((*entries_)[mine].timeline < entry.timeline) ++mine;
      (*entries_)[mine].seen.join(entry.seen);
    }
    return;
  }
  auto merged = std::make_shared<Entries>();
  merged->reserve(entries_->size() + missing);
  mine = 0;
  for (const Entry& entry : theirs) {
    while (mine < entries_->size() && (*entries_)[mine].timeline < entry.timeline)
      merged->push_back((*entries_)[mine++]);
    if (mine < entries_->size() && (*entries_)[mine].timeline == entry.timeline) {
      merged->push_back((*entries_)[mine++]);
      merged->back().seen.join(entry.seen);
    } else {
      merged->push_back(entry);
    }
  }
  while (mine < entries_->size()) merged->push_back((*entries_)[mine++]);
  entries_ = std::move(merged);
}

}  // namespace ptxbench::checker
