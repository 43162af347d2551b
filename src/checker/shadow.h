#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "checker/clock.h"
#include "emulator/observer.h"

/// Shadow memory: the last accesses to every byte, and whether a new one is ordered after them. Of the emulator it
/// knows the plain structures of its events; the unit tests drive it directly.
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
  /// The same for the many parts of one operation, each with all its lanes.
  void touch(const Context& context, const Access& access, std::span<const emulator::ByteRange> ranges);
  /// Calls use(access, its bytes inside the range, address of their sector) for what is remembered of a range; without
  /// `reads` only for accesses that write.
  using Visit = std::function<void(const Access&, uint32_t, uint64_t)>;
  void visit(uint64_t address, uint64_t bytes, bool reads, const Visit& use);
  /// True if some accesses of different ones of `shadows` may conflict, where nothing orders them. Errs on the safe
  /// side: strong accesses count as weak ones.
  static bool may_conflict(std::span<const Shadow* const> shadows);
  /// Forgets everything, for instance at the end of a kernel that nothing overlaps.
  void clear();
  /// Bytes of shadow state; the caller bounds it.
  size_t memory() const { return pages_.size() * sizeof(Page) + overflow_bytes_; }

  static constexpr uint32_t kSectorBytes = 32;

 private:
  /// Accesses of which none races with another, whatever orders them: plain reads; reductions; strong accesses that all
  /// see each other as strong. Thousands of them may meet in one place, and a new one is not compared with its own
  /// kind.
  template <class Record>
  struct Crowd {
    uint64_t kind = kMixed;
    std::vector<Record> records;
    size_t full = 0;  ///< when to look again for accesses that need not be kept
  };
  static constexpr uint64_t kMixed = 0;  ///< everything else
  static constexpr uint64_t kReads = 1, kReductions = 2;
  struct Sector {
    static constexpr unsigned kInline = 2;
    Access accesses[kInline];
    std::unique_ptr<std::vector<Crowd<Access>>> more;
    uint8_t count = 0;  ///< of the inline ones
  };
  /// An access by all its lanes to whole sectors of a page: what copies and tensor cores do, in kilobytes at a time.
  struct Wide {
    Access access;
    uint64_t sectors = 0;
  };
  static constexpr unsigned kPageSectors = 64;
  static constexpr uint64_t kPageBytes = uint64_t{kSectorBytes} * kPageSectors;
  struct Page {
    std::vector<Crowd<Wide>> wide;
    uint64_t fine = 0;  ///< sectors that remember accesses of their own
    std::unique_ptr<Sector[]> sectors;
  };
  /// Weak reads of global memory that nobody has written so far in this launch: nothing to compare, and most of them
  /// never will be. They become pages when somebody writes nearby.
  struct LoggedRead {
    Access access;
    uint64_t address = 0;
    uint32_t bytes = 0, count = 1;  ///< `count` parts of `bytes` bytes, `stride` bytes from one to the next
    uint64_t stride = 0;
  };
  static constexpr uint64_t kRegionBytes = uint64_t{2} << 20;
  static constexpr size_t kLogged = 1u << 15;  ///< of one region, before its pages take over
  struct Region {
    bool exact = false;  ///< its pages know everything
    std::vector<LoggedRead> reads;
    std::vector<bool> read_sectors;  ///< where the reads are, once somebody has asked
  };
  /// Bytes of a page, one bit each, by sector.
  using PageBytes = std::array<uint32_t, kPageSectors>;
  /// What is remembered of a page: bytes that were touched, or those that were written. False: none.
  static bool bytes_of(const Page& page, bool written, PageBytes& bytes);

  /// False: the access is to be treated by pages.
  bool log_read(const Access& access, uint64_t address, uint32_t bytes, uint32_t count, uint64_t stride, Step step);
  /// From now on the pages of these bytes know everything.
  void make_exact(uint64_t address, uint64_t bytes);
  void visit_logged(uint64_t address, uint64_t bytes, const Visit& use);
  static void visit_page(const Page& page, uint64_t page_address, uint64_t address, uint64_t end, const Visit& use);
  /// Without a context nothing is compared: the accesses are remembered beside what is there.
  void touch_pages(const Context* context, Access access, uint64_t address, uint64_t bytes, Step step);
  void touch_sector(const Context* context, const Access& access, Page& page, unsigned sector, uint64_t page_address,
                    Step step);
  void touch_sectors(const Context* context, const Access& access, Page& page, uint64_t sectors, uint64_t page_address,
                     Step step);
  /// Compares with all that one sector remembers for itself, and drops what needs no longer be kept.
  void visit_sector(const Context& context, const Access& access, Sector& sector, uint64_t kind, uint64_t address,
                    Step step);
  /// Returns true if `earlier` needs no longer be kept for the bytes that both touch.
  bool check(const Context& context, const Access& earlier, const Access& later, uint64_t address, bool silent);
  bool ordered(const Context& context, const Access& earlier, const Access& later, uint32_t bytes) const;
  /// True if whatever conflicts with `earlier` conflicts with `later` too, which is ordered after it. A strong access
  /// is no race with strong ones that race with the weak access before it.
  bool stands_for(const Context& context, const Access& earlier, const Access& later) const;
  Page& page_at(uint64_t address);
  static uint64_t crowd_of(const Access& access, const Position& position);
  void remember(Page& page, unsigned sector, const Access& access, uint64_t kind);
  void remember(Page& page, const Wide& wide, uint64_t kind);
  /// The crowd of a kind, made if there is none.
  template <class Record>
  Crowd<Record>& crowd_in(std::vector<Crowd<Record>>& crowds, uint64_t kind);
  template <class Record>
  void join(Crowd<Record>& crowd, const Record& record);
  /// Drops accesses for which later ones of the same threads stand: what is ordered after those is ordered after these.
  template <class Record>
  void thin_out(Crowd<Record>& crowd) const;

  ShadowSpace space_;
  const std::vector<Operation>& operations_;
  std::function<Position(Timeline)> position_of_;
  OnReport report_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_page_number_ = ~0ull;
  Page* last_page_ = nullptr;
  std::unordered_map<uint64_t, Region> regions_;
  size_t overflow_bytes_ = 0;
  size_t crowd_;
};

}  // namespace ptxbench::checker
