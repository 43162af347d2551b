#include "checker/shadow.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace ptxbench::checker {

namespace {

bool reaches(Reach reach, const Position& from, const Position& to) {
  switch (reach) {
    case Reach::none:
      return false;
    case Reach::cta:
      return from.cluster == to.cluster && from.cta == to.cta;
    case Reach::cluster:
      return from.cluster == to.cluster;
    case Reach::gpu:
      return true;
  }
  return false;
}

}  // namespace

uint32_t Access::lanes_of(uint32_t mask) const {
  mask &= bytes;
  if (mask == bytes) return lanes;
  if (lane_shift == kEveryLane) return mask != 0 ? lanes : 0;
  return lanes_by_place(mask);
}

uint32_t Access::lanes_by_place(uint32_t mask) const {
  uint32_t result = 0;
  while (mask != 0) {
    const auto byte = static_cast<unsigned>(std::countr_zero(mask));
    const unsigned slice = byte >> lane_shift;
    result |= 1u << static_cast<unsigned>(first_lane + static_cast<int>(slice));
    const uint32_t width = 1u << lane_shift;
    const uint32_t slice_bytes = width >= 32 ? 0xffffffffu : ((1u << width) - 1u) << (slice * width);
    mask &= ~slice_bytes;
  }
  return result;
}

Shadow::Shadow(ShadowSpace space, const std::vector<Operation>& operations,
               std::function<Position(Timeline)> position_of, OnReport report, size_t crowd)
    : space_(space),
      operations_(operations),
      position_of_(std::move(position_of)),
      report_(std::move(report)),
      crowd_(crowd) {}

void Shadow::clear() {
  pages_.clear();
  regions_.clear();
  last_page_ = nullptr;
  last_page_number_ = ~0ull;
  overflow_bytes_ = 0;
}

Shadow::Page& Shadow::page_at(uint64_t address) {
  const uint64_t number = address / kPageBytes;
  if (number != last_page_number_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    last_page_ = page.get();
    last_page_number_ = number;
  }
  return *last_page_;
}

// --- two shadows of one memory

bool Shadow::bytes_of(const Page& page, bool written, PageBytes& bytes) {
  bytes.fill(0);
  bool some = false;
  const auto add = [&](const Access& access, unsigned sector, uint32_t mask) {
    if (written && !access.writes()) return;
    bytes[sector] |= mask;
    some = some || mask != 0;
  };
  for (const Crowd<Wide>& crowd : page.wide) {
    for (const Wide& wide : crowd.records) {
      for (uint64_t rest = wide.sectors; rest != 0; rest &= rest - 1)
        add(wide.access, static_cast<unsigned>(std::countr_zero(rest)), 0xffffffffu);
    }
  }
  for (uint64_t rest = page.fine; rest != 0; rest &= rest - 1) {
    const auto number = static_cast<unsigned>(std::countr_zero(rest));
    const Sector& sector = page.sectors[number];
    for (unsigned i = 0; i < sector.count; ++i) add(sector.accesses[i], number, sector.accesses[i].bytes);
    if (sector.more == nullptr) continue;
    for (const Crowd<Access>& crowd : *sector.more) {
      for (const Access& access : crowd.records) add(access, number, access.bytes);
    }
  }
  return some;
}

bool Shadow::may_conflict(std::span<const Shadow* const> shadows) {
  struct Use {
    PageBytes written{}, touched{};
  };
  std::unordered_map<uint64_t, Use> pages;
  PageBytes written, touched;
  for (const Shadow* shadow : shadows) {
    for (const auto& [number, page] : shadow->pages_) {
      if (!bytes_of(*page, false, touched)) continue;
      bytes_of(*page, true, written);
      Use& use = pages[number];
      uint32_t clash = 0;
      for (unsigned s = 0; s < kPageSectors; ++s) {
        clash |= (written[s] & use.touched[s]) | (touched[s] & use.written[s]);
        use.written[s] |= written[s];
        use.touched[s] |= touched[s];
      }
      if (clash != 0) return true;
    }
  }
  // Who only logs reads of a region has written nothing there: what was, others wrote.
  std::unordered_map<uint64_t, std::vector<std::pair<uint64_t, const Use*>>> regions;
  for (const auto& [number, use] : pages) {
    if (std::any_of(use.written.begin(), use.written.end(), [](uint32_t bytes) { return bytes != 0; }))
      regions[number * kPageBytes / kRegionBytes].emplace_back(number, &use);
  }
  for (const Shadow* shadow : shadows) {
    for (const auto& [region, used] : regions) {
      const auto found = shadow->regions_.find(region);
      if (found == shadow->regions_.end()) continue;
      for (const LoggedRead& read : found->second.reads) {
        for (uint32_t i = 0; i < read.count; ++i) {
          const uint64_t begin = read.address + i * read.stride, end = begin + read.bytes;
          for (const auto& [number, use] : used) {
            const uint64_t low = std::max(begin, number * kPageBytes), high = std::min(end, (number + 1) * kPageBytes);
            for (uint64_t at = low; at < high; ++at) {
              if ((use->written[at % kPageBytes / kSectorBytes] >> (at % kSectorBytes) & 1) != 0) return true;
            }
          }
        }
      }
    }
  }
  return false;
}

// --- reads that nothing is compared with

bool Shadow::log_read(const Access& access, uint64_t address, uint32_t bytes, uint32_t count, uint64_t stride,
                      Step step) {
  if (space_ != ShadowSpace::global || access.kind != AccessKind::read || access.reach != Reach::none) return false;
  const uint64_t first = address / kRegionBytes, last = (address + (count - 1) * stride + bytes - 1) / kRegionBytes;
  for (uint64_t number = first; number <= last; ++number) {
    if (regions_[number].exact) return false;
  }
  if (step == Step::check) return true;
  for (uint64_t number = first; number <= last; ++number) {
    Region& region = regions_[number];
    const size_t before = region.reads.capacity();
    region.reads.push_back({access, address, bytes, count, stride});
    overflow_bytes_ += (region.reads.capacity() - before) * sizeof(LoggedRead);
    if (region.reads.size() >= kLogged) make_exact(number * kRegionBytes, kRegionBytes);
  }
  return true;
}

void Shadow::make_exact(uint64_t address, uint64_t bytes) {
  if (space_ != ShadowSpace::global) return;
  for (uint64_t number = address / kRegionBytes; number <= (address + bytes - 1) / kRegionBytes; ++number) {
    Region& region = regions_[number];
    if (region.exact) continue;
    region.exact = true;
    const std::vector<LoggedRead> reads = std::move(region.reads);
    region.reads = {};
    overflow_bytes_ -= region.read_sectors.size() / 8;
    region.read_sectors = {};
    const uint64_t begin = number * kRegionBytes, end = begin + kRegionBytes;
    for (const LoggedRead& read : reads) {
      for (uint32_t i = 0; i < read.count; ++i) {
        const uint64_t at = read.address + i * read.stride;
        const uint64_t low = std::max(at, begin), high = std::min(at + read.bytes, end);
        if (low >= high) continue;
        Access access = read.access;
        if (access.lane_shift != Access::kEveryLane)
          access.first_lane =
              static_cast<int8_t>(access.first_lane + static_cast<int>((low - at) >> access.lane_shift));
        touch_pages(nullptr, access, low, high - low, Step::remember);
      }
    }
    overflow_bytes_ -= reads.capacity() * sizeof(LoggedRead);
  }
}

// --- from ranges to sectors

void Shadow::touch(const Context& context, Access access, uint64_t address, uint32_t bytes, Step step) {
  if (bytes == 0 || log_read(access, address, bytes, 1, 0, step)) return;
  make_exact(address, bytes);
  touch_pages(&context, access, address, bytes, step);
}

void Shadow::touch(const Context& context, const Access& access, std::span<const emulator::ByteRange> ranges) {
  // The boxes of tensor copies are rows at equal distances.
  if (ranges.size() > 1 && space_ == ShadowSpace::global) {
    const uint64_t stride = ranges[1].address - ranges[0].address;
    bool regular = ranges[1].address > ranges[0].address;
    for (size_t i = 0; i < ranges.size() && regular; ++i) {
      regular = ranges[i].bytes == ranges[0].bytes && ranges[i].bytes != 0 &&
                ranges[i].address == ranges[0].address + i * stride;
    }
    if (regular &&
        log_read(access, ranges[0].address, ranges[0].bytes, static_cast<uint32_t>(ranges.size()), stride, Step::both))
      return;
  }
  for (size_t i = 0; i < ranges.size();) {
    uint64_t address = ranges[i].address, bytes = ranges[i].bytes;
    const uint64_t page_address = address / kPageBytes * kPageBytes;
    // Whole sectors of one page go together.
    uint64_t sectors = 0;
    size_t j = i;
    for (; j < ranges.size() && access.lane_shift == Access::kEveryLane; ++j) {
      const emulator::ByteRange& range = ranges[j];
      if (range.bytes == 0) continue;
      if (((range.address | range.bytes) & (kSectorBytes - 1)) != 0 || range.address < page_address ||
          range.address + range.bytes > page_address + kPageBytes)
        break;
      const auto first = static_cast<unsigned>((range.address - page_address) / kSectorBytes);
      const unsigned count = range.bytes / kSectorBytes;
      sectors |= (count == 64 ? ~0ull : (1ull << count) - 1) << first;
    }
    if (sectors == 0) {
      if (bytes != 0) touch(context, access, address, static_cast<uint32_t>(bytes));
      ++i;
      continue;
    }
    i = j;
    if (log_read(access, page_address, kPageBytes, 1, 0, Step::check)) {
      // Irregular, but still only read.
      for (; sectors != 0;) {
        const auto first = static_cast<unsigned>(std::countr_zero(sectors));
        const auto count = static_cast<unsigned>(std::countr_one(sectors >> first));
        log_read(access, page_address + uint64_t{first} * kSectorBytes, count * kSectorBytes, 1, 0, Step::both);
        sectors &= ~((count == 64 ? ~0ull : (1ull << count) - 1) << first);
      }
      continue;
    }
    make_exact(page_address, kPageBytes);
    touch_sectors(&context, access, page_at(page_address), sectors, page_address, Step::both);
  }
}

void Shadow::touch_pages(const Context* context, Access access, uint64_t address, uint64_t bytes, Step step) {
  const int lane0 = access.first_lane;
  for (uint64_t at = address, end = address + bytes; at < end;) {
    const uint64_t page_address = at / kPageBytes * kPageBytes;
    Page& page = page_at(at);
    const uint64_t sector_begin = at / kSectorBytes * kSectorBytes;
    const auto sector = static_cast<unsigned>((sector_begin - page_address) / kSectorBytes);
    const uint64_t whole_end = std::min(end, page_address + kPageBytes) / kSectorBytes * kSectorBytes;
    if (access.lane_shift == Access::kEveryLane && at == sector_begin && whole_end > at) {
      const auto count = static_cast<unsigned>((whole_end - at) / kSectorBytes);
      access.bytes = 0xffffffffu;
      touch_sectors(context, access, page, (count == 64 ? ~0ull : (1ull << count) - 1) << sector, page_address, step);
      at = whole_end;
      continue;
    }
    const uint64_t stop = std::min(end, sector_begin + kSectorBytes);
    const auto low = static_cast<uint32_t>(at - sector_begin), count = static_cast<uint32_t>(stop - at);
    access.bytes = (count == 32 ? 0xffffffffu : (1u << count) - 1u) << low;
    if (access.lane_shift != Access::kEveryLane) {
      // Lanes are counted from the sector's first byte, which may lie before the range.
      const auto from_start = static_cast<int64_t>(sector_begin) - static_cast<int64_t>(address);
      access.first_lane = static_cast<int8_t>(lane0 + (from_start >> access.lane_shift));
      access.lanes = access.lanes_by_place(access.bytes);
    }
    touch_sector(context, access, page, sector, page_address, step);
    at = stop;
  }
}

// --- what another launch did

namespace {

/// The part of [address, end) that lies in a sector, as a mask of its bytes.
uint32_t sector_mask(uint64_t sector, uint64_t address, uint64_t end) {
  const uint64_t low = std::max(address, sector) - sector, high = std::min(end, sector + Shadow::kSectorBytes) - sector;
  return (high - low == 32 ? 0xffffffffu : (1u << (high - low)) - 1u) << low;
}

}  // namespace

void Shadow::visit_page(const Page& page, uint64_t page_address, uint64_t address, uint64_t end, const Visit& use) {
  address = std::max(address, page_address);
  end = std::min(end, page_address + kPageBytes);
  for (uint64_t sector = address / kSectorBytes * kSectorBytes; sector < end; sector += kSectorBytes) {
    const auto index = static_cast<unsigned>((sector - page_address) / kSectorBytes);
    const uint32_t mask = sector_mask(sector, address, end);
    for (const Crowd<Wide>& crowd : page.wide) {
      for (const Wide& wide : crowd.records) {
        if ((wide.sectors >> index & 1) != 0) use(wide.access, mask, sector);
      }
    }
    if ((page.fine >> index & 1) == 0) continue;
    const Sector& fine = page.sectors[index];
    const auto visit_access = [&](const Access& access) {
      if ((access.bytes & mask) != 0) use(access, access.bytes & mask, sector);
    };
    for (unsigned i = 0; i < fine.count; ++i) visit_access(fine.accesses[i]);
    if (fine.more == nullptr) continue;
    for (const Crowd<Access>& crowd : *fine.more) {
      for (const Access& access : crowd.records) visit_access(access);
    }
  }
}

void Shadow::visit_logged(uint64_t address, uint64_t bytes, const Visit& use) {
  const uint64_t end = address + bytes;
  for (uint64_t number = address / kRegionBytes; number <= (end - 1) / kRegionBytes; ++number) {
    const auto found = regions_.find(number);
    if (found == regions_.end() || found->second.reads.empty()) continue;
    Region& region = found->second;
    const uint64_t begin = number * kRegionBytes;
    const auto sector_of = [&](uint64_t at) {
      return (std::clamp(at, begin, begin + kRegionBytes - 1) - begin) / kSectorBytes;
    };
    if (region.read_sectors.empty()) {
      region.read_sectors.resize(kRegionBytes / kSectorBytes);
      overflow_bytes_ += region.read_sectors.size() / 8;
      for (const LoggedRead& read : region.reads) {
        for (uint32_t i = 0; i < read.count; ++i) {
          const uint64_t at = read.address + i * read.stride;
          if (at + read.bytes <= begin || at >= begin + kRegionBytes) continue;
          for (uint64_t s = sector_of(at); s <= sector_of(at + read.bytes - 1); ++s) region.read_sectors[s] = true;
        }
      }
    }
    bool some = false;
    for (uint64_t s = sector_of(address); s <= sector_of(end - 1) && !some; ++s) some = region.read_sectors[s];
    if (!some) continue;
    for (const LoggedRead& read : region.reads) {
      for (uint32_t i = 0; i < read.count; ++i) {
        const uint64_t from = std::max(address, read.address + i * read.stride);
        const uint64_t to = std::min(end, read.address + i * read.stride + read.bytes);
        for (uint64_t sector = from / kSectorBytes * kSectorBytes; from < to && sector < to; sector += kSectorBytes)
          use(read.access, sector_mask(sector, from, to), sector);
      }
    }
  }
}

void Shadow::visit(uint64_t address, uint64_t bytes, bool reads, const Visit& use) {
  if (bytes == 0) return;
  const Visit wanted = reads ? use : [&use](const Access& access, uint32_t mask, uint64_t sector) {
    if (access.writes()) use(access, mask, sector);
  };
  const uint64_t end = address + bytes, first = address / kPageBytes, last = (end - 1) / kPageBytes;
  if (last - first >= pages_.size()) {
    for (const auto& [number, page] : pages_) {
      if (number >= first && number <= last) visit_page(*page, number * kPageBytes, address, end, wanted);
    }
  } else {
    for (uint64_t number = first; number <= last; ++number) {
      if (const auto page = pages_.find(number); page != pages_.end())
        visit_page(*page->second, number * kPageBytes, address, end, wanted);
    }
  }
  if (reads) visit_logged(address, bytes, use);
}

// --- what pages remember

uint64_t Shadow::crowd_of(const Access& access, const Position& position) {
  if (access.kind == AccessKind::reduce) return kReductions;
  if (access.reach == Reach::none) return access.kind == AccessKind::read ? kReads : kMixed;
  if (access.operation != 0 || access.proxy != ProxyKind::generic) return kMixed;
  uint64_t place = 0;
  if (access.reach != Reach::gpu) place = uint64_t{position.cluster} << 16;
  if (access.reach == Reach::cta) place |= position.cta;
  return static_cast<uint64_t>(access.reach) << 56 | uint64_t{access.unit} << 48 | place;
}

namespace {

const Access& access_of(const Access& access) { return access; }
template <class Wide>
const Access& access_of(const Wide& wide) {
  return wide.access;
}
uint64_t extent_of(const Access& access) { return access.bytes; }
template <class Wide>
uint64_t extent_of(const Wide& wide) {
  return wide.sectors;
}

}  // namespace

template <class Record>
void Shadow::thin_out(Crowd<Record>& crowd) const {
  // What must be equal for one access to stand for another, and when each is over.
  struct Entry {
    std::tuple<bool, bool, AccessKind, ProxyKind, Timeline, uint64_t, uint8_t, int> key;
    Time over;
    const Record* record;
  };
  std::vector<Entry> entries;
  entries.reserve(crowd.records.size());
  std::vector<Record> kept;
  for (const Record& record : crowd.records) {
    const Access& access = access_of(record);
    Timeline on = access.timeline;
    Time over = access.time;
    bool per_lane = false;
    if (access.operation != 0) {
      const Operation& operation = operations_[access.operation];
      on = access.writes() ? operation.writes_on : operation.reads_on;
      over = access.writes() ? operation.writes_at : operation.reads_at;
      per_lane = operation.per_lane;
      if (over == Operation::kPending) {
        kept.push_back(record);
        continue;
      }
    }
    const int first_lane = access.lane_shift == Access::kEveryLane ? 0 : access.first_lane;
    entries.push_back({{access.operation != 0, per_lane, access.kind, access.proxy, on, extent_of(record),
                        access.lane_shift, first_lane},
                       over,
                       &record});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.key != b.key ? a.key < b.key : a.over > b.over; });
  uint32_t lanes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i].key != entries[i - 1].key) lanes = 0;
    const Access& access = access_of(*entries[i].record);
    // An operation that completes as a whole is over for all lanes at once.
    const bool whole = access.operation != 0 && !operations_[access.operation].per_lane;
    const uint32_t own = whole ? kAllLanes : access.lanes;
    if ((own & ~lanes) != 0) kept.push_back(*entries[i].record);
    lanes |= own;
  }
  crowd.records.assign(kept.begin(), kept.end());
  crowd.full = std::max(crowd_, 2 * crowd.records.size());
}

template <class Record>
Shadow::Crowd<Record>& Shadow::crowd_in(std::vector<Crowd<Record>>& crowds, uint64_t kind) {
  auto crowd = std::find_if(crowds.begin(), crowds.end(), [&](const Crowd<Record>& one) { return one.kind == kind; });
  if (crowd == crowds.end())
    crowd = std::find_if(crowds.begin(), crowds.end(), [](const Crowd<Record>& one) { return one.records.empty(); });
  if (crowd == crowds.end()) {
    overflow_bytes_ += sizeof(Crowd<Record>);
    crowd = crowds.emplace(crowds.end());
  }
  if (crowd->records.empty()) {
    crowd->kind = kind;
    crowd->full = crowd_;
  }
  return *crowd;
}

template <class Record>
void Shadow::join(Crowd<Record>& crowd, const Record& record) {
  const size_t before = crowd.records.capacity();
  if (crowd.kind != kMixed && crowd.records.size() >= crowd.full) thin_out(crowd);
  crowd.records.push_back(record);
  overflow_bytes_ += (crowd.records.capacity() - before) * sizeof(Record);
}

void Shadow::remember(Page& page, unsigned number, const Access& access, uint64_t kind) {
  if (page.sectors == nullptr) {
    page.sectors = std::make_unique<Sector[]>(kPageSectors);
    overflow_bytes_ += sizeof(Sector) * kPageSectors;
  }
  page.fine |= 1ull << number;
  Sector& sector = page.sectors[number];
  if (sector.count < Sector::kInline) {
    sector.accesses[sector.count++] = access;
    return;
  }
  if (sector.more == nullptr) {
    sector.more = std::make_unique<std::vector<Crowd<Access>>>();
    overflow_bytes_ += sizeof(std::vector<Crowd<Access>>);
  }
  join(crowd_in(*sector.more, kind), access);
}

void Shadow::remember(Page& page, const Wide& wide, uint64_t kind) {
  Crowd<Wide>& crowd = crowd_in(page.wide, kind);
  if (!crowd.records.empty()) {
    // Another part of the same operation's work.
    Wide& last = crowd.records.back();
    if (last.access.operation != 0 && last.access.operation == wide.access.operation &&
        last.access.kind == wide.access.kind && last.access.layout == wide.access.layout) {
      last.sectors |= wide.sectors;
      return;
    }
  }
  join(crowd, wide);
}

void Shadow::visit_sector(const Context& context, const Access& access, Sector& sector, uint64_t kind, uint64_t address,
                          Step step) {
  const auto visit = [&](Access& earlier) {
    const uint32_t common = earlier.bytes & access.bytes;
    if (common == 0) return;
    const bool superseded = check(context, earlier, access, address, step == Step::remember);
    if (!superseded || step == Step::check) return;
    earlier.bytes &= ~common;
    if (earlier.bytes != 0 && earlier.lane_shift != Access::kEveryLane)
      earlier.lanes = earlier.lanes_by_place(earlier.bytes);
  };
  for (unsigned i = 0; i < sector.count; ++i) visit(sector.accesses[i]);
  if (sector.more != nullptr) {
    for (Crowd<Access>& crowd : *sector.more) {
      if (kind != kMixed && crowd.kind == kind) continue;
      for (Access& earlier : crowd.records) visit(earlier);
      if (step != Step::check) std::erase_if(crowd.records, [](const Access& earlier) { return earlier.bytes == 0; });
    }
  }
  if (step == Step::check) return;
  unsigned kept = 0;
  for (unsigned i = 0; i < sector.count; ++i) {
    if (sector.accesses[i].bytes == 0) continue;
    if (kept != i) sector.accesses[kept] = sector.accesses[i];
    ++kept;
  }
  sector.count = static_cast<uint8_t>(kept);
}

void Shadow::touch_sector(const Context* context, const Access& access, Page& page, unsigned sector,
                          uint64_t page_address, Step step) {
  const uint64_t kind = context == nullptr ? kReads : crowd_of(access, context->position);
  const uint64_t address = page_address + uint64_t{sector} * kSectorBytes, bit = 1ull << sector;
  if (context != nullptr) {
    if ((page.fine & bit) != 0) visit_sector(*context, access, page.sectors[sector], kind, address, step);
    for (size_t c = 0; c < page.wide.size(); ++c) {
      Crowd<Wide>& crowd = page.wide[c];
      if (kind != kMixed && crowd.kind == kind) continue;
      bool emptied = false;
      for (Wide& earlier : crowd.records) {
        if ((earlier.sectors & bit) == 0) continue;
        if (!check(*context, earlier.access, access, address, step == Step::remember) || step == Step::check) continue;
        earlier.sectors &= ~bit;
        emptied = emptied || earlier.sectors == 0;
        if (access.bytes == 0xffffffffu) continue;
        Access rest = earlier.access;
        rest.bytes = ~access.bytes;
        remember(page, sector, rest, crowd.kind);
      }
      if (emptied) std::erase_if(crowd.records, [](const Wide& earlier) { return earlier.sectors == 0; });
    }
    if (step == Step::check) return;
  }
  remember(page, sector, access, kind);
}

void Shadow::touch_sectors(const Context* context, const Access& whole, Page& page, uint64_t sectors,
                           uint64_t page_address, Step step) {
  Access access = whole;
  access.bytes = 0xffffffffu;
  const uint64_t kind = context == nullptr ? kReads : crowd_of(access, context->position);
  if (context != nullptr) {
    for (uint64_t rest = page.fine & sectors; rest != 0; rest &= rest - 1) {
      const auto sector = static_cast<unsigned>(std::countr_zero(rest));
      visit_sector(*context, access, page.sectors[sector], kind, page_address + uint64_t{sector} * kSectorBytes, step);
      const Sector& visited = page.sectors[sector];
      const bool more = visited.more != nullptr && std::any_of(visited.more->begin(), visited.more->end(),
                                                               [](const auto& one) { return !one.records.empty(); });
      if (visited.count == 0 && !more) page.fine &= ~(1ull << sector);
    }
    for (Crowd<Wide>& crowd : page.wide) {
      if (kind != kMixed && crowd.kind == kind) continue;
      bool emptied = false;
      for (Wide& earlier : crowd.records) {
        const uint64_t common = earlier.sectors & sectors;
        if (common == 0) continue;
        const uint64_t address =
            page_address + static_cast<unsigned>(std::countr_zero(common)) * uint64_t{kSectorBytes};
        if (!check(*context, earlier.access, access, address, step == Step::remember) || step == Step::check) continue;
        earlier.sectors &= ~common;
        emptied = emptied || earlier.sectors == 0;
      }
      if (emptied) std::erase_if(crowd.records, [](const Wide& earlier) { return earlier.sectors == 0; });
    }
    if (step == Step::check) return;
  }
  remember(page, Wide{access, sectors}, kind);
}

bool Shadow::stands_for(const Context& context, const Access& earlier, const Access& later) const {
  if (later.kind == AccessKind::reduce) return false;
  if (later.reach == Reach::none || later.operation != 0) return true;
  if (earlier.operation != 0 || earlier.reach < later.reach || earlier.unit != later.unit) return false;
  const Position from = position_of_(earlier.timeline);
  return from.cluster == context.position.cluster && from.cta == context.position.cta;
}

bool Shadow::ordered(const Context& context, const Access& earlier, const Access& later, uint32_t bytes) const {
  const Knowledge& knowledge = *context.knowledge;
  if (earlier.operation != 0) {
    const Operation& operation = operations_[earlier.operation];
    const bool writes = earlier.writes();
    const Time at = writes ? operation.writes_at : operation.reads_at;
    return at != Operation::kPending &&
           knowledge.seen.covers(writes ? operation.writes_on : operation.reads_on,
                                 operation.per_lane ? earlier.lanes_of(bytes) : kAllLanes, at);
  }
  // Lanes of one warp: what a lane did itself comes before. The same shape at the same place means the same lanes.
  const bool same_warp = earlier.timeline == later.timeline && later.operation == 0;
  if (same_warp && earlier.lane_shift != Access::kEveryLane && earlier.lane_shift == later.lane_shift &&
      earlier.first_lane == later.first_lane) {
    return true;
  }
  if (knowledge.seen.covers(earlier.timeline, earlier.lanes_of(bytes), earlier.time)) return true;
  if (!same_warp) return false;
  for (uint32_t rest = bytes; rest != 0; rest &= rest - 1) {
    const uint32_t byte = rest & (0u - rest);
    const uint32_t before = earlier.lanes_of(byte), after = later.lanes_of(byte);
    // Every lane that comes later must come after every lane that came before.
    if (before == after && std::has_single_bit(before)) continue;
    const uint32_t others = std::has_single_bit(after) ? before & ~after : before;
    if (others != 0 && !knowledge.seen.covers(earlier.timeline, others, earlier.time)) return false;
  }
  return true;
}

bool Shadow::check(const Context& context, const Access& earlier, const Access& later, uint64_t address, bool silent) {
  const uint32_t common = earlier.bytes & later.bytes;
  // The lanes of one instruction: which of them comes last is not defined, and not for us to judge.
  if (earlier.operation == 0 && later.operation == 0 && earlier.timeline == later.timeline &&
      earlier.time == later.time)
    return false;
  const bool both_read = !earlier.writes() && !later.writes();
  const bool is_ordered = ordered(context, earlier, later, common);
  // A read stays remembered beside reads that are not ordered after it.
  if (both_read)
    return is_ordered && earlier.operation == 0 && later.operation == 0 && stands_for(context, earlier, later);
  if (earlier.kind == AccessKind::reduce && later.kind == AccessKind::reduce) return false;

  bool other_space_fenced = false;
  const auto report = [&](Conflict conflict) {
    if (silent) return;
    Report found;
    found.conflict = conflict;
    found.earlier = earlier;
    found.later = later;
    found.earlier.lanes = earlier.lanes_of(common);
    found.later.lanes = later.lanes_of(common);
    const auto first = static_cast<unsigned>(std::countr_zero(common));
    found.address = address + first;
    found.bytes = static_cast<uint32_t>(std::countr_one(common >> first));
    found.other_space_fenced = other_space_fenced;
    report_(found);
  };

  if (later.read_only && earlier.writes() && earlier.timeline != later.timeline) report(Conflict::read_only_path);
  if (!is_ordered) {
    if (earlier.operation != 0) {
      report(later.writes() ? Conflict::in_flight_overwrite : Conflict::in_flight_read);
      return later.writes();
    }
    if (earlier.reach != Reach::none && later.reach != Reach::none && earlier.unit == later.unit) {
      const Position from = position_of_(earlier.timeline);
      if (reaches(earlier.reach, from, context.position) && reaches(later.reach, context.position, from)) {
        return false;  // morally strong: no race, but no order either
      }
      report(Conflict::scope);
      return later.writes();
    }
    const bool would_be = context.knowledge->narrow.covers(earlier.timeline, earlier.lanes_of(common), earlier.time);
    const bool equal = later.unchanged && later.kind == AccessKind::write && earlier.kind == AccessKind::write;
    report(would_be ? Conflict::scope : equal ? Conflict::equal_writes : Conflict::race);
    return later.writes();
  }
  if (later.layout != 0 && earlier.layout != 0 && later.layout != earlier.layout && earlier.writes() &&
      !later.writes()) {
    report(Conflict::layout);
  }
  if (later.proxy != ProxyKind::generic && earlier.proxy == ProxyKind::generic && earlier.writes()) {
    const Knowledge& knowledge = *context.knowledge;
    const bool shared = space_ == ShadowSpace::shared;
    const uint32_t lanes = earlier.lanes_of(common);
    if (later.proxy == ProxyKind::tensor_map) {
      if (!knowledge.fenced_map.covers(earlier.timeline, lanes, earlier.time)) report(Conflict::unfenced);
      return later.writes();
    }
    const Clock& own = shared ? knowledge.fenced_shared_own : knowledge.fenced_global_own;
    const Clock& any = shared ? knowledge.fenced_shared_any : knowledge.fenced_global_any;
    const Clock& other = shared ? knowledge.fenced_global_any : knowledge.fenced_shared_any;
    other_space_fenced = other.covers(earlier.timeline, lanes, earlier.time);
    if (!own.covers(earlier.timeline, lanes, earlier.time)) {
      report(any.covers(earlier.timeline, lanes, earlier.time) ? Conflict::fence_by_other : Conflict::unfenced);
    }
  }
  // Reads never hide a write: later readers must be ordered after it as well.
  return later.writes() && stands_for(context, earlier, later);
}

}  // namespace ptxbench::checker
