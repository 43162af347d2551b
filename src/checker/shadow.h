#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "checker/clock.h"

/// Shadow memory: the last accesses to every byte, and whether a new one is ordered after them. Knows nothing of the
/// emulator; the unit tests drive it directly.
namespace ptxbench::checker {

enum class AccessKind : uint8_t {
  read,
  write,
  atomic,  ///< read-modify-write of a thread
  reduce,  ///< asynchronous reduction: commutes with other reductions
};
/// Who sees a strong access as strong. `none`: the access is weak.
enum class Reach : uint8_t { none, cta, cluster, gpu };

enum class ProxyKind : uint8_t { generic, async, tensor_map };

/// Where threads and operations are, to compare with a Reach.
struct Position {
  uint32_t cluster = 0;
  uint32_t cta = 0;  ///< rank in its cluster
};

/// An asynchronous operation's completion: its reads and writes are over for whoever has seen these times.
struct Operation {
  static constexpr Time kPending = 0xffffffffu;
  Timeline reads_on = 0, writes_on = 0;
  Time reads_at = kPending, writes_at = kPending;
  bool per_lane = false;  ///< each lane waits for its own part (cp.async)
};

/// One access to part of a sector. Small: a sector keeps several.
struct Access {
  Timeline timeline = 0;   ///< the warp; for operations the issuing warp
  Time time = 0;           ///< epoch of the warp at the access or the issue
  uint32_t lanes = 0;      ///< threads that touch these bytes
  uint32_t bytes = 0;      ///< of the sector
  uint32_t site = 0;       ///< who asks for a report knows what it names
  uint32_t operation = 0;  ///< 0: a thread's own access; else number in the operation table
  AccessKind kind{};
  Reach reach{};
  ProxyKind proxy{};
  bool read_only = false;  ///< through the non-coherent path
  bool unchanged = false;  ///< a store of what the bytes hold already
  /// Of copies and wgmma operands: how the tile lies in shared memory; 0: not said.
  uint8_t layout = 0;
  /// Lane of byte b: first_lane + (b >> lane_shift); kEveryLane: all `lanes` touch all bytes.
  int8_t first_lane = 0;
  uint8_t lane_shift = kEveryLane;
  uint8_t unit = 0;  ///< bytes that one thread touches, if that matters (strong accesses)
  static constexpr uint8_t kEveryLane = 0xff;

  /// Lanes that touch some byte of `mask`. `lanes` holds those of all `bytes`.
  uint32_t lanes_of(uint32_t mask) const;
  uint32_t lanes_by_place(uint32_t mask) const;  ///< for a lane_shift
  bool writes() const { return kind != AccessKind::read; }
};

/// Why two accesses conflict.
enum class Conflict : uint8_t {
  race,                 ///< nothing orders them
  equal_writes,         ///< the same, but both write the same bytes
  scope,                ///< an order exists, or both are strong, but too narrow for where they are
  read_only_path,       ///< a non-coherent load of bytes that the grid writes
  unfenced,             ///< ordered, but no proxy fence covers the generic write
  fence_by_other,       ///< ordered, and only a fence of another thread covers it (contested)
  in_flight_read,       ///< the new access reads what an unfinished operation writes
  in_flight_overwrite,  ///< the new access writes what an unfinished operation reads or writes
  layout                ///< an operand is read in another layout than the copy wrote
};

struct Report {
  Conflict conflict{};
  Access earlier, later;
  uint64_t address = 0;  ///< first byte that both touch
  uint32_t bytes = 0;
  bool other_space_fenced = false;  ///< unfenced: a fence of the other state space covers the write
};

enum class ShadowSpace : uint8_t { shared, global };

/// What orders a new access: the knowledge of the thread that makes or issues it.
struct Context {
  const Knowledge* knowledge = nullptr;
  Position position;
};

/// Shadow of one address space of a cluster (shared memory of all its CTAs) or of a launch (global memory).
class Shadow {
 public:
  using OnReport = std::function<void(const Report&)>;
  /// Accesses of a crowd before the first search for those that later ones stand for.
  static constexpr size_t kCrowd = 16;
  /// `operations` is the table that Access::operation indexes; `position_of` says where the threads of a timeline are.
  Shadow(ShadowSpace space, const std::vector<Operation>& operations, std::function<Position(Timeline)> position_of,
         OnReport report, size_t crowd = kCrowd);

  /// Parts of one instruction may overlap, and the first to be remembered would hide what the others race with: then
  /// all are checked first and remembered afterwards.
  enum class Step : uint8_t { both, check, remember };
  /// Checks an access to [address, address + bytes) against what is known and remembers it. `access.bytes` is ignored;
  /// with a lane_shift, byte 0 of the range belongs to lane access.first_lane.
  void touch(const Context& context, Access access, uint64_t address, uint32_t bytes, Step step = Step::both);
  /// Calls use(access, its bytes inside the range, address of their sector) for all that is remembered of a range.
  using Visit = std::function<void(const Access&, uint32_t, uint64_t)>;
  void visit(uint64_t address, uint64_t bytes, const Visit& use) const;
  /// Forgets everything, for instance at the end of a kernel that nothing overlaps.
  void clear();
  /// Bytes of shadow state; the caller bounds it.
  size_t memory() const { return pages_.size() * sizeof(Page) + overflow_bytes_; }

  static constexpr uint32_t kSectorBytes = 32;

 private:
  /// Accesses of which none races with another, whatever orders them: plain reads; reductions; strong accesses that all
  /// see each other as strong. Thousands of them may meet in one place, and a new one is not compared with its own
  /// kind.
  struct Crowd {
    uint64_t kind = kMixed;
    std::vector<Access> accesses;
    size_t full = 0;  ///< when to look again for accesses that need not be kept
  };
  static constexpr uint64_t kMixed = 0;  ///< everything else
  struct Sector {
    static constexpr unsigned kInline = 2;
    Access accesses[kInline];
    std::unique_ptr<std::vector<Crowd>> more;
    uint8_t count = 0;  ///< of the inline ones
  };
  static constexpr unsigned kPageSectors = 64;
  struct Page {
    Sector sectors[kPageSectors];
  };

  void touch_sector(const Context& context, const Access& access, Sector& sector, uint64_t address, Step step);
  /// Returns true if `earlier` needs no longer be kept for the bytes that both touch.
  bool check(const Context& context, const Access& earlier, const Access& later, uint64_t address, bool silent);
  bool ordered(const Context& context, const Access& earlier, const Access& later, uint32_t bytes) const;
  /// True if whatever conflicts with `earlier` conflicts with `later` too, which is ordered after it. A strong access
  /// is no race with strong ones that race with the weak access before it.
  bool stands_for(const Context& context, const Access& earlier, const Access& later) const;
  Sector& sector_at(uint64_t address);
  static uint64_t crowd_of(const Access& access, const Position& position);
  void remember(Sector& sector, const Access& access, uint64_t kind);
  /// Drops accesses for which later ones of the same threads stand: what is ordered after those is ordered after these.
  void thin_out(Crowd& crowd) const;

  ShadowSpace space_;
  const std::vector<Operation>& operations_;
  std::function<Position(Timeline)> position_of_;
  OnReport report_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_page_number_ = ~0ull;
  Page* last_page_ = nullptr;
  size_t overflow_bytes_ = 0;
  size_t crowd_;
};

}  // namespace ptxbench::checker
