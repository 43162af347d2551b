#include "emulator/isa/engine.h"

/// barrier.cluster (PTX ISA, "Parallel Synchronization and Communication Instructions: barrier.cluster"): counts
/// threads, each for itself, over all threads of the cluster that have not exited.
namespace ptxbench::emulator {
namespace {

using ptx::Mod;

size_t cluster_index(const Warp& warp) {
  return warp.cta->rank * size_t{warp.cluster->launch->warps_per_cta} + warp.index;
}

void prepare(ClusterBarrier& barrier, const Cluster& cluster) {
  if (barrier.arrived.size() == cluster.warps.size()) return;
  barrier.arrived.assign(cluster.warps.size(), 0);
  barrier.unwaited.assign(cluster.warps.size(), 0);
}

bool complete_cluster_if_full(Cluster& cluster) {
  ClusterBarrier& barrier = cluster.barrier;
  if (barrier.arrived_threads == 0 || barrier.arrived_threads < barrier.expected_threads) return false;
  ++barrier.generation;
  barrier.arrived_threads = barrier.expected_threads = 0;
  for (size_t w = 0; w < cluster.warps.size(); ++w) {
    barrier.arrived[w] = 0;
    barrier.expected_threads += static_cast<uint32_t>(std::popcount(cluster.warps[w].live));
  }
  ++cluster.progress;
  return true;
}

}  // namespace

void recheck_cluster_barrier(Cluster& cluster) {
  ClusterBarrier& barrier = cluster.barrier;
  prepare(barrier, cluster);
  barrier.expected_threads = 0;
  for (size_t w = 0; w < cluster.warps.size(); ++w) {
    barrier.expected_threads += static_cast<uint32_t>(std::popcount(cluster.warps[w].live | barrier.arrived[w]));
  }
  complete_cluster_if_full(cluster);
}

namespace {

struct ClusterBarrierOp {
  Semantics semantics{};
  bool aligned = false;
};

void send_cluster(Warp& warp, const Inst& inst, BarrierAction action, uint64_t generation, uint32_t lanes) {
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return;
  const auto& op = *static_cast<const ClusterBarrierOp*>(inst.extra);
  BarrierEvent event;
  event.agent = agent_of(warp, lanes);
  event.site = site_of(warp, inst);
  event.kind = BarrierKind::cluster;
  event.action = action;
  event.generation = generation;
  event.aligned = op.aligned;
  event.semantics = op.semantics;
  observer->on_barrier(event);
}

const Inst* cluster_arrive(Warp& warp, const Inst& inst) {
  Cluster& cluster = *warp.cluster;
  ClusterBarrier& barrier = cluster.barrier;
  prepare(barrier, cluster);
  const size_t index = cluster_index(warp);
  if ((barrier.unwaited[index] & warp.mask) != 0) {
    return warp.fault(
        inst, "sync.cluster-barrier",
        "a thread arrives at the cluster barrier a second time without having waited for its first arrival",
        "pair every barrier.cluster.arrive with a barrier.cluster.wait of the same thread", 0,
        barrier.unwaited[index] & warp.mask);
  }
  barrier.arrived[index] |= warp.mask;
  barrier.unwaited[index] |= warp.mask;
  barrier.arrived_threads += static_cast<uint32_t>(std::popcount(warp.mask));
  warp.side_effect();
  send_cluster(warp, inst, BarrierAction::arrive, barrier.generation, warp.mask);
  complete_cluster_if_full(cluster);
  return &inst + 1;
}

const Inst* cluster_wait(Warp& warp, const Inst& inst) {
  ClusterBarrier& barrier = warp.cluster->barrier;
  prepare(barrier, *warp.cluster);
  const size_t index = cluster_index(warp);
  if ((warp.mask & ~barrier.unwaited[index]) != 0) {
    return warp.fault(inst, "sync.cluster-barrier",
                      "a thread waits for the cluster barrier without having arrived at it",
                      "let each thread execute barrier.cluster.arrive before barrier.cluster.wait", 0,
                      warp.mask & ~barrier.unwaited[index]);
  }
  if ((barrier.arrived[index] & warp.mask) != 0) {
    send_cluster(warp, inst, BarrierAction::wait_begin, barrier.generation, warp.mask);
    warp.fragment().wait_generation = barrier.generation;
    return warp.block(FragmentState::cluster_barrier, &inst);
  }
  barrier.unwaited[index] &= ~warp.mask;
  send_cluster(warp, inst, BarrierAction::wait_end, barrier.generation, warp.mask);
  return &inst + 1;
}

void bind_cluster_barrier(Decoder& decoder, const ptx::Instruction& instruction) {
  const bool arrives = instruction.op == ptx::Op::barrier_cluster_arrive;
  ClusterBarrierOp op;
  op.aligned = instruction.has(Mod::aligned);
  op.semantics =
      arrives ? (instruction.has(Mod::relaxed) ? Semantics::relaxed : Semantics::release) : Semantics::acquire;
  const Handler handler = arrives ? &cluster_arrive : &cluster_wait;
  decoder.emit({handler, handler}).extra = decoder.keep(op);
}

}  // namespace

void register_cluster(BinderTable& table) {
  table.set(ptx::Op::barrier_cluster_arrive, &bind_cluster_barrier);
  table.set(ptx::Op::barrier_cluster_wait, &bind_cluster_barrier);
}

}  // namespace ptxbench::emulator
