#include "emulator/touches.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "emulator/address_space.h"
#include "emulator/instruction_kinds.h"
#include "ptx/names.h"

namespace ptxbench::emulator {

// --- which kernels

namespace {

/// Arithmetic, control, ordinary accesses and what orders threads of a CTA. Everything that is not named here works on
/// memory in a way of its own, or might: such kernels are for the observer.
bool is_ordinary(const ptx::Instruction& instruction) {
  using ptx::Mod;
  using ptx::Op;
  if (is_arithmetic(instruction.op)) return true;
  switch (instruction.op) {
    case Op::activemask:
    case Op::bar_warp_sync:
    case Op::bra:
    case Op::brx_idx:
    case Op::call:
    case Op::createpolicy:
    case Op::elect_sync:
    case Op::exit:
    case Op::fence:
    case Op::isspacep:
    case Op::ld:
    case Op::ldmatrix:
    case Op::match_sync:
    case Op::membar:
    case Op::mma:
    case Op::movmatrix:
    case Op::nanosleep:
    case Op::prefetch:
    case Op::prefetchu:
    case Op::redux_sync:
    case Op::ret:
    case Op::shfl_sync:
    case Op::st:
    case Op::stmatrix:
    case Op::trap:
    case Op::vote_sync:
      return true;
    case Op::bar:
    case Op::barrier:
      return !instruction.has(Mod::arrive);  // those that only arrive go on before the others have come
    case Op::atom:
    case Op::red:
      // One size of atomics in one place is morally strong in its scope; wider scopes than the CTA are checked there.
      return true;
    default:
      return false;
  }
}

/// Atomics and strong loads outside shared memory: what other CTAs have done may show.
bool sees_other_ctas(const ptx::Instruction& instruction) {
  using ptx::Mod;
  using ptx::Op;
  const ptx::StateSpace space = instruction.space();
  if (space == ptx::StateSpace::shared || space == ptx::StateSpace::shared_cta ||
      space == ptx::StateSpace::shared_cluster)
    return false;
  if (instruction.op == Op::atom || instruction.op == Op::red || instruction.op == Op::multimem) return true;
  return instruction.op == Op::ld && (instruction.has(Mod::volatile_) || instruction.has(Mod::relaxed) ||
                                      instruction.has(Mod::acquire) || instruction.has(Mod::mmio));
}

}  // namespace

KernelHabits habits_of(const Program& program, uint32_t kernel) {
  KernelHabits habits;
  std::set<uint32_t> seen;
  std::vector<uint32_t> todo{kernel};
  while (!todo.empty()) {
    const uint32_t f = todo.back();
    todo.pop_back();
    if (!seen.insert(f).second) continue;
    const FunctionCode* code = program.functions[f].get();
    if (code == nullptr) {
      // Of the device runtime's functions only the one that ends the kernel leaves nothing behind.
      const bool silent = program.module->functions[f].name == "__assertfail";
      habits.prints = habits.prints || !silent;
      habits.ordinary = habits.ordinary && silent;
      continue;
    }
    if (code->calls_indirectly) return {false, true, true};
    for (const ptx::Instruction& instruction : code->source->instructions) {
      habits.ordinary = habits.ordinary && is_ordinary(instruction);
      habits.depends_on_order = habits.depends_on_order || sees_other_ctas(instruction);
    }
    todo.insert(todo.end(), code->callees.begin(), code->callees.end());
  }
  return habits;
}

// --- shared memory

void SharedTouches::start(uint32_t shared_bytes, unsigned warps) {
  rows_ = (shared_bytes + kRowBytes - 1) / kRowBytes;
  count_ = warps;
  atomics_ = earlier_ = false;
  warps_.assign(warps, {});
  words_.assign(size_t{warps} * kSets * rows_, 0);
  codes_.assign(size_t{warps} * rows_, kNone);
  all_.assign(size_t{3} * rows_, 0);
}

bool SharedTouches::gather(unsigned warp, const uint64_t* hosts, uint64_t origin, unsigned shift) {
  WarpRows& rows = warps_[warp];
  if (rows.changes) {
    bool fine = true;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      fine = this->lane(warp, lane, static_cast<uint32_t>(hosts[lane] - origin), 1u << shift, TouchKind::read) && fine;
    return fine;
  }
  // There is nothing to compare with before the next barrier: what follows is only to be remembered.
  uint32_t* __restrict read = words(warp, kRead);
  uint8_t* __restrict codes = codes_.data() + size_t{warp} * rows_;
  uint32_t low = rows.low, last = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto offset = static_cast<uint32_t>(hosts[lane] - origin);
    const uint32_t row = offset / kRowBytes;
    const uint8_t code = code_of(offset, shift, lane), known = codes[row];
    codes[row] = known == kNone || known == code ? code : kMixed;
    read[row] |= 1u << (offset / 4 % 32);
    low = row < low ? row : low;
    last = row > last ? row : last;
  }
  rows.low = low;
  rows.high = last >= rows.high ? last + 1 : rows.high;
  return true;
}

bool SharedTouches::read_rows(unsigned warp, uint32_t offset, const std::vector<uint32_t>& rows) {
  uint32_t *read = words(warp, kRead), *written = words(warp, kWritten), *atomic = words(warp, kAtomic);
  uint8_t* codes = codes_.data() + size_t{warp} * rows_;
  bool fine = true;
  for (const uint32_t distance : rows) {
    const uint32_t at = offset + distance, row = at / kRowBytes;
    if (at % kRowBytes != 0 || (written[row] | atomic[row]) != 0) {
      fine = this->row(warp, at, 2, TouchKind::read) && fine;
      continue;
    }
    const uint8_t code = code_of(0, 2, 0), known = codes[row];
    codes[row] = known == kNone || known == code ? code : kMixed;
    read[row] = ~0u;
    WarpRows& range = warps_[warp];
    range.low = row < range.low ? row : range.low;
    range.high = row >= range.high ? row + 1 : range.high;
  }
  return fine;
}

void SharedTouches::warp_met(unsigned warp) {
  WarpRows& rows = warps_[warp];
  if (rows.low >= rows.high) return;
  earlier_ = true;
  for (unsigned set = 0; set < 3; ++set) {
    uint32_t* now = words(warp, static_cast<Set>(set));
    uint32_t* earlier = words(warp, static_cast<Set>(set + kEarlierRead));
    for (uint32_t row = rows.low; row < rows.high; ++row) {
      earlier[row] |= now[row];
      now[row] = 0;
    }
  }
  std::memset(codes_.data() + size_t{warp} * rows_ + rows.low, kNone, rows.high - rows.low);
  rows.earlier_low = std::min(rows.earlier_low, rows.low);
  rows.earlier_high = std::max(rows.earlier_high, rows.high);
  rows.low = ~0u;
  rows.high = 0;
  rows.changes = false;
}

bool SharedTouches::close(uint32_t exited) {
  uint32_t* __restrict all_read = all_.data();
  uint32_t* __restrict all_written = all_.data() + rows_;
  uint32_t* __restrict all_atomic = all_.data() + size_t{2} * rows_;
  uint32_t lowest = ~0u, highest = 0, clash = 0;
  for (unsigned w = 0; w < count_; ++w) {
    // What the warp did before it last met belongs to the same interval.
    if (earlier_) warp_met(w);
    WarpRows& rows = warps_[w];
    const uint32_t low = earlier_ ? rows.earlier_low : rows.low, high = earlier_ ? rows.earlier_high : rows.high;
    if (low >= high) continue;
    const uint32_t* __restrict read = words(w, earlier_ ? kEarlierRead : kRead);
    const uint32_t* __restrict written = words(w, earlier_ ? kEarlierWritten : kWritten);
    const uint32_t* __restrict atomic = words(w, earlier_ ? kEarlierAtomic : kAtomic);
    for (uint32_t row = low; row < high; ++row) {
      clash |= written[row] & (all_read[row] | all_written[row]);
      clash |= read[row] & all_written[row];
      all_read[row] |= read[row];
      all_written[row] |= written[row];
    }
    if (atomics_) {
      for (uint32_t row = low; row < high; ++row) all_atomic[row] |= atomic[row];
    }
    lowest = std::min(lowest, low);
    highest = std::max(highest, high);
    if ((exited >> w & 1) != 0) continue;
    for (const Set set :
         earlier_ ? std::array{kEarlierRead, kEarlierWritten, kEarlierAtomic} : std::array{kRead, kWritten, kAtomic}) {
      if (set % 3 == kAtomic && !atomics_) continue;
      std::memset(words(w, set) + low, 0, size_t{high - low} * sizeof(uint32_t));
    }
    if (!earlier_) std::memset(codes_.data() + size_t{w} * rows_ + low, kNone, high - low);
    rows = {};
  }
  if (lowest >= highest) return true;
  if (atomics_) {
    // Within a warp the accesses themselves were compared; here any other warp's count, its own too: that is rare, and
    // errs on the safe side.
    for (uint32_t row = lowest; row < highest; ++row) clash |= all_atomic[row] & (all_read[row] | all_written[row]);
  }
  for (uint32_t* all : {all_read, all_written, all_atomic})
    std::memset(all + lowest, 0, size_t{highest - lowest} * sizeof(uint32_t));
  return clash == 0;
}

// --- global memory

void UndoLog::save(uint64_t page) {
  const std::lock_guard lock(mutex_);
  auto& copy = pages_[page];
  if (copy != nullptr) return;
  copy = std::make_unique<std::array<std::byte, kPageBytes>>();
  // Somebody is about to write to the page. If it was never touched, reading it first would cost a second page fault.
  __atomic_fetch_or(reinterpret_cast<uint8_t*>(host_pointer(page * kPageBytes)), 0, __ATOMIC_RELAXED);
  std::memcpy(copy->data(), host_pointer(page * kPageBytes), kPageBytes);
}

std::vector<uint64_t> UndoLog::saved() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(pages_.size());
  for (const auto& [page, copy] : pages_) numbers.push_back(page);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void UndoLog::restore() {
  for (const auto& [page, copy] : pages_) std::memcpy(host_pointer(page * kPageBytes), copy->data(), kPageBytes);
  pages_.clear();
  serial_ = new_serial();
}

void GlobalTouches::Page::split(unsigned to) {
  const uint32_t count = units(), times = 1u << (shift - to);
  auto finer = std::make_unique<uint32_t[]>(size_t{2} * count * times);
  for (uint32_t i = 0; i < 2 * count; ++i) std::fill_n(finer.get() + size_t{i} * times, times, owners[i]);
  owners = std::move(finer);
  many *= times;
  shift = static_cast<uint8_t>(to);
}

void GlobalTouches::Page::name_owners() {
  owners = std::make_unique<uint32_t[]>(size_t{2} * Words::kCount);
  const auto name = [](const std::array<uint64_t, Words::kCount / 64>& bits, uint32_t* units) {
    for (uint32_t i = 0; i < Words::kCount; ++i) units[i] = (bits[i / 64] >> i % 64 & 1) != 0 ? kMany : 0;
  };
  shift = 2;
  name(words->read, read());
  name(words->written, written());
  for (const uint64_t bits : words->read) many += static_cast<uint32_t>(std::popcount(bits));
  words = nullptr;
}

GlobalTouches::Page& GlobalTouches::page_of(uint64_t number, unsigned shift, bool many) {
  const uint64_t chunk = number / kChunkPages;
  auto& [known, pages] = recent_[chunk % recent_.size()];
  if (pages == nullptr || known != chunk) {
    auto& owned = chunks_[chunk];
    if (owned == nullptr) {
      owned = std::make_unique<Chunk>();
      memory_ += sizeof(Chunk);
    }
    known = chunk;
    pages = owned.get();
  }
  Page& page = pages->pages[number % kChunkPages];
  const bool in_words = many && shift >= 2;
  if (page.owners != nullptr ? shift >= page.shift : in_words && page.words != nullptr) return page;
  const size_t before = page.memory();
  if (page.owners == nullptr && in_words) {
    page.words = std::make_unique<Words>();
  } else if (page.owners == nullptr && page.words == nullptr) {
    page.shift = static_cast<uint8_t>(std::min(shift, 2u));
    page.owners = std::make_unique<uint32_t[]>(size_t{2} * page.units());
  } else {
    if (page.words != nullptr) page.name_owners();
    if (shift < page.shift) page.split(shift);
  }
  memory_ += page.memory() - before;
  return page;
}

namespace {

/// Unit i belongs to thread first + (i >> step); kMany and kAtomics are as they are.
template <bool Fixed>
uint32_t owner_of(uint32_t first, uint32_t i, unsigned step) {
  return Fixed ? first : first + (i >> step);
}

/// Of several threads that count as one none is the same as the one before.
bool is_other(uint32_t known, uint32_t owner) {
  return known != 0 && (known != owner || owner == GlobalTouches::kMany);
}

template <bool Fixed>
bool write_units(uint32_t* __restrict read, uint32_t* __restrict written, uint32_t count, uint32_t first,
                 unsigned step) {
  uint32_t clash = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t owner = owner_of<Fixed>(first, i, step);
    clash |= is_other(written[i], owner) ? 1u : 0u;
    clash |= is_other(read[i], owner) ? 1u : 0u;
    written[i] = owner;
  }
  return clash == 0;
}

/// Adds to `many` the units that have become kMany.
template <bool Fixed>
void read_units(uint32_t* __restrict read, uint32_t count, uint32_t first, unsigned step, uint32_t& many) {
  uint32_t became = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t owner = owner_of<Fixed>(first, i, step), known = read[i];
    const uint32_t now = known == 0 || known == owner ? owner : GlobalTouches::kMany;
    became += now == GlobalTouches::kMany && known != GlobalTouches::kMany ? 1u : 0u;
    read[i] = now;
  }
  many += became;
}

/// Bits [begin, begin + count) of a page. False: somebody else has touched them, one of the two writing.
template <class Bits>
bool touch_words(Bits& read, Bits& written, uint32_t begin, uint32_t count, bool writes) {
  uint64_t clash = 0;
  for (const uint32_t end = begin + count; begin < end;) {
    const uint32_t bit = begin % 64, here = std::min(end - begin, 64 - bit);
    const uint64_t mask = (here == 64 ? ~0ull : (1ull << here) - 1) << bit;
    uint64_t &reads = read[begin / 64], &writers = written[begin / 64];
    clash |= (writes ? writers | reads : writers) & mask;
    (writes ? writers : reads) |= mask;
    begin += here;
  }
  return clash == 0;
}

template <bool Fixed>
bool written_by_others(const uint32_t* written, uint32_t count, uint32_t first, unsigned step) {
  uint32_t clash = 0;
  for (uint32_t i = 0; i < count; ++i) clash |= is_other(written[i], owner_of<Fixed>(first, i, step)) ? 1u : 0u;
  return clash != 0;
}

}  // namespace

bool GlobalTouches::range(uint64_t address, uint32_t bytes, uint32_t threads, uint32_t first, TouchKind kind) {
  if (!std::has_single_bit(bytes)) {
    // No instruction does that; if one should, nothing is proved, but what it writes can still be taken back.
    for (uint64_t page = address / UndoLog::kPageBytes;
         kind != TouchKind::read && page <= (address + uint64_t{bytes} * threads - 1) / UndoLog::kPageBytes; ++page)
      undo_.save(page);
    return false;
  }
  const auto element = static_cast<unsigned>(std::countr_zero(bytes));
  const bool fixed = first == kMany || first == kAtomics;
  bool fine = true;
  uint32_t thread = first;
  for (uint64_t at = address, end = address + uint64_t{bytes} * threads; at < end;) {
    const uint64_t number = at / UndoLog::kPageBytes;
    const uint64_t stop = std::min(end, (number + 1) * UndoLog::kPageBytes);
    Page& page = page_of(number, element, first == kMany);
    if (kind != TouchKind::read && !page.saved) {
      undo_.save(number);
      page.saved = true;
    }
    if (page.words != nullptr) {
      const auto begin = static_cast<uint32_t>(at % UndoLog::kPageBytes / 4);
      fine = touch_words(page.words->read, page.words->written, begin, static_cast<uint32_t>((stop - at) / 4),
                         kind != TouchKind::read) &&
             fine;
      at = stop;
      continue;
    }
    // Accesses are naturally aligned, so that no element crosses pages.
    const auto begin = static_cast<uint32_t>((at % UndoLog::kPageBytes) >> page.shift);
    const auto count = static_cast<uint32_t>((stop - at) >> page.shift);
    uint32_t *read = page.read() + begin, *written = page.written() + begin;
    const unsigned step = element - page.shift;
    if (kind != TouchKind::read) {
      fine = (fixed ? write_units<true>(read, written, count, thread, step)
                    : write_units<false>(read, written, count, thread, step)) &&
             fine;
    } else if (!page.settled()) {
      if (fixed) {
        read_units<true>(read, count, thread, step, page.many);
      } else {
        read_units<false>(read, count, thread, step, page.many);
      }
      if (page.saved) {
        fine = !(fixed ? written_by_others<true>(written, count, thread, step)
                       : written_by_others<false>(written, count, thread, step)) &&
               fine;
      }
    }
    if (!fixed) thread += static_cast<uint32_t>((stop - at) >> element);
    at = stop;
  }
  return fine;
}

namespace {

/// As join_units, where kMany is all there is.
template <class Words>
bool join_words(Words& words, const Words& other) {
  uint64_t clash = 0;
  for (size_t i = 0; i < words.read.size(); ++i) {
    clash |= (words.written[i] & (other.written[i] | other.read[i])) | (other.written[i] & words.read[i]);
    words.read[i] |= other.read[i];
    words.written[i] |= other.written[i];
  }
  return clash == 0;
}

/// Adds the second pair of owners to the first. Atomics of one size agree; anything else that both touched does not.
bool join_units(uint32_t* __restrict read, uint32_t* __restrict written, const uint32_t* __restrict other_read,
                const uint32_t* __restrict other_written, uint32_t count) {
  uint32_t clash = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t reads = read[i] | other_read[i], writes = written[i] | other_written[i];
    const bool both =
        (written[i] != 0 && (other_written[i] | other_read[i]) != 0) || (other_written[i] != 0 && read[i] != 0);
    const bool atomics =
        written[i] == GlobalTouches::kAtomics && other_written[i] == GlobalTouches::kAtomics && reads == 0;
    clash |= both && !atomics ? 1u : 0u;
    read[i] = reads;
    written[i] = writes;
  }
  return clash == 0;
}

}  // namespace

bool GlobalTouches::absorb(GlobalTouches& other) {
  bool fine = true;
  for (auto& [number, chunk] : other.chunks_) {
    auto& mine = chunks_[number];
    if (mine == nullptr) {
      mine = std::move(chunk);
      continue;
    }
    for (uint32_t p = 0; p < kChunkPages; ++p) {
      Page &page = mine->pages[p], &theirs = chunk->pages[p];
      if (theirs.owners == nullptr && theirs.words == nullptr) continue;
      if (page.owners == nullptr && page.words == nullptr) {
        page = std::move(theirs);
        continue;
      }
      page.saved = page.saved || theirs.saved;
      if (page.words != nullptr && theirs.words != nullptr) {
        fine = join_words(*page.words, *theirs.words) && fine;
        continue;
      }
      if (page.words != nullptr) page.name_owners();
      if (theirs.words != nullptr) theirs.name_owners();
      if (page.shift < theirs.shift) theirs.split(page.shift);
      if (theirs.shift < page.shift) page.split(theirs.shift);
      fine = join_units(page.read(), page.written(), theirs.read(), theirs.written(), page.units()) && fine;
      page.many = 0;
    }
  }
  other.chunks_.clear();
  recent_ = {};
  other.recent_ = {};
  return fine;
}

}  // namespace ptxbench::emulator
