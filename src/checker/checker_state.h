#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checker/checker.h"
#include "checker/shadow.h"
#include "checker/threads.h"
#include "checker/tiles.h"
#include "checker/undefined.h"

/// What the checker remembers of a launch, for the sources of this room only. Its functions stand in one file for each
/// subject: checker_launches (clusters, accesses, exits), checker_sync (fences, barriers, strong locations),
/// checker_async (copies and wgmma), checker_outputs, and checker_findings, where a conflict gets its rule and its
/// text.
namespace ptxbench::checker {

using emulator::Agent;
using emulator::AsyncKind;
using emulator::BarrierAction;
using emulator::BarrierKind;
using emulator::Completion;
using emulator::FenceKind;
using emulator::MbarrierAction;
using emulator::Scope;
using emulator::Semantics;
using emulator::Site;
using emulator::Space;

inline Reach reach_of(Semantics semantics, Scope scope) {
  if (semantics == Semantics::weak) return Reach::none;
  if (semantics == Semantics::volatile_) return Reach::gpu;
  switch (scope) {
    case Scope::cta:
      return Reach::cta;
    case Scope::cluster:
      return Reach::cluster;
    default:
      return Reach::gpu;
  }
}

inline bool releases(Semantics s) { return s == Semantics::release || s == Semantics::acq_rel || s == Semantics::sc; }
inline bool acquires(Semantics s) { return s == Semantics::acquire || s == Semantics::acq_rel || s == Semantics::sc; }

inline bool within(Reach reach, const Position& a, const Position& b) {
  if (reach == Reach::gpu) return true;
  if (a.cluster != b.cluster) return false;
  return reach == Reach::cluster || (reach == Reach::cta && a.cta == b.cta);
}

const char* name_of(AsyncKind kind);

/// A strong write and what it hands on.
struct Release {
  Knowledge knowledge;
  Reach reach{};
  Position position;
};

using Locations = std::unordered_map<uint64_t, std::vector<Release>>;  ///< by address

/// Registers that a wgmma names: the same for all executions of the instruction.
struct WgmmaRegisters {
  std::vector<uint32_t> accumulators, fragments;  ///< sorted
  std::vector<uint32_t> given[2];                 ///< the same as the instruction lists them
};

/// What the threads that arrived at a barrier hand on, by phase.
struct BarrierArrivals {
  Knowledge knowledge;
  Released released;
};
using BarrierPhases = std::map<uint64_t, BarrierArrivals>;

/// A wgmma of one warp between issue and wait.
struct RegistersInFlight {
  uint64_t group = 0;
  const WgmmaRegisters* named = nullptr;
  uint32_t site = 0;
  bool committed = false;
  uint32_t waited_for = 0;  ///< site of a wait that came while it was not committed
};

struct WarpRegisters {
  std::vector<RegistersInFlight> in_flight;
  std::map<uint32_t, uint32_t> written;  ///< since the last wgmma.fence: register, site
};

/// A group wait of some thread of a warp, to explain what it did not cover.
inline constexpr size_t kRememberedWaits = 64;
struct GroupWait {
  uint64_t serial = 0;
  bool reads_only = false;
};

struct Output {
  std::string name;
  uint64_t address = 0, bytes = 0;
  uint32_t element_bytes = 1;
  std::vector<bool> written;  ///< by byte
  struct Writer {
    Timeline timeline = 0;
    uint32_t lane = 0, site = 0;
    bool plain = false;
  };
  std::vector<Writer> writers;  ///< by element: the last thread that stored to it in this launch
};

/// What the arrivals of one phase hand on.
struct Arrivals {
  Knowledge own;    ///< of the barrier's CTA
  Knowledge peers;  ///< of other CTAs, by arrivals whose scope reaches this one
  Clock narrow;     ///< of other CTAs, by arrivals of CTA scope

  void join(const Arrivals& other) {
    own.join(other.own);
    peers.join(other.peers);
    narrow.join(other.narrow);
  }
};

struct Mbarrier {
  bool live = false;
  Timeline timeline = 0;  ///< phases completed, over all initialisations
  Time base = 0;          ///< phases of earlier initialisations
  // The initialising thread.
  Timeline init_on = 0;
  Time init_at = 0;
  uint32_t init_lanes = 0;
  uint32_t init_site = 0;
  bool init_reported = false;
  bool used = false;                      ///< since its initialisation
  bool again = false;                     ///< initialised again before anybody used it, as far as this run shows
  std::map<uint64_t, Arrivals> arrivals;  ///< by phase, of those that no wait has asked for
  Arrivals arrived;                       ///< in all phases before
  // The phase that is going on, as far as the transaction bytes tell.
  uint64_t ledger_phase = 0;
  int64_t expected = 0, completed = 0;
  uint32_t expect_site = 0;
  Agent expect_agent;
  Time observed = 0;  ///< the latest time that any wait has seen
  /// By warp: when a wait on this barrier last succeeded, and where.
  std::map<uint32_t, std::pair<uint64_t, uint32_t>> waits;
};

struct OperationInfo {
  AsyncKind kind{};
  Completion completion{};
  uint64_t group = 0;       ///< or the mbarrier's address
  uint64_t phase = 0;       ///< of the mbarrier at the issue
  uint64_t serial = 0;      ///< of the issue, among all events
  bool tensor_map = false;  ///< the access to a tensor map that belongs to the operation
  uint32_t site = 0;
  Agent agent;
};

/// A wgmma that not all warps of its warpgroup have issued yet.
struct WarpgroupIssue {
  unsigned warps = 0;
  Knowledge knowledge[4];  ///< by warp
  uint64_t states[4] = {};
};

/// What the warps of a warpgroup knew together when they issued a wgmma, and in which states they were.
struct WarpgroupKnowledge {
  uint64_t states[4] = {};
  Knowledge knowledge;
};

/// How a CTA of a cluster ends while others use its shared memory.
struct CtaEnd {
  struct Use {
    uint32_t lanes = 0;
    Time time = 0;
    uint32_t site = 0;
    uint64_t address = 0;
  };
  std::map<Timeline, Use> uses;  ///< the last use by each warp of another CTA
  Knowledge known;               ///< to the threads that have exited
  std::vector<uint32_t> live;    ///< by warp
  uint32_t live_warps = 0;
  uint32_t exit_site = 0;
};

struct Cluster {
  uint32_t index = 0;
  std::vector<WarpThreads> warps;
  std::map<std::pair<uint32_t, uint32_t>, BarrierPhases> barriers;  ///< by CTA and id
  BarrierPhases cluster_arrivals;
  std::map<uint64_t, Mbarrier> mbarriers;
  std::unordered_map<uint64_t, std::vector<uint32_t>> operations;  ///< event id -> numbers in the operation table
  std::map<uint32_t, Timeline> cp_async, bulk_reads, bulk_writes;  ///< by warp
  std::map<std::tuple<uint32_t, unsigned>, uint64_t> bulk_issued;  ///< (warp, lane) -> groups with operations
  std::map<std::tuple<uint32_t, unsigned>, uint64_t> cp_issued;
  std::map<uint32_t, Timeline> wgmma;                                             ///< by warpgroup
  std::map<std::pair<uint32_t, uint64_t>, WarpgroupIssue> wgmma_issues;           ///< (warpgroup, sequence number)
  std::map<uint32_t, uint64_t> wgmma_sequence;                                    ///< by warp
  std::map<uint32_t, WarpgroupKnowledge> wgmma_knowledge;                         ///< by warpgroup, at its last wgmma
  std::map<std::pair<uint32_t, uint64_t>, Knowledge> wgmma_groups;                ///< (warpgroup, group)
  std::map<uint32_t, WarpRegisters> registers;                                    ///< by warp
  std::map<std::pair<uint32_t, Completion>, std::vector<GroupWait>> group_waits;  ///< by warp, oldest first
  std::set<std::pair<uint32_t, unsigned>> handed_over;  ///< (warp, lane): a cp.async.mbarrier.arrive answers for them
  Locations locations;                                  ///< in shared memory
  Tiles tiles;
  std::unique_ptr<Shadow> shared;
  std::vector<CtaEnd> ends;  ///< by rank
  bool over = false;         ///< all threads have exited, nothing is in flight: judged, and most of it forgotten
};

/// Where a warp or an operation's timeline belongs.
struct Place {
  Position position;
  uint32_t warp = 0;
};

/// Work on a stream that is over here, but that later work may overlap on a GPU.
struct EarlierWork {
  uint64_t process = 0, stream = 0, position = 0, launch = 0;
  size_t bytes = 0;  ///< of memory, when it was kept
  emulator::StreamOrder order;
  // Of a kernel: its accesses to global memory, and what they refer to.
  std::unique_ptr<Shadow> global;
  std::vector<Place> places;
  std::vector<OperationInfo> infos;
  std::vector<Site> sites;  ///< by number; empty: numbers are the checker's own
  emulator::ByteRange parameters;
  std::unordered_map<uint64_t, Clock> releases;      ///< by address: what its last strong write there hands on
  std::vector<emulator::StreamOrder> received_from;  ///< work that handed something over to it, also over others
  bool triggered = false;                            ///< it executed griddepcontrol.launch_dependents
  /// In some CTA every griddepcontrol.launch_dependents comes after a griddepcontrol.wait: whatever it starts comes
  /// after what it waited for.
  bool waited = false;
  // Of a copy or a fill, or of a kernel that was not watched because nothing in it can race; disjoint, by address.
  bool proved = false;      ///< then its reads are not known
  bool parts_only = false;  ///< only parts of the ranges were touched, which ones is not known
  std::string what;
  std::vector<emulator::StreamCopyEvent::Range> reads, writes;

  static constexpr size_t kReleaseBytes = 512;  ///< about: a clock mostly shares its entries
  size_t memory() const {
    return (global != nullptr ? global->memory() : 0) + places.size() * sizeof(Place) +
           infos.size() * sizeof(OperationInfo) + releases.size() * kReleaseBytes +
           order.before.size() * sizeof(emulator::StreamPosition) +
           received_from.size() * sizeof(emulator::StreamOrder) +
           (reads.size() + writes.size()) * sizeof(emulator::StreamCopyEvent::Range);
  }
};

class Checker::State {
 public:
  explicit State(CheckerOptions options) : options_(std::move(options)) {
    operations_.emplace_back();
    infos_.emplace_back();
    sites_.push_back({});
  }

  void launch_begin(const emulator::LaunchEvent& event);
  void launch_end();
  void stream_copy(const emulator::StreamCopyEvent& event);
  /// Work that nothing orders may overlap a launch: then every access matters. As long as there is one stream only a
  /// dependent launch can.
  bool alone() const {
    return overlaps_.empty() && (!order_ || !order_->known || (order_->single_stream && !order_->programmatic));
  }
  bool accepts_proof() const { return options_.accept_proofs && !stopped_ && alone(); }
  void proved(std::span<const emulator::ByteRange> written);
  bool needs_watching() const;
  /// States for `workers` threads that share the launch that has just begun; none if it is not one to be shared.
  /// Without `outputs` they do not look at who writes outputs.
  std::vector<std::unique_ptr<State>> fork(unsigned workers, bool outputs) const;
  /// The launch is over, and together the workers saw all of it. False: there is something to be said about it, which
  /// takes one state that sees everything.
  bool join(const std::vector<std::unique_ptr<State>>& workers);
  void access(const emulator::AccessEvent& event);
  void exited(const Agent& agent, Site site);

  void fence(const emulator::FenceEvent& event);
  void barrier(const emulator::BarrierEvent& event);
  void mbarrier(const emulator::MbarrierEvent& event);

  void issue(const emulator::AsyncIssueEvent& event);
  void group_commit(const Agent& agent, Completion kind, uint64_t group);
  void group_wait(const emulator::GroupWaitEvent& event);
  void registers(const emulator::RegisterEvent& event);

  void undefined_use(const emulator::UndefinedEvent& event) { add(undefined_finding(event)); }
  void watch_output(std::string name, uint64_t address, uint64_t bytes, uint32_t element_bytes);
  void finish_outputs();

  std::vector<Finding> findings;
  uint64_t dropped = 0;
  std::set<std::string> unknown;

 private:
  struct IssueKey {
    uint32_t instruction = 0;
    Timeline warp = 0;
    uint64_t work = 0;
    bool operator==(const IssueKey&) const = default;
  };
  /// Earlier work that nothing orders before the launch at hand. `timeline` stands for all of it: its time 1 is known
  /// to threads that come after it all the same.
  struct Overlap {
    EarlierWork* work = nullptr;
    Timeline timeline = 0;
    bool until_wait = false;  ///< griddepcontrol.wait completes it
    /// Time 1 of the timeline is known to threads that come after the work's release of the address.
    std::vector<std::pair<uint64_t, Timeline>> handed_over;
    Timeline chained = 0;  ///< known to threads that may come after the work by hand-overs over other kernels
  };
  /// Part of an access: consecutive bytes of lanes that know the same.
  struct Piece {
    Context context;
    Access access;
    uint64_t address = 0;
    uint32_t bytes = 0;
  };
  using IssuedGroups = std::map<std::tuple<uint32_t, unsigned>, uint64_t>;

  // --- who and where
  static uint32_t rank_of(uint64_t shared_address) { return static_cast<uint32_t>(shared_address >> 24); }
  uint32_t warp_index(const Agent& agent) const { return agent.cta_rank * warps_per_cta_ + agent.warp; }
  uint32_t warpgroup_of(const Agent& agent) const {
    return agent.cta_rank * ((warps_per_cta_ + 3) / 4) + agent.warp / 4;
  }
  Cluster& cluster_of(const Agent& agent) {
    if (last_cluster_ != nullptr && last_cluster_->index == agent.cluster && clusters_.size() == last_count_)
      return *last_cluster_;
    return enter_cluster(agent);
  }
  Cluster& enter_cluster(const Agent& agent);
  /// Judges what a cluster leaves behind, and forgets what nobody will ask for again.
  void finish_cluster(Cluster& cluster);
  /// Mbarriers that operations of the cluster have yet to signal.
  std::set<uint64_t> awaited_mbarriers(const Cluster& cluster) const;
  WarpThreads& warp_of(Cluster& cluster, const Agent& agent) { return cluster.warps[warp_index(agent)]; }
  Shadow& shadow_of(Cluster& cluster, Space space) { return space == Space::shared ? *cluster.shared : *global_; }
  Timeline new_timeline(Position position, uint32_t warp = 0);
  Timeline timeline_in(std::map<uint32_t, Timeline>& timelines, uint32_t key, Position position);
  Position position_of(Timeline timeline) const { return timeline_places_[timeline].position; }
  uint32_t site_number(const Site& site);

  // --- accesses and exits
  /// Splits a warp's access into runs of lanes with consecutive addresses, and lanes that share an address.
  void cut(const Context& context, Access access, uint32_t lanes, const uint64_t* addresses, uint32_t bytes);
  /// Lanes in order touch bytes in order: no two of them the same ones.
  static bool disjoint(const emulator::AccessEvent& event);
  /// A warp's lanes may use the shared memory of several CTAs at once.
  void use_peers(Cluster& cluster, const emulator::AccessEvent& event);
  /// `agent` uses the shared memory of the CTA that `address` belongs to.
  void use_peer(Cluster& cluster, const Agent& agent, Site site, uint64_t address);
  void end_lanes(Cluster& cluster, WarpThreads& warp, const Agent& agent, Site site);
  void bound_memory(const Cluster& cluster);

  // --- other work on streams
  bool comes_after(const emulator::StreamOrder& order, const EarlierWork& work) const;
  void meet_earlier(const emulator::StreamOrder* order);
  void begin_overlaps();
  void keep_earlier(EarlierWork work, const emulator::StreamOrder* order);
  /// The launch at hand was not watched.
  void keep_proved(std::span<const emulator::ByteRange> written);
  void grid_dependency(const emulator::BarrierEvent& event, WarpThreads& warp);
  bool waited_before_triggers() const;
  void acquire_from_overlaps(const emulator::AccessEvent& event, WarpThreads& warp);
  void keep_releases(EarlierWork& work) const;
  bool may_be_chained(const Overlap& overlap, const Knowledge& knowledge);
  /// A release of the earlier work that `knowledge` comes after covers its access.
  bool handed_over(const Overlap& overlap, const Knowledge& knowledge, const Access& earlier, uint32_t bytes);
  void compare_with_overlaps(const Context& context, const Access& access, uint32_t lanes, uint64_t address,
                             uint32_t bytes);
  Site site_of(const EarlierWork& work, const Access& access) const {
    return work.sites.empty() ? sites_[access.site] : work.sites[access.site];
  }
  void report_overlap(const Overlap& overlap, const Access* earlier, const Access& later, uint32_t lanes,
                      uint64_t address, uint32_t bytes);

  // --- synchronisation
  Locations& locations_of(Cluster& cluster, Space space) {
    return space == Space::shared ? cluster.locations : locations_;
  }
  void acquire_locations(Cluster& cluster, const emulator::AccessEvent& event, WarpThreads& warp,
                         const Position& position, Reach reach);
  void publish_locations(Cluster& cluster, const emulator::AccessEvent& event, WarpThreads& warp,
                         const Position& position, Reach reach, bool atomic);
  void check_init_seen(const Agent& agent, const Site& site, uint64_t address, WarpThreads& warp, Mbarrier& barrier);

  // --- asynchronous operations
  void remember_issue(IssuedGroups& issued, const emulator::AsyncIssueEvent& event);
  void unwaited_groups(Cluster& cluster, const Agent& agent, Site site, unsigned lane, uint32_t index,
                       const Knowledge& knowledge, IssuedGroups& issued, std::map<uint32_t, Timeline>& timelines,
                       const char* what);
  void arrive_for_copies(Cluster& cluster, const emulator::MbarrierEvent& event, Mbarrier& barrier);
  void complete(Cluster& cluster, const emulator::MbarrierEvent& event, Mbarrier& barrier);
  void issue_wgmma(Cluster& cluster, WarpThreads& warp, const emulator::AsyncIssueEvent& event);
  void check_tile(Cluster& cluster, const emulator::AsyncIssueEvent& event,
                  const emulator::AsyncIssueEvent::TileLayout& layout, const char* operand);
  /// Where the registers of one site lie differs between specialised and general code.
  const WgmmaRegisters& registers_of(const emulator::AsyncIssueEvent& event, uint32_t site);
  void check_registers(Cluster& cluster, const emulator::AsyncIssueEvent& event);

  // --- outputs
  void mark_output(uint64_t address, uint64_t bytes);
  void mark_writers(const emulator::AccessEvent& event, const WarpThreads& warp, uint32_t site, bool plain);
  /// A value that was read is built upon: what is written next is no second opinion.
  void forget_writers(const emulator::AccessEvent& event);

  // --- findings
  void conflict(Space space, const Report& report);
  /// Lanes of one store write different values to the same bytes.
  void report_clash(const emulator::AccessEvent& event);
  void unfinished(const OperationInfo& info);
  void report_exit(const Agent& agent, Site site, uint64_t address, uint32_t exit_site);
  std::string unfenced_rule(Space space, const Report& report) const;
  /// What the threads did instead of the wait that was needed, if that tells more.
  std::string in_flight_rule(const Access& earlier, const Access& later, const char* otherwise);
  std::string wait_advice(const Access& earlier) const;
  Party party_of(Timeline timeline, uint32_t lanes, uint32_t site, std::string what) const;
  std::string describe(const Access& access) const;
  Finding finding(std::string rule, Severity severity, const Agent& agent, Site site, Space space, uint64_t address,
                  uint32_t bytes) const;
  void add(Finding found);

  CheckerOptions options_;
  emulator::LaunchEvent launch_;
  uint32_t ctas_ = 1, warps_per_cta_ = 1, last_lanes_ = kAllLanes;
  std::map<uint32_t, std::unique_ptr<Cluster>> clusters_;
  size_t running_ = 0;  ///< clusters that are not over
  Cluster* last_cluster_ = nullptr;
  size_t last_count_ = 0;
  std::unique_ptr<Shadow> global_;
  std::vector<Operation> operations_;
  std::vector<OperationInfo> infos_;
  std::vector<Place> timeline_places_;
  Locations locations_;  ///< in global memory
  std::unordered_map<uint64_t, uint32_t> site_numbers_;
  std::vector<Site> sites_;
  std::set<Timeline> fenced_[2];  ///< warps that executed a proxy fence: of shared, of global memory
  std::vector<Output> outputs_;
  std::deque<EarlierWork> earlier_;
  size_t earlier_bytes_ = 0;
  std::map<uint64_t, uint64_t> forgotten_;  ///< by stream: the latest work that was dropped to save memory
  std::vector<EarlierWork> worker_parts_;   ///< what the workers of the launch at hand saw
  std::vector<Overlap> overlaps_;           ///< of the launch at hand
  std::optional<emulator::StreamOrder> order_;
  bool triggered_ = false;
  Timeline waits_ = 0;  ///< its time 1 is known to threads that come after a griddepcontrol.wait
  /// CTAs that waited or knew of a wait when they triggered; CTAs in which a trigger may come before the wait.
  std::set<std::pair<uint32_t, uint32_t>> held_ctas_, early_ctas_;
  bool proved_ = false;  ///< the launch at hand was not watched; it wrote `proved_writes_`
  std::vector<emulator::StreamCopyEvent::Range> proved_writes_;
  std::unordered_map<uint32_t, std::vector<std::unique_ptr<WgmmaRegisters>>> wgmma_registers_;  ///< by site
  uint64_t serial_ = 0;
  IssueKey last_issue_;
  uint32_t last_issue_lanes_ = 0;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, size_t> known_;
  std::vector<Piece> pieces_;  ///< of the access at hand
  uint64_t touches_ = 0;
  bool stopped_ = false;
};

}  // namespace ptxbench::checker
