#include "kernel_fixture.h"

#include <map>

/// The order of events that docs/memory-model.md promises.
namespace ptxbench::emulator {
namespace {

class Recorder : public Observer {
 public:
  struct Entry {
    std::string what;
    uint64_t id = 0;      ///< asynchronous operation
    uint64_t number = 0;  ///< group, phase or generation
    int64_t bytes = 0;
    uint32_t lanes = 0, warp = 0;
  };
  void on_access(const AccessEvent& e) override {
    if (e.kind == AccessKind::write) clashing.push_back(e.clashing);
  }
  void on_fence(const FenceEvent& e) override { add("fence", 0, static_cast<uint64_t>(e.kind), 0, e.agent); }
  void on_barrier(const BarrierEvent& e) override {
    static constexpr const char* kActions[] = {"arrive", "wait_begin", "wait_end"};
    add(std::string(e.kind == BarrierKind::cta ? "cta " : "cluster ") + kActions[static_cast<int>(e.action)], 0,
        e.generation, 0, e.agent);
  }
  void on_mbarrier(const MbarrierEvent& e) override {
    static constexpr const char* kActions[] = {"init",   "invalidate", "arrive",  "drop",
                                               "expect", "complete",   "success", "failure"};
    add(std::string("mbarrier ") + kActions[static_cast<int>(e.action)], e.completed_by, e.phase, e.bytes, e.agent);
  }
  void on_async_issue(const AsyncIssueEvent& e) override {
    int64_t written = 0;
    for (const ByteRange& range : e.writes) written += range.bytes;
    add("issue", e.id, e.completion_target, written, e.agent);
    issues[e.id] = e;
    for (const ByteRange& range : e.reads) read_bytes[e.id] += range.bytes;
  }
  void on_async_effect(uint64_t id, AsyncEffect effect) override {
    add(effect == AsyncEffect::reads_done ? "reads" : "writes", id, 0, 0, {});
  }
  void on_group_commit(const Agent& agent, Site, Completion, uint64_t group) override {
    add("commit", 0, group, 0, agent);
  }
  void on_group_wait(const GroupWaitEvent& e) override {
    add(e.reads_only ? "wait reads" : "wait", 0, e.group, 0, e.agent);
  }

  /// Position of the first entry of this kind (and id) at or after `from`; the test fails without one.
  size_t find(const std::string& what, size_t from = 0, uint64_t id = 0) const {
    for (size_t i = from; i < entries.size(); ++i) {
      if (entries[i].what == what && (id == 0 || entries[i].id == id)) return i;
    }
    ADD_FAILURE() << "no event '" << what << "' from " << from;
    return entries.size();
  }

  std::vector<Entry> entries;
  std::vector<uint32_t> clashing;  ///< by store
  std::map<uint64_t, AsyncIssueEvent> issues;
  std::map<uint64_t, uint64_t> read_bytes;

 private:
  void add(std::string what, uint64_t id, uint64_t number, int64_t bytes, const Agent& agent) {
    entries.push_back({std::move(what), id, number, bytes, agent.lanes, agent.warp});
  }
};

class ObserverTest : public KernelTest {
 protected:
  ObserverTest() { observer = &recorder; }
  Recorder recorder;
};
PTXBENCH_ALL_POLICIES(ObserverTest);

TEST_P(ObserverTest, BulkLoad) {
  const uint64_t in = zeros<uint32_t>(64);
  run(kernel(R"(
  .shared .align 128 .b8 buf[256];
  .shared .align 8 .b64 bar;
  mov.u32 %r10, bar;
  mov.u32 %r11, buf;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r10], 1;
  fence.mbarrier_init.release.cluster;
  bar.warp.sync -1;
  @!%p0 bra wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 128, [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
)"),
      {}, {0, in});
  const size_t init = recorder.find("mbarrier init"), fence = recorder.find("fence", init);
  const size_t expect = recorder.find("mbarrier expect", fence), arrive = recorder.find("mbarrier arrive", expect);
  const size_t issue = recorder.find("issue", arrive);
  const uint64_t id = recorder.entries.at(issue).id;
  const size_t reads = recorder.find("reads", issue, id), writes = recorder.find("writes", reads, id);
  const size_t complete = recorder.find("mbarrier complete", writes, id);
  const size_t success = recorder.find("mbarrier success", complete);
  EXPECT_EQ(recorder.entries[expect].bytes, 128);
  EXPECT_EQ(recorder.entries[issue].bytes, 128);
  EXPECT_EQ(recorder.entries[issue].lanes, 1u);
  EXPECT_EQ(recorder.read_bytes[id], 128u);
  EXPECT_EQ(recorder.entries[complete].number, 0u);
  EXPECT_EQ(recorder.entries[success].number, 1u);
}

TEST_P(ObserverTest, GroupsOfBulkStores) {
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(R"(
  .shared .align 128 .b8 buf[256];
  mov.u32 %r11, buf;
  setp.eq.u32 %p0, %r0, 3;
  @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r11], 64;
  @%p0 cp.async.bulk.commit_group;
  @%p0 cp.async.bulk.wait_group.read 0;
  @%p0 cp.async.bulk.wait_group 0;
)"),
      {}, {out});
  const size_t issue = recorder.find("issue"), commit = recorder.find("commit", issue);
  const uint64_t id = recorder.entries.at(issue).id;
  const size_t reads = recorder.find("reads", issue, id), early = recorder.find("wait reads", reads);
  const size_t writes = recorder.find("writes", reads, id), late = recorder.find("wait", writes);
  EXPECT_LT(commit, early);
  EXPECT_LT(early, late);
  if (GetParam() == CompletionPolicy::lazy) {
    EXPECT_GT(writes, early);
  }
  EXPECT_EQ(recorder.entries[issue].lanes, 8u);
  EXPECT_EQ(recorder.entries[commit].number, 0u);
  EXPECT_EQ(recorder.entries[late].number, 0u);
}

TEST_P(ObserverTest, BarrierPhases) {
  run(kernel("bar.sync 0;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"), {.block = 64});
  unsigned arrived = 0, left = 0;
  for (const auto& entry : recorder.entries) {
    if (entry.what == "cta arrive") {
      EXPECT_EQ(entry.number, 0u);
      EXPECT_EQ(left, 0u);
      ++arrived;
    } else if (entry.what == "cta wait_end") {
      EXPECT_EQ(entry.number, 1u);
      EXPECT_EQ(arrived, 2u);
      ++left;
    }
  }
  EXPECT_EQ(left, 2u);
  const size_t last_arrival = recorder.find("cluster arrive", recorder.find("cluster arrive") + 1);
  EXPECT_GT(recorder.find("cluster wait_end"), last_arrival);
}

/// Two lanes share each place; what they store differs in all lanes, in none that is stored, or in one pair.
TEST_P(ObserverTest, LanesThatStoreToOnePlace) {
  run(kernel(R"(
  .shared .align 16 .b8 buf[512];
  .reg .b128 %q;
  mov.u32 %r10, buf;
  shr.u32 %r11, %r1, 1;
  add.u32 %r12, %r10, %r11;
  mad.lo.u32 %r13, %r11, 2, %r10;
  mad.lo.u32 %r14, %r11, 8, %r10;
  mad.lo.u32 %r15, %r11, 16, %r10;
  mad.lo.u32 %r16, %r1, 4, %r10;
  st.shared.u8 [%r12], %r1;
  shl.b32 %r20, %r1, 16;
  st.shared.u16 [%r13], %r20;
  setp.eq.u32 %p0, %r1, 5;
  selp.u32 %r21, 1, 0, %p0;
  st.shared.v2.u32 [%r14], {7, %r21};
  setp.eq.u32 %p1, %r1, 9;
  selp.u64 %rd21, 1, 0, %p1;
  mov.b128 %q, {%rd1, %rd21};
  st.shared.b128 [%r15], %q;
  @%p0 st.shared.u32 [%r10], %r1;
  st.shared.u32 [%r16], %r1;
  and.b32 %r22, %r1, 7;
  mad.lo.u32 %r23, %r22, 16, %r10;
  stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r23], {%r11, %r11};
  setp.lt.u32 %p2, %r1, 4;
  selp.u32 %r24, %r11, 99, %p2;
  stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r23], {%r11, %r24};
)"),
      {});
  // Of the second pair of matrices only the first rows are equal; lanes 0 and 8 give their addresses.
  EXPECT_THAT(recorder.clashing, testing::ElementsAre(0xffffffffu, 0, 0x30, 0x300, 0, 0, 0, 0xfefe));
}

TEST_P(ObserverTest, Wgmma) {
  run(kernel(R"(
  .shared .align 1024 .b8 buf[4096];
  mov.u32 %r10, buf;
  and.b32 %r6, %r10, 0x3ffff;
  shr.u32 %r6, %r6, 4;
  cvt.u64.u32 %rd20, %r6;
  or.b64 %rd20, %rd20, 0x1000080000;
  add.u64 %rd21, %rd20, 128;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, 0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)"),
      {.block = 128});
  unsigned issues = 0;
  for (const auto& entry : recorder.entries) issues += entry.what == "issue" ? 1 : 0;
  EXPECT_EQ(issues, 4u);
  for (const auto& [id, event] : recorder.issues) {
    EXPECT_EQ(recorder.read_bytes[id], 64u * 32 + 8 * 32);
    EXPECT_FALSE(event.accumulates);
    const size_t issue = recorder.find("issue", 0, id);
    EXPECT_EQ(recorder.entries[issue].bytes, 16);  // four registers
    EXPECT_GT(recorder.find("writes", issue, id), issue);
  }
  // No warp's wait is over before every warp has committed and executed.
  const size_t first_wait = recorder.find("wait");
  size_t commits = 0, effects = 0;
  for (size_t i = 0; i < first_wait; ++i) {
    commits += recorder.entries[i].what == "commit" ? 1 : 0;
    effects += recorder.entries[i].what == "writes" ? 1 : 0;
  }
  EXPECT_EQ(commits, 4u);
  EXPECT_EQ(effects, 4u);
}

}  // namespace
}  // namespace ptxbench::emulator
