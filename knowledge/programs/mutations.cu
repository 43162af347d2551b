// One fault for each rule that the documents' error table cites: what the remedy there cures. `--list` prints the names
// with their rules; a name runs that one. Without a fault ("none_...") the same kernels are clean.
#include "cluster.cuh"
#include "swizzle.cuh"
#include "testing.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace {

using testing::Buffer;

enum Fault : int {
  kNone,
  kNoFence,
  kFenceEarly,
  kNoWait,
  kNoReadWait,
  kNoStoreWait,
  kParityStuck,
  kFewBytes,
  kManyBytes,
  kExtraArrival,
  kStageNotInitialised,
  kNoBarrierAfterInit,
  kInitInLoop,
  kNoWgmmaFence,
  kReadInFlight,
  kWaitLeavesOne,
  kNoCommit,
  kOtherSpan,
  kLaneInDescriptor,
  kThreeWarps,
  kHalfWritten,
  kTileMisaligned,
  kVectorMisaligned,
  kLeaveEarly,
  kNoClusterBarrier,
  kNoBlockBarrier,
  kNoWarpBarrier,
  kTail,
  kNegativeStore,
  kMapNotAcquired,
};

constexpr int kStages = 2, kItems = 6;

// Warp 0 fills a ring of 256-byte slots; warp 1 doubles each item in a staging buffer and stores it.
__global__ void __launch_bounds__(64) pipeline(const uint32_t* in, uint32_t* out, int fault) {
  __shared__ alignas(128) uint32_t slots[kStages][64], staging[64];
  __shared__ alignas(8) uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < (fault == kStageNotInitialised ? kStages - 1 : kStages); ++i) {
      mbar_init(smem(&full[i]), 1);
      mbar_init(smem(&empty[i]), 1);
    }
    mbar_init_fence();
  }
  if (fault != kNoBarrierAfterInit) __syncthreads();
  Ring<kStages> at;
  if (threadIdx.x / 32 == 0) {
    if (lane_id() == 0) {
      for (int item = 0; item < kItems; ++item) {
        mbar_wait(smem(&empty[at.stage]), at.parity ^ 1);
        if (fault == kInitInLoop && item == 0) mbar_init(smem(&full[at.stage]), 1);
        mbar_arrive_expect(smem(&full[at.stage]), fault == kFewBytes ? 128 : fault == kManyBytes ? 512 : 256);
        if (fault == kExtraArrival) mbar_arrive(smem(&full[at.stage]));
        bulk_load(smem(slots[at.stage]), in + 64 * item, 256, smem(&full[at.stage]));
        at.advance();
      }
    }
  } else {
    for (int item = 0; item < kItems; ++item) {
      if (fault != kNoWait || item + 1 < kItems) mbar_wait(smem(&full[at.stage]), fault == kParityStuck ? 0 : at.parity);
      const uint32_t a = slots[at.stage][lane_id()], b = slots[at.stage][lane_id() + 32];
      __syncwarp();
      if (lane_id() == 0) mbar_arrive(smem(&empty[at.stage]));
      if (lane_id() == 0 && fault == kWaitLeavesOne) tma_store_wait_read<1>();
      if (lane_id() == 0 && fault != kNoReadWait && fault != kWaitLeavesOne) tma_store_wait_read<0>();
      __syncwarp();
      if (fault == kFenceEarly) fence_async_shared();
      staging[lane_id()] = 2 * a;
      staging[lane_id() + 32] = 2 * b;
      if (fault != kNoFence && fault != kFenceEarly) fence_async_shared();
      __syncwarp();
      if (lane_id() == 0) {
        bulk_store(out + 64 * item, smem(staging), 256);
        tma_store_commit();
      }
      at.advance();
    }
    if (lane_id() == 0 && fault != kNoStoreWait) tma_store_wait<0>();
  }
}

// One product of 64 x 64 x 64 from tiles that TMA wrote.
__global__ void __launch_bounds__(128) product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                                               float* out, int fault) {
  __shared__ alignas(1024) uint8_t tiles[3 * 8192];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
  }
  __syncthreads();
  const uint32_t a_tile = smem(tiles) + (fault == kTileMisaligned ? 64 : 0), b_tile = smem(tiles) + 2 * 8192;
  if (threadIdx.x == 0) {
    mbar_arrive_expect(smem(&full), 2 * 8192);
    tma_load(a_tile, &a, smem(&full), 0, 0);
    tma_load(b_tile, &b, smem(&full), 0, 0);
  }
  mbar_wait(smem(&full), 0);
  float d[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) d[i] = 0.0f;
  pin(d);
  if (fault != kNoWgmmaFence) wgmma_fence();
  const auto multiply = [&](int steps) {
    uint64_t a_matrix = fault == kOtherSpan ? descriptor_k<64>(a_tile) : descriptor_k(a_tile), b_matrix = descriptor_k(b_tile);
    if (fault == kLaneInDescriptor) a_matrix += lane_id() / 16 * 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < steps) wgmma_bf16(d, a_matrix + 2 * i, b_matrix + 2 * i, fault == kNoWgmmaFence || i > 0);
    }
  };
  if (fault != kThreeWarps || threadIdx.x < 96) multiply(4);
  if (fault != kNoCommit) wgmma_commit();
  if (fault == kReadInFlight) {
    pin(d);
    d[0] *= 2.0f;
    pin(d);
  }
  wgmma_wait<0>();
  pin(d);
#pragma unroll
  for (int i = 0; i < 32; ++i) out[accumulator_row(i) * 64 + accumulator_col(i)] = d[i];
}

// Each CTA of a pair reads what the other one wrote.
__global__ void __launch_bounds__(32) pair(uint32_t* out, int fault) {
  __shared__ uint32_t mine[32];
  mine[lane_id()] = 100 * cluster_rank() + lane_id();
  if (fault != kNoClusterBarrier) {
    cluster_sync();
  }
  if (fault == kLeaveEarly && cluster_rank() == 0) return;
  if (fault == kLeaveEarly) __nanosleep(1000);
  out[cluster_rank() * 32 + lane_id()] = load_cluster(map_to_cta(smem(&mine[lane_id()]), cluster_rank() ^ 1));
  if (fault != kLeaveEarly) cluster_sync();
}

__global__ void __launch_bounds__(64) small(const uint32_t* in, uint32_t* out, int count, int fault) {
  __shared__ alignas(16) uint32_t values[64];
  const uint32_t i = threadIdx.x;
  if (fault != kHalfWritten || i < 32) values[i] = i < uint32_t(count) || fault == kTail ? in[i] : 0;
  if (fault == kNoWarpBarrier) {
    if (i < uint32_t(count)) out[i] = values[i ^ 1];
    return;
  }
  if (fault != kNoBlockBarrier) __syncthreads();
  if (fault == kVectorMisaligned) {
    if (i < 8) out[i] = load_shared(smem(values) + 4 * i).x;
    return;
  }
  if (i < uint32_t(count) && values[i ^ 32] != 9) out[i] = values[i ^ 32];
}

__global__ void __launch_bounds__(32) stores(const __grid_constant__ CUtensorMap map, int x, int y) {
  __shared__ alignas(128) uint32_t tile[2][32];
  tile[0][lane_id()] = tile[1][lane_id()] = lane_id();
  fence_async_shared();
  __syncwarp();
  if (lane_id() == 0) {
    tma_store(&map, smem(tile), x, y);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

__global__ void __launch_bounds__(32) new_map(const CUtensorMap* model, CUtensorMap* fresh, const uint32_t* tensor,
                                              uint32_t* out, int fault) {
  __shared__ alignas(128) CUtensorMap map;
  __shared__ alignas(128) uint32_t tile[2][32];
  __shared__ alignas(8) uint64_t full;
  if (lane_id() == 0) {
    map = *model;
    tensor_map_set_address(smem(&map), tensor);
    mbar_init(smem(&full), 1);
    mbar_init_fence();
  }
  __syncwarp();
  tensor_map_publish(fresh, smem(&map));
  if (lane_id() == 0) {
    if (fault != kMapNotAcquired) tensor_map_acquire(fresh);
    mbar_arrive_expect(smem(&full), 256);
    tma_load(smem(tile), fresh, smem(&full), 0, 0);
  }
  mbar_wait(smem(&full), 0);
  out[lane_id()] = tile[0][lane_id()];
}

__global__ void __launch_bounds__(256, 2) registers(uint32_t* out, bool wrong) {  // 128 at entry
  if (wrong) {
    registers_take<64>();
  } else {
    registers_take<128>();
  }
  out[threadIdx.x] = 1;
}

__global__ void dynamic_memory(uint32_t* out) {
  extern __shared__ uint32_t memory[];
  memory[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = memory[threadIdx.x];
}

CUtensorMap flat_map(const void* data) {
  return tensor_map(data, {32, 2}, {32, 2}, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, CU_TENSOR_MAP_SWIZZLE_NONE);
}

void run_pipeline(int fault) {
  const Buffer<uint32_t> in(std::vector<uint32_t>(64 * kItems, 3)), out(std::vector<uint32_t>(64 * kItems));
  pipeline<<<1, 64>>>(in.get(), out.get(), fault);
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "pipeline");
}
void run_product(int fault) {
  std::vector<__nv_bfloat16> values(64 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = __float2bfloat16(static_cast<float>(i * 7 % 13));
  const Buffer<__nv_bfloat16> a(values), b(values);
  const Buffer<float> out(std::vector<float>(64 * 64));
  product<<<1, 128>>>(tensor_map(a.get(), {64, 64}, {64, 64}), tensor_map(b.get(), {64, 64}, {64, 64}), out.get(), fault);
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "product");
}
void run_pair(int fault) {
  const Buffer<uint32_t> out(std::vector<uint32_t>(64));
  launch(pair, dim3(2), 32, 0, 2, nullptr, out.get(), fault);
  check(cudaDeviceSynchronize(), "pair");
}
void run_small(int fault) {
  const Buffer<uint32_t> in(std::vector<uint32_t>(48, 5)), out(std::vector<uint32_t>(48));
  small<<<1, 64>>>(in.get(), out.get(), 48, fault);
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "small");
}
void run_stores(int fault) {
  const Buffer<uint32_t> out(std::vector<uint32_t>(64));
  stores<<<1, 32>>>(flat_map(out.get()), 0, fault == kNegativeStore ? -1 : 0);
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "stores");
}
void run_new_map(int fault) {
  const Buffer<uint32_t> old(std::vector<uint32_t>(64, 1)), tensor(std::vector<uint32_t>(64, 2)),
      out(std::vector<uint32_t>(32));
  const Buffer<CUtensorMap> model(std::vector<CUtensorMap>(1, flat_map(old.get()))),
      fresh(std::vector<CUtensorMap>(1, flat_map(old.get())));
  new_map<<<1, 32>>>(model.get(), fresh.get(), tensor.get(), out.get(), fault);
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "new map");
}
void run_registers(int wrong) {
  const Buffer<uint32_t> out(std::vector<uint32_t>(256));
  registers<<<1, 256>>>(out.get(), wrong != 0);
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "registers");
}
void run_without_opt_in(int) {
  const Buffer<uint32_t> out(std::vector<uint32_t>(64));
  dynamic_memory<<<1, 64, 100 * 1024>>>(out.get());
  check(cudaGetLastError(), "launch");
}
void run_odd_grid(int) {
  const Buffer<uint32_t> out(std::vector<uint32_t>(96));
  launch(pair, dim3(3), 32, 0, 2, nullptr, out.get(), 0);
}

struct Case {
  const char* name;
  const char* rule;
  void (*run)(int);
  int fault;
};
constexpr Case kCases[] = {
    {"none_pipeline", "none", run_pipeline, kNone},
    {"none_product", "none", run_product, kNone},
    {"none_pair", "none", run_pair, kNone},
    {"none_small", "none", run_small, kNone},
    {"none_stores", "none", run_stores, kNone},
    {"none_new_map", "none", run_new_map, kNone},
    {"none_registers", "none", run_registers, 0},
    {"no_fence", "proxy.async", run_pipeline, kNoFence},
    {"fence_early", "proxy.fence-early", run_pipeline, kFenceEarly},
    {"no_wait", "async.unwaited-read", run_pipeline, kNoWait},
    {"no_read_wait", "async.overwritten", run_pipeline, kNoReadWait},
    {"no_store_wait", "async.unfinished", run_pipeline, kNoStoreWait},
    {"parity_stuck", "mbarrier.stale-phase", run_pipeline, kParityStuck},
    {"few_bytes", "mbarrier.tx-mismatch", run_pipeline, kFewBytes},
    {"many_bytes", "sync.deadlock", run_pipeline, kManyBytes},
    {"extra_arrival", "mbarrier.underflow", run_pipeline, kExtraArrival},
    {"stage_not_initialised", "mbarrier.uninitialised", run_pipeline, kStageNotInitialised},
    {"no_barrier_after_init", "mbarrier.init-not-visible", run_pipeline, kNoBarrierAfterInit},
    {"init_in_loop", "mbarrier.reinitialised", run_pipeline, kInitInLoop},
    {"no_wgmma_fence", "wgmma.fence", run_product, kNoWgmmaFence},
    {"read_in_flight", "wgmma.in-flight", run_product, kReadInFlight},
    {"wait_leaves_one", "async.wrong-group", run_pipeline, kWaitLeavesOne},
    {"no_commit", "wgmma.not-committed", run_product, kNoCommit},
    {"other_span", "wgmma.layout", run_product, kOtherSpan},
    {"lane_in_descriptor", "wgmma.divergent", run_product, kLaneInDescriptor},
    {"three_warps", "wgmma.partial", run_product, kThreeWarps},
    {"half_written", "memory.uninitialised", run_small, kHalfWritten},
    {"tile_misaligned", "tma.box", run_product, kTileMisaligned},
    {"vector_misaligned", "memory.misaligned", run_small, kVectorMisaligned},
    {"leave_early", "sync.exit", run_pair, kLeaveEarly},
    {"no_cluster_barrier", "race.cluster", run_pair, kNoClusterBarrier},
    {"no_block_barrier", "race.shared", run_small, kNoBlockBarrier},
    {"no_warp_barrier", "race.warp", run_small, kNoWarpBarrier},
    {"tail", "memory.out-of-bounds", run_small, kTail},
    {"negative_store", "tma.coordinates", run_stores, kNegativeStore},
    {"map_not_acquired", "proxy.tensor-map", run_new_map, kMapNotAcquired},
    {"registers_downwards", "launch.setmaxnreg", run_registers, 1},
    {"no_opt_in", "launch.shared-memory", run_without_opt_in, 0},
    {"odd_grid", "launch.cluster-shape", run_odd_grid, 0},
};

}  // namespace

int main(int count, char** words) {
  const std::string wanted = count == 2 ? words[1] : "--list";
  for (const Case& one : kCases) {
    if (wanted == "--list") std::printf("%s %s\n", one.name, one.rule);
    if (wanted != one.name) continue;
    try {
      one.run(one.fault);
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());  // the checker's report says more
    }
    return 0;
  }
  return wanted == "--list" ? 0 : 2;
}
