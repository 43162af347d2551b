#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/program.h"

/// The fast tier of race checking: a proof, made while a launch runs, that nothing in it can race. Knows no clocks,
/// only who touched which words: the threads of a CTA between two barriers of the whole CTA, and the threads of the
/// grid during the launch. Where no two threads touch a word, or all only read it, the order of things does not matter.
/// Wherever that is not so the proof fails, the launch is undone, and runs again under an observer that knows better.
/// For kernels without asynchronous operations, clusters and other proxies.
namespace ptxbench::emulator {

/// What a kernel and everything it calls may do.
struct KernelHabits {
  /// It does nothing but load, store, update and wait for barriers: a launch of it can be proved free of races.
  bool ordinary = true;
  /// What one CTA does may depend on what others have done: one host thread, for results that can be repeated.
  bool depends_on_order = false;
  bool prints = false;  ///< what it prints cannot be taken back
};
KernelHabits habits_of(const Program& program, uint32_t kernel);

enum class TouchKind : uint8_t { read, write, atomic };

/// The shared memory of one CTA. Offsets count from the start of the CTA's shared memory.
class SharedTouches {
 public:
  void start(uint32_t shared_bytes, unsigned warps);

  /// Lane l of the whole warp touches [offset + (l << shift), offset + ((l + 1) << shift)). False: this may be a race.
  bool row(unsigned warp, uint32_t offset, unsigned shift, TouchKind kind) {
    return range(warp, offset, kLanes << shift, code_of(offset, shift, 0), kind);
  }
  /// One lane touches [offset, offset + bytes).
  bool lane(unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes, TouchKind kind) {
    const auto shift = static_cast<unsigned>(std::countr_zero(bytes));
    return range(warp, offset, bytes, std::has_single_bit(bytes) ? code_of(offset, shift, lane) : kMixed, kind);
  }
  /// Several lanes touch the same bytes.
  bool broadcast(unsigned warp, uint32_t offset, uint32_t bytes, TouchKind kind) {
    return range(warp, offset, bytes, kMixed, kind);
  }
  /// Lane l of the whole warp reads 1 << shift bytes, at most a word, at the host address hosts[l]; the CTA's shared
  /// memory starts at `origin`.
  bool gather(unsigned warp, const uint64_t* hosts, uint64_t origin, unsigned shift);
  /// The whole warp reads rows of 32 words, lane l word l of each, at distances `rows` from `offset`.
  bool read_rows(unsigned warp, uint32_t offset, const std::vector<uint32_t>& rows);
  /// All lanes of the warp have met: none of its earlier accesses races with its own later ones.
  void warp_met(unsigned warp);
  /// Some lanes of the warp exit, others stay: no later barrier orders what those have done. False: they have done
  /// something since the last one.
  bool lanes_leave(unsigned warp) const {
    const WarpRows& rows = warps_[warp];
    return rows.low >= rows.high && rows.earlier_low >= rows.earlier_high;
  }
  /// A barrier of the whole CTA is complete (or the CTA has ended): compares the warps' accesses since the last one.
  /// Those of warps that have exited (one bit each) are not ordered by it and stay.
  bool close(uint32_t exited);

 private:
  static constexpr unsigned kRowBytes = 128;
  /// Which lane touches which place of a row, if one rule says so for all accesses; two accesses with the same code
  /// touch a byte with the same lane.
  static constexpr uint8_t kNone = 0, kMixed = 255;
  static uint8_t code_of(uint32_t offset, unsigned shift, unsigned lane) {
    return shift > 4 ? kMixed : static_cast<uint8_t>((shift + 1) << 5 | (((offset >> shift) - lane) & 31));
  }
  /// Words of each row of 128 bytes, by warp: since the warp last met, and before that since the last barrier.
  enum Set : unsigned { kRead, kWritten, kAtomic, kEarlierRead, kEarlierWritten, kEarlierAtomic, kSets };
  struct WarpRows {
    uint32_t low = ~0u, high = 0;                  ///< rows with something in them
    bool changes = false;                          ///< something was written or updated there
    uint32_t earlier_low = ~0u, earlier_high = 0;  ///< the same of the earlier sets
  };
  uint32_t* words(unsigned warp, Set set) { return words_.data() + (size_t{warp} * kSets + set) * rows_; }

  bool mark(uint32_t* read, uint32_t* written, uint32_t* atomic, uint8_t* codes, uint32_t row, uint32_t mask,
            uint8_t code, TouchKind kind) {
    uint32_t met = written[row];
    if (kind != TouchKind::read) met |= read[row];
    if (kind != TouchKind::atomic) met |= atomic[row];
    const uint8_t known = codes[row];
    codes[row] = known == kNone || known == code ? code : kMixed;
    (kind == TouchKind::read ? read : kind == TouchKind::write ? written : atomic)[row] |= mask;
    return (met & mask) == 0 || (known == code && code != kMixed);
  }
  bool range(unsigned warp, uint32_t offset, uint32_t bytes, uint8_t code, TouchKind kind) {
    const uint32_t first = offset / 4, last = (offset + bytes - 1) / 4;
    WarpRows& rows = warps_[warp];
    const uint32_t low = first / 32, high = last / 32;
    rows.low = low < rows.low ? low : rows.low;
    rows.high = high >= rows.high ? high + 1 : rows.high;
    rows.changes = rows.changes || kind != TouchKind::read;
    atomics_ = atomics_ || kind == TouchKind::atomic;
    uint32_t *read = words(warp, kRead), *written = words(warp, kWritten), *atomic = words(warp, kAtomic);
    uint8_t* codes = codes_.data() + size_t{warp} * rows_;
    bool fine = true;
    for (uint32_t row = low; row <= high; ++row) {
      uint32_t mask = ~0u;
      if (row == low) mask &= ~0u << (first % 32);
      if (row == high) mask &= ~0u >> (31 - last % 32);
      fine = mark(read, written, atomic, codes, row, mask, code, kind) && fine;
    }
    return fine;
  }

  uint32_t rows_ = 0;
  unsigned count_ = 0;
  bool atomics_ = false, earlier_ = false;
  std::vector<WarpRows> warps_;
  std::vector<uint32_t> words_;  ///< [warp][set][row]
  std::vector<uint8_t> codes_;   ///< [warp][row]
  std::vector<uint32_t> all_;    ///< scratch of close: [read, written, atomic][row]
};

/// Global memory as it was before a launch, page by page, to take the launch back. Thread safe.
class UndoLog {
 public:
  static constexpr uint64_t kPageBytes = 4096;
  /// Tells one log from all others of the process, and from itself before a restore.
  uint64_t serial() const { return serial_; }
  /// Called before anything of the page is written; only the first call of a launch copies it.
  void save(uint64_t page);
  void restore();
  /// The page as it was, or null if it was not saved. Not while others save.
  const std::byte* find(uint64_t page) const {
    const auto found = pages_.find(page);
    return found == pages_.end() ? nullptr : found->second->data();
  }
  /// Numbers of all pages that were saved, in order.
  std::vector<uint64_t> saved() const;

 private:
  static uint64_t new_serial() {
    static std::atomic<uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t serial_ = new_serial();
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<std::array<std::byte, kPageBytes>>> pages_;
};

/// Global memory, as one host thread's clusters touch it. A thread of the grid has a number from 1 on.
class GlobalTouches {
 public:
  static constexpr uint32_t kMany = ~0u;  ///< more than one thread, or one that counts as such
  static constexpr uint32_t kAtomics = ~0u - 1;
  explicit GlobalTouches(UndoLog& undo) : undo_(undo) {}

  /// Thread `first` + i touches [address + i * bytes, address + (i + 1) * bytes), for i below `threads`. With `first`
  /// kMany all of them may touch all of it. False: this may be a race.
  bool range(uint64_t address, uint32_t bytes, uint32_t threads, uint32_t first, TouchKind kind);
  /// Takes over what another thread's clusters touched. False: something that one touched and the other wrote overlaps.
  bool absorb(GlobalTouches& other);
  /// Bytes of the shadow.
  size_t memory() const { return memory_; }
  /// Calls use(address, bytes) for all that was written, in no order.
  template <class Use>
  void for_each_written(const Use& use) const {
    for (const auto& [number, chunk] : chunks_) {
      for (uint32_t p = 0; p < kChunkPages; ++p) {
        const Page& page = chunk->pages[p];
        if (!page.saved) continue;
        const uint64_t address = (number * kChunkPages + p) * UndoLog::kPageBytes;
        for (uint32_t i = 0; i < page.units();) {
          uint32_t j = i;
          while (j < page.units() && page.is_written(j)) ++j;
          if (j != i) use(address + (uint64_t{i} << page.shift), uint64_t{j - i} << page.shift);
          i = j + 1;
        }
      }
    }
  }

 private:
  /// A bit for each word of a page.
  struct Words {
    static constexpr uint32_t kCount = UndoLog::kPageBytes / 4;
    std::array<uint64_t, kCount / 64> read{}, written{};
  };
  /// Who touched each unit of a page: nobody (0), one thread, or more. A unit has 1 << shift bytes, no more than the
  /// smallest access to the page. As long as only kMany touches it, in whole words, bits say as much as owners.
  struct Page {
    std::unique_ptr<Words> words;
    std::unique_ptr<uint32_t[]> owners;  ///< readers, then writers; this and words null: never touched
    uint32_t many = 0;                   ///< units that many threads have read, of owners
    uint8_t shift = 2;
    bool saved = false;  ///< something of it was written
    uint32_t units() const { return static_cast<uint32_t>(UndoLog::kPageBytes >> shift); }
    uint32_t* read() const { return owners.get(); }
    uint32_t* written() const { return owners.get() + units(); }
    bool is_written(uint32_t unit) const {
      return words != nullptr ? (words->written[unit / 64] >> unit % 64 & 1) != 0 : written()[unit] != 0;
    }
    void split(unsigned to);
    /// From words to owners.
    void name_owners();
    size_t memory() const {
      return (words == nullptr ? 0 : sizeof(Words)) + (owners == nullptr ? 0 : 2 * sizeof(uint32_t) * units());
    }
    /// Reads change nothing any more.
    bool settled() const { return !saved && many == units(); }
  };
  static constexpr uint32_t kChunkPages = 512;
  struct Chunk {
    std::array<Page, kChunkPages> pages;
  };
  /// The page, in units of at most 1 << shift bytes; with `many` it may be one with words.
  Page& page_of(uint64_t number, unsigned shift, bool many);

  UndoLog& undo_;
  std::unordered_map<uint64_t, std::unique_ptr<Chunk>> chunks_;
  std::array<std::pair<uint64_t, Chunk*>, 16> recent_{};  ///< chunks used last: kernels walk a few arrays at once
  size_t memory_ = 0;
};

/// What the warps of one host thread report to.
struct Touches {
  explicit Touches(UndoLog& undo) : global(undo) {}
  SharedTouches shared;
  GlobalTouches global;
  uint32_t atomic_bytes[2] = {0, 0};  ///< of shared and of global atomics: two of different sizes may race
};

}  // namespace ptxbench::emulator
