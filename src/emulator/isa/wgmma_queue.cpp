#include "emulator/isa/wgmma_queue.h"

#include <algorithm>

#include "emulator/isa/async_groups.h"
#include "emulator/scheduler.h"

namespace ptxbench::emulator {
namespace {

/// The state of all shared memory a warp's operands could lie in, as a key for packed operands.
uint64_t shared_generation(const Cluster& cluster) {
  uint64_t key = 0;
  for (const Cta& cta : cluster.ctas) key = (key ^ cta.shared_version) * 0x9e3779b97f4a7c15ull + (key >> 29);
  return key;
}

struct Batch {
  const WgmmaOp* op = nullptr;
  std::byte* registers = nullptr;
  std::vector<WgmmaStep> steps;
  std::vector<const uint32_t*> a;
};

bool frame_lives(const Warp& warp, const IssuedWgmma& issued) {
  // The activation may have returned while the operation was in flight; its registers are then somebody else's.
  return std::any_of(warp.frames.begin(), warp.frames.end(), [&](const auto& frame) {
    return frame.get() == issued.frame && frame->function == issued.function;
  });
}

/// Warp::make_general gave the activation other registers: the operation's fragments are gone.
bool moved_to_general_code(const Warp& warp, const IssuedWgmma& issued) {
  return std::any_of(warp.frames.begin(), warp.frames.end(), [&](const auto& frame) {
    return frame.get() == issued.frame && frame->function != issued.function &&
           frame->function == issued.function->general.get();
  });
}

WgmmaEngine& engine() {
  thread_local WgmmaEngine instance;
  return instance;
}

void run_batch(Warp& warp, const Batch& batch) {
  if (warp.cluster->launch->skips_products) return;
  std::array<uint32_t*, 128> d{};
  for (size_t i = 0; i < batch.op->d.size(); ++i) d[i] = reinterpret_cast<uint32_t*>(batch.registers + batch.op->d[i]);
  const WgmmaWarp rows{warp.index % 4, d.data(), batch.a.data()};
  const bool exact = warp.cluster->launch->program->exact_tensor_cores;
  engine().execute(batch.op->shape, batch.steps, {&rows, 1}, warp.cta->shared, shared_generation(*warp.cluster),
                   exact ? MmaMode::exact : MmaMode::fast);
}

void execute_group(Warp& warp, WgmmaQueue& queue, const std::vector<IssuedWgmma>& group) {
  // Operations on the same accumulators run as one batch; batches on different accumulators may trade places.
  std::vector<Batch> batches;
  auto flush = [&] {
    for (const Batch& batch : batches) run_batch(warp, batch);
    batches.clear();
  };
  for (const IssuedWgmma& issued : group) {
    if (moved_to_general_code(warp, issued)) {
      engine_fault(*warp.cluster,
                   Origin{agent_of(warp, kFullMask), {}, {warp.cta->id[0], warp.cta->id[1], warp.cta->id[2]}},
                   "unsupported.instruction",
                   "the lanes of a warp went separate ways for good while a wgmma of it was in flight",
                   "wait for the wgmma groups before divergent code with warp-level synchronisation");
      return;
    }
    if (!frame_lives(warp, issued)) continue;
    std::byte* registers = issued.frame->registers;
    Batch* target = nullptr;
    bool conflict = false;
    for (Batch& batch : batches) {
      if (batch.registers == registers && batch.op->same_accumulators(*issued.op)) {
        target = &batch;
      } else if (batch.registers == registers && batch.op->touches(*issued.op)) {
        conflict = true;
      }
    }
    if (conflict) {
      flush();
      target = nullptr;
    }
    if (target == nullptr) {
      batches.push_back({issued.op, registers, {}, {}});
      target = &batches.back();
    }
    target->steps.push_back(issued.step);
    if (issued.op->shape.a_in_registers) {
      for (size_t i = 0; i < 4; ++i) {
        target->a.push_back(issued.captured != ~0u ? queue.fragments[issued.captured].words.data() + i * kLanes
                                                   : reinterpret_cast<const uint32_t*>(registers + issued.op->a[i]));
      }
    }
  }
  flush();
  for (const IssuedWgmma& issued : group) {
    send_effect(*warp.cluster, issued.id, AsyncEffect::reads_done);
    send_effect(*warp.cluster, issued.id, AsyncEffect::writes_done);
  }
  ++warp.cluster->progress;
}

}  // namespace

bool WgmmaOp::touches(const WgmmaOp& other) const {
  auto overlap = [](const std::vector<uint32_t>& x, const std::vector<uint32_t>& y) {
    size_t i = 0, j = 0;
    while (i < x.size() && j < y.size()) {
      if (x[i] == y[j]) return true;
      x[i] < y[j] ? ++i : ++j;
    }
    return false;
  };
  auto reads = [](const WgmmaOp& reader, const WgmmaOp& writer) {
    return reader.shape.a_in_registers && std::any_of(reader.a.begin(), reader.a.end(), [&](uint32_t offset) {
             return std::binary_search(writer.sorted_d.begin(), writer.sorted_d.end(), offset);
           });
  };
  return overlap(sorted_d, other.sorted_d) || reads(*this, other) || reads(other, *this);
}

WgmmaQueue& wgmma_queue(Warp& warp) {
  if (warp.wgmma.pending == nullptr) warp.wgmma.pending = std::make_shared<WgmmaQueue>();
  return *static_cast<WgmmaQueue*>(warp.wgmma.pending.get());
}

std::span<Warp* const> warpgroup_of(const Warp& warp) {
  const size_t first = warp.index / 4 * 4;
  const auto& warps = warp.cta->warps;
  if (first + 4 > warps.size()) return {};
  return std::span<Warp* const>(warps).subspan(first, 4);
}

void execute_wgmma_groups(Warp& warp, uint64_t end) {
  WgmmaQueue& queue = wgmma_queue(warp);
  while (queue.executed < end && !queue.groups.empty()) {
    execute_group(warp, queue, queue.groups.front());
    queue.groups.pop_front();
    ++queue.executed;
  }
  if (queue.groups.empty() && queue.open.empty()) queue.fragments.clear();
}

bool async_group_done(Warp& warp, const Fragment& fragment) {
  for (const Warp* other : warpgroup_of(warp)) {
    // A warp that has exited without the group will never commit it: the wait runs again and says so.
    if (other->wgmma.committed < fragment.wait_generation && other->live != 0) return false;
  }
  return true;
}

void finish_wgmma(Warp& warp) { warp.wgmma.pending.reset(); }

}  // namespace ptxbench::emulator
