#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "emulator/device.h"
#include "emulator/tensor/tensor_box.h"
#include "emulator/tensor/wgmma.h"
#include "emulator/warp.h"

/// Values that nobody wrote: which bytes of memory were ever written (watch), and which bits of registers and memory
/// depend on ones that were not (track). docs/memory-model.md, section 7. The instructions' side, what is added to a
/// kernel's code, is definedness_code.h.
namespace ptxbench::emulator {

/// Whether bits [first, first + count) are all set.
inline bool all_set(const uint64_t* words, uint64_t first, uint64_t count) {
  if (count == 0) return true;
  const uint64_t begin = first % 64;
  const uint64_t* word = words + first / 64;
  if (count <= 64 - begin) {
    const uint64_t mask = (~0ull >> (64 - count)) << begin;
    return (*word & mask) == mask;
  }
  if (~(*word | ((1ull << begin) - 1)) != 0) return false;
  for (count -= 64 - begin; count >= 64; count -= 64) {
    if (*++word != ~0ull) return false;
  }
  return count == 0 || (word[1] | (~0ull << count)) == ~0ull;
}
/// Sets them; returns how many were not set. With `Shared` other threads may set bits of the same words.
template <bool Shared>
uint64_t set_bits(uint64_t* words, uint64_t first, uint64_t count) {
  uint64_t fresh = 0, word = first / 64, begin = first % 64;
  while (count != 0) {
    const uint64_t here = std::min<uint64_t>(count, 64 - begin);
    const uint64_t mask = (here == 64 ? ~0ull : (1ull << here) - 1) << begin;
    const uint64_t missing = mask & ~words[word];
    if (missing != 0) {
      fresh += static_cast<uint64_t>(std::popcount(missing));
      if constexpr (Shared) {
        std::atomic_ref(words[word]).fetch_or(mask, std::memory_order_relaxed);
      } else {
        words[word] |= mask;
      }
    }
    count -= here;
    begin = 0;
    ++word;
  }
  return fresh;
}

/// Number of an UndefinedOrigin; 0: none yet. Memory holds one for every two bytes.
using OriginId = uint16_t;

/// Where an undefined value came from.
struct UndefinedOrigin {
  Site site;
  Agent agent;
  bool from_register = false;
  Space space{};
  uint64_t address = 0;
  uint32_t bytes = 0;
};

/// A CTA's shared memory, by offset.
struct CtaDefinedness {
  std::vector<uint64_t> written;
  uint32_t unwritten = 0;  ///< bytes; 0: nothing needs to be looked up any more
  /// Operands of wgmmas that were found to be written (memory counts as written for good): instruction, descriptors.
  std::set<std::tuple<uint32_t, uint64_t, uint64_t>> written_operands;
  std::vector<std::byte> undefined, origin;  ///< tracking only: mirrors of the memory
};

/// What the registers of one activation hold (tracking only). A plane is 64 bits of every lane: one per register, a
/// second one for each 128-bit register, and the carry.
struct FrameDefinedness {
  enum State : uint8_t { defined, mixed, never_written };
  explicit FrameDefinedness(uint32_t planes)
      : state(planes, never_written),
        undefined(new uint64_t[size_t{planes} * kLanes]),
        origin(new OriginId[size_t{planes} * kLanes]) {
    state.back() = defined;
  }
  std::vector<uint8_t> state;
  std::unique_ptr<uint64_t[]> undefined;
  std::unique_ptr<OriginId[]> origin;

  void spread(uint32_t plane) {
    if (state[plane] != never_written) return;
    std::fill_n(undefined.get() + size_t{plane} * kLanes, kLanes, ~0ull);
    std::fill_n(origin.get() + size_t{plane} * kLanes, kLanes, OriginId{0});
    state[plane] = mixed;
  }
  uint64_t get(uint32_t plane, unsigned lane) const {
    return state[plane] == defined ? 0 : state[plane] == mixed ? undefined[size_t{plane} * kLanes + lane] : ~0ull;
  }
  void set(uint32_t plane, unsigned lane, uint64_t bits, OriginId from) {
    if (state[plane] == defined) {
      if (bits == 0) return;
      std::fill_n(undefined.get() + size_t{plane} * kLanes, kLanes, 0);
      state[plane] = mixed;
    }
    spread(plane);
    undefined[size_t{plane} * kLanes + lane] = bits;
    origin[size_t{plane} * kLanes + lane] = from;
  }
  /// The lanes hold known values now. `mask` should include lanes that do not exist.
  void define(uint32_t plane, uint32_t mask) {
    if (state[plane] == defined) return;
    if (mask == kFullMask) {
      state[plane] = defined;
      return;
    }
    spread(plane);
    uint64_t* lanes = undefined.get() + size_t{plane} * kLanes;
    uint64_t left = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) != 0) lanes[lane] = 0;
      left |= lanes[lane];
    }
    if (left == 0) state[plane] = defined;
  }
};

/// A warp's local memory, and its registers when tracking.
struct WarpDefinedness {
  std::vector<uint64_t> local_written;  ///< by lane * stride + offset
  std::vector<std::byte> undefined, origin;
  std::unordered_map<const Frame*, std::unique_ptr<FrameDefinedness>> frames;
  const Frame* last_frame = nullptr;
  FrameDefinedness* last = nullptr;
  /// Operands of instructions whose lanes come together before they execute, saved when each lane arrives.
  std::array<uint64_t, kLanes> saved_undefined{}, saved_value{}, saved_second{};
  std::array<OriginId, kLanes> saved_origin{};
  /// Values that a st.async of the lane carries.
  struct Remote {
    std::array<std::byte, 32> undefined{};
    OriginId origin = 0;
  };
  std::array<Remote, kLanes> remote;
};

/// Uninitialised memory and registers of one device.
class Definedness {
 public:
  /// Fails if there is no room for the maps of the address window.
  static Result<std::unique_ptr<Definedness>> create(DefinednessMode mode, const AddressSpace& memory,
                                                     Observer* observer);
  ~Definedness();
  Definedness(const Definedness&) = delete;
  Definedness& operator=(const Definedness&) = delete;

  bool tracking() const { return mode_ == DefinednessMode::track; }
  /// An undefined value was read somewhere (watch): tracking would tell whether it mattered.
  bool met() const { return met_.load(std::memory_order_relaxed); }
  void meet() { met_.store(true, std::memory_order_relaxed); }
  /// Why the answer is incomplete.
  std::set<std::string> gaps() const;
  void add_gap(std::string reason);

  // --- the host's side
  void allocated(uint64_t address, uint64_t bytes);
  void host_wrote(uint64_t address, uint64_t bytes);
  void host_copied(uint64_t destination, uint64_t source, uint64_t bytes);
  /// From now on nobody knows what global memory was written: only a part of a launch ran.
  void lose_global() { global_known_ = false; }
  /// Reports undefined elements of global memory that were written.
  void check_output(uint64_t address, uint64_t bytes, uint32_t element_bytes);

  /// Digest of which bytes of all live allocations were written.
  uint64_t digest() const;

  // --- a launch's side
  void start_cta(Cta& cta);
  void start_warp(Warp& warp);
  void start_frame(Warp& warp, const Frame& frame);

  // --- memory
  /// Bytes of some memory and what is known of them. `written` null: not ours to know, all defined.
  struct View {
    uint64_t* written = nullptr;
    uint64_t bit = 0;
    std::byte* undefined = nullptr;
    std::byte* origin = nullptr;
    CtaDefinedness* cta = nullptr;
    Space space = Space::global;
    uint64_t address = 0;
  };
  /// Watching only.
  View global_view(uint64_t address) const {
    View view;
    view.written = written_;
    view.bit = address - kGlobalWindow;
    view.address = address;
    return view;
  }
  View view(Cluster& cluster, Space space, uint64_t address, uint32_t bytes);
  static View local_view(Warp& warp, unsigned lane, uint64_t offset, uint32_t bytes);
  /// The bytes were written.
  static void mark(const View& view, uint64_t bytes) {
    if (view.written == nullptr) return;
    if (view.cta != nullptr) {
      if (view.cta->unwritten != 0) {
        view.cta->unwritten -= static_cast<uint32_t>(set_bits<false>(view.written, view.bit, bytes));
      }
    } else if (view.space == Space::global) {
      set_bits<true>(view.written, view.bit, bytes);
    } else {
      set_bits<false>(view.written, view.bit, bytes);
    }
  }
  /// Whether all bytes were written; settles for global memory what is no cudaMalloc memory.
  bool written(const View& view, uint64_t bytes) {
    if (view.written == nullptr || (view.cta != nullptr && view.cta->unwritten == 0)) return true;
    if (all_set(view.written, view.bit, bytes)) [[likely]]
      return true;
    return view.space == Space::global && settle(view.address);
  }

  // --- tracking
  /// Undefined bits of `bytes` bytes; false if there are none. Bytes nobody wrote get an origin: this read.
  bool read(const View& view, uint32_t bytes, std::byte* undefined, OriginId& from, const Agent& agent, Site site);
  void write(const View& view, uint32_t bytes, const std::byte* undefined, OriginId from, const Agent& agent,
             Site site);
  /// Copies what is known of the bytes.
  void copy(const View& to, const View& from, uint32_t bytes, const Agent& agent, Site site);
  void define(const View& view, uint32_t bytes, const Agent& agent, Site site);
  /// Makes the mirrors of unwritten bytes say so, and gives them an origin.
  void settle_mirror(const View& view, uint32_t bytes, const Agent& agent, Site site);
  OriginId new_origin(const UndefinedOrigin& origin);
  FrameDefinedness& frame_of(Warp& warp);
  void report(UndefinedUse use, const Agent& agent, Site site, OriginId from);

  // --- asynchronous operations, at their issue
  struct Box {
    const TensorMap* map = nullptr;
    const BoxCoordinates* coordinates = nullptr;
    uint32_t shared_offset = 0;  ///< of the box in its CTA's shared memory
  };
  void issue(Cluster& cluster, const AsyncIssueEvent& event, const Box& box, uint32_t element_bytes);
  /// A warp's part of a wgmma. `d` and `a` are offsets in the register file.
  void issue_wgmma(Warp& warp, const AsyncIssueEvent& event, const WgmmaShape& shape, const WgmmaStep& step,
                   std::span<const uint32_t> d, std::span<const uint32_t> a);
  /// Arguments and results of a call.
  static void copy_local(Warp& warp, unsigned lane, uint64_t to, uint64_t from, uint32_t bytes);

 private:
  Definedness(DefinednessMode mode, const AddressSpace& memory, Observer* observer)
      : mode_(mode), memory_(memory), observer_(observer) {}
  bool settle(uint64_t address);
  void combine(const View& to, const View& from, uint32_t bytes, uint32_t element_bytes, const Agent& agent, Site site);
  void remember_writer(const View& view, uint32_t bytes, const Agent& agent, Site site);

  DefinednessMode mode_;
  const AddressSpace& memory_;
  Observer* observer_;
  std::atomic<bool> met_{false};
  std::atomic<bool> global_known_{true};
  uint64_t* written_ = nullptr;  ///< a bit per byte of the global window
  std::byte* undefined_ = nullptr;
  std::byte* origin_ = nullptr;
  std::vector<UndefinedOrigin> origins_;
  std::unordered_map<uint64_t, OriginId> origin_index_;
  struct Writer {
    Agent agent;
    Site site;
  };
  std::vector<Writer> writers_;
  std::unordered_map<uint64_t, uint32_t> writer_index_;  ///< by site and thread
  std::unordered_map<uint64_t, uint32_t> written_by_;    ///< by address / 4: who wrote the undefined value there
  /// Register numbers by slot, of functions with wgmma. Tracking keeps programs to its end.
  std::unordered_map<const FunctionCode*, std::unordered_map<uint32_t, uint32_t>> registers_of_;
  mutable std::mutex gaps_mutex_;
  std::set<std::string> gaps_;
};

/// The register planes of a function: see FrameDefinedness.
uint32_t plane_count(const ptx::Function& function);
/// The plane of a 128-bit register's upper half.
uint32_t high_plane(const ptx::Function& function, uint32_t reg);

}  // namespace ptxbench::emulator
