// Persistent GEMM on clusters of two CTAs: C[M,N] = A[M,K] * B[N,K]^T, bf16 in and out, fp32 accumulation.
//
// The two CTAs of a cluster compute two 128x256 tiles of C that lie one below the other. They need the same 256 rows of
// B, so each loads 128 of them and multicasts its half into both shared memories. As many clusters are launched as the
// GPU holds at once; each walks over the tile pairs in an order that keeps the operands of all running pairs in L2.
//
// In a CTA, one thread of the producer warpgroup keeps a ring of four stages filled and two consumer warpgroups, each
// owning 64 rows of the tile, multiply with wgmma m64n256k16. The producer hands most of its registers over to them.
// A stage is written by both CTAs, so a producer refills it only when the consumers of both have released it: each
// consumer warp arrives at its own CTA's `empty` barrier and at its neighbour's.
//
// The producer runs ahead into the next tile while the consumers store this one: fragments go through stmatrix to a
// small pair of staging buffers, 64 columns at a time, and from there by TMA to C, which clips what lies outside.
//
// Any M; N and K must be multiples of 8 (tensor-map strides are multiples of 16 bytes). TMA fills what lies outside the
// operands with zeros.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace gemm_persistent_cluster {

constexpr int kTileM = 128;
constexpr int kTileN = 256;
constexpr int kTileK = 64;  // 128 bytes of bf16: one span of the 128-byte swizzle
constexpr int kStages = 4;
constexpr int kClusterSize = 2;
constexpr int kConsumerGroups = 2;
constexpr int kGroupThreads = 128;
constexpr int kThreads = (1 + kConsumerGroups) * kGroupThreads;
constexpr int kVector = 8;
constexpr int kStoreCols = 64;    // columns of C that one TMA store covers
constexpr int kStoreBuffers = 2;  // staging buffers of each consumer warpgroup
constexpr int kRowsPerBand = 8;   // tile pairs stacked in one band of the walk over C

// Registers: 168 per thread at launch (65536 / 384, rounded down to a multiple of 8); then 40 + 2 * 232 <= 3 * 168.
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

constexpr uint64_t kStepUnits = 16 * sizeof(__nv_bfloat16) / 16;  // one k16 step in units of a matrix descriptor
constexpr uint32_t kABytes = kTileM * kTileK * 2;
constexpr uint32_t kBBytes = kTileN * kTileK * 2;
constexpr uint32_t kBShareBytes = kBBytes / kClusterSize;  // what one CTA loads for both
constexpr uint32_t kHalfBytes = 64 * kTileK * 2;           // the 64 rows of A that one warpgroup reads
constexpr uint32_t kStageBytes = kABytes + kBBytes;
constexpr uint32_t kStoreBytes = 64 * kStoreCols * 2;
constexpr uint32_t kAtomBytes = 1024;  // alignment of the 128-byte swizzle pattern
constexpr uint32_t kSharedBytes = kStages * kStageBytes + kConsumerGroups * kStoreBuffers * kStoreBytes + kAtomBytes;

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier that lies at the same offset in the shared memory of CTA `rank` of the cluster. The arrival
// hands over no data, only the end of wgmma's reads, which the arriving thread has waited for. Spelling out
// .release.cluster would put a GPU-wide memory fence into every stage (an earlier version that did ran 30 % slower).
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Waits until the phase of the given parity has completed.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

// Starts the copy of one box into shared memory; (k, row) is its first element. Completion counts on `barrier`.
__device__ __forceinline__ void load_box(uint32_t destination, const CUtensorMap* map, int k, int row,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :
      : "r"(destination), "l"(map), "r"(k), "r"(row), "r"(barrier)
      : "memory");
}

// The same for a box that lands at the same offset in both CTAs and counts on the barrier of each.
__device__ __forceinline__ void load_box_multicast(uint32_t destination, const CUtensorMap* map, int k, int row,
                                                   uint32_t barrier) {
  constexpr uint16_t kBothCtas = (1 << kClusterSize) - 1;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;"
      :
      : "r"(destination), "l"(map), "r"(k), "r"(row), "r"(barrier), "h"(kBothCtas)
      : "memory");
}

// Starts the store of one 64x64 box of C and commits it as a bulk group of its own.
__device__ __forceinline__ void store_box(const CUtensorMap* map, int col, int row, uint32_t source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               :
               : "l"(map), "r"(col), "r"(row), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most that many of this thread's latest stores still read shared memory.
template <int kLeftInFlight>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeftInFlight) : "memory");
}

__device__ __forceinline__ void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// A block barrier among the 128 threads of one consumer warpgroup; barrier 0 is left to __syncthreads.
__device__ __forceinline__ void group_sync(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kGroupThreads) : "memory");
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ int cluster_index() {
  uint32_t index;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return static_cast<int>(index);
}

__device__ __forceinline__ int cluster_count() {
  uint32_t count;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return static_cast<int>(count);
}

// Matrix descriptor of a K-major operand whose rows are 128 bytes under the 128-byte swizzle. Eight such rows make an
// atom of 1024 bytes, the stride between groups of eight rows; the leading offset is unused in this layout. A step
// along K inside the swizzle span just moves the start address, which the descriptor holds in units of 16 bytes.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address) {
  constexpr uint64_t kLeadingOffset = 1;
  constexpr uint64_t kStrideOffset = 1024 >> 4;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>(address >> 4) | kLeadingOffset << 16 | kStrideOffset << 32 | kSwizzle128 << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kLeftInFlight>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeftInFlight) : "memory");
}

// D[64,256] (+)= A[64,16] * B[256,16]^T; without `accumulate` the old D is not used.
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, keep, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),
        "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),
        "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),
        "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]),
        "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]),
        "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]),
        "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]),
        "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]),
        "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]),
        "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]),
        "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

// Keeps the compiler from moving accesses to the accumulators across this point: it does not know that wgmma works on
// them between its issue and the wait.
__device__ __forceinline__ void pin(float (&d)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Position in the ring of stages. `parity` is that of the phase in which the ring is being walked.
struct RingPosition {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The walk over C. Pairs of tiles form a grid of `pair_rows` x `tile_cols`; it is cut into bands of kRowsPerBand rows,
// and a band is walked column by column.
struct Grid {
  int pair_rows;
  int tile_cols;
  int slices;  // steps of kTileK along K

  struct Place {
    int pair_row;
    int tile_col;
  };

  __device__ __forceinline__ int pairs() const { return pair_rows * tile_cols; }

  __device__ __forceinline__ Place place(int pair) const {
    const int band = pair / (kRowsPerBand * tile_cols);
    const int inside = pair - band * kRowsPerBand * tile_cols;
    const int rows = min(kRowsPerBand, pair_rows - band * kRowsPerBand);
    return {band * kRowsPerBand + inside % rows, inside / rows};
  }
};

// Addresses in shared memory, equal in both CTAs.
struct Shared {
  uint32_t ring;
  uint32_t staging;
  uint32_t full;
  uint32_t empty;
};

__device__ __forceinline__ void produce(const CUtensorMap* a_map, const CUtensorMap* b_map, Grid grid, Shared shared) {
  const int rank = static_cast<int>(cluster_rank());
  RingPosition at;
  for (int pair = cluster_index(); pair < grid.pairs(); pair += cluster_count()) {
    const Grid::Place place = grid.place(pair);
    const int a_row = (place.pair_row * kClusterSize + rank) * kTileM;
    const int b_row = place.tile_col * kTileN + rank * (kTileN / kClusterSize);
    for (int slice = 0; slice < grid.slices; ++slice) {
      // Nobody has released a fresh barrier yet, but waiting for the parity before its first phase returns at once.
      barrier_wait(shared.empty + 8 * at.stage, at.parity ^ 1);
      const uint32_t full = shared.full + 8 * at.stage;
      const uint32_t a_box = shared.ring + at.stage * kStageBytes;
      const uint32_t b_share = a_box + kABytes + static_cast<uint32_t>(rank) * kBShareBytes;
      // The neighbour's half of B may have been counted already; the phase cannot complete before this arrival.
      barrier_arrive_expecting(full, kStageBytes);
      load_box(a_box, a_map, slice * kTileK, a_row, full);
      load_box_multicast(b_share, b_map, slice * kTileK, b_row, full);
      at.advance();
    }
  }
}

// Multiplies all slices of one tile; on return no wgmma is in flight and every stage is released.
__device__ __forceinline__ void multiply_tile(float (&d)[128], RingPosition& at, Shared shared, int group, int slices) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t previous = 0;
  // Lanes 0 and 1 tell the two CTAs that this warp has left a stage.
  auto release = [&](uint32_t stage) {
    if (lane < kClusterSize) barrier_arrive_at(shared.empty + 8 * stage, lane);
  };

  pin(d);
  for (int slice = 0; slice < slices; ++slice) {
    barrier_wait(shared.full + 8 * at.stage, at.parity);
    const uint32_t a_box = shared.ring + at.stage * kStageBytes;
    const uint64_t a_descriptor = matrix_descriptor(a_box + static_cast<uint32_t>(group) * kHalfBytes);
    const uint64_t b_descriptor = matrix_descriptor(a_box + kABytes);

    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {
      multiply(d, a_descriptor + kStepUnits * step, b_descriptor + kStepUnits * step, slice > 0 || step > 0);
    }
    wgmma_commit();

    // This stage's multiplication keeps running while the one before is waited for and its stage released.
    wgmma_wait<1>();
    if (slice > 0) release(previous);
    previous = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  pin(d);
  release(previous);
}

// Stores one warpgroup's 64x256 result, 64 columns at a time. In a wgmma accumulator, registers 8g .. 8g+7 of a warp
// hold four 8x8 blocks: rows 0-7 and 8-15 of columns 16g .. 16g+7, then both of columns 16g+8 .. 16g+15.
__device__ __forceinline__ void store_tile(const float (&d)[128], const CUtensorMap* c_map, Shared shared, int group,
                                           int row0, int col0) {
  const uint32_t thread = threadIdx.x % kGroupThreads;
  const uint32_t lane = thread % 32;
  // Lane 8i + r gives stmatrix the address of row r of block i.
  const uint32_t row = thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
  const uint32_t chunk = lane / 16;  // 16-byte chunk inside the 32 bytes of one stmatrix
  const uint32_t staging = shared.staging + static_cast<uint32_t>(group) * kStoreBuffers * kStoreBytes;

#pragma unroll
  for (uint32_t part = 0; part < kTileN / kStoreCols; ++part) {
    const uint32_t buffer = staging + part % kStoreBuffers * kStoreBytes;
    // The store that last used this buffer must have read it.
    if (thread == 0) wait_stores_read<kStoreBuffers - 1>();
    group_sync(group);
#pragma unroll
    for (uint32_t g = 0; g < kStoreCols / 16; ++g) {
      const uint32_t i = part * (kStoreCols / 2) + 8 * g;
      store_matrices(buffer + row * 128 + (((2 * g + chunk) ^ (row % 8)) * 16), pack(d[i], d[i + 1]),
                     pack(d[i + 2], d[i + 3]), pack(d[i + 4], d[i + 5]), pack(d[i + 6], d[i + 7]));
    }
    // Every writer makes its writes visible to the copy engine before the barrier hands over to the issuing thread.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    group_sync(group);
    if (thread == 0) store_box(c_map, col0 + static_cast<int>(part) * kStoreCols, row0, buffer);
  }
}

__device__ __forceinline__ void consume(const CUtensorMap* c_map, Grid grid, Shared shared, int group) {
  const int rank = static_cast<int>(cluster_rank());
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0.0f;
  RingPosition at;
  for (int pair = cluster_index(); pair < grid.pairs(); pair += cluster_count()) {
    const Grid::Place place = grid.place(pair);
    multiply_tile(d, at, shared, group, grid.slices);
    store_tile(d, c_map, shared, group, (place.pair_row * kClusterSize + rank) * kTileM + 64 * group,
               place.tile_col * kTileN);
  }
  if (threadIdx.x % kGroupThreads == 0) wait_stores_done();
}

__global__ void __launch_bounds__(kThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                const __grid_constant__ CUtensorMap c_map, Grid grid) {
  extern __shared__ unsigned char dynamic[];
  __shared__ __align__(8) uint64_t full_barriers[kStages];
  __shared__ __align__(8) uint64_t empty_barriers[kStages];

  Shared shared;
  shared.ring = (shared_address(dynamic) + kAtomBytes - 1) & ~(kAtomBytes - 1);
  shared.staging = shared.ring + kStages * kStageBytes;
  shared.full = shared_address(full_barriers);
  shared.empty = shared_address(empty_barriers);

  if (threadIdx.x == 0) {
#pragma unroll
    for (uint32_t stage = 0; stage < kStages; ++stage) {
      barrier_init(shared.full + 8 * stage, 1);
      barrier_init(shared.empty + 8 * stage, kClusterSize * kConsumerGroups * kGroupThreads / 32);
    }
    // Threads of the neighbour arrive at these barriers, and the copy engines of both CTAs count on them.
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  cluster_sync();

  // Read from lane 0, so that the compiler knows it to be the same in the whole warp and may use uniform registers.
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x == 0) produce(&a_map, &b_map, grid, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    consume(&c_map, grid, shared, warpgroup - 1);
  }

  // The neighbour's consumers arrive at this CTA's barriers and its producer writes this CTA's stages: neither CTA may
  // leave before both are through.
  cluster_sync();
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

// cuTensorMapEncodeTiled lives in the driver; asking the runtime for it spares the candidate a link with libcuda.
PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "look-up of cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "the driver has no cuTensorMapEncodeTiled";
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// Describes a row-major bf16 matrix cut into boxes of `box_rows` rows and 64 columns (128 bytes, one swizzle span).
CUtensorMap make_tensor_map(const char* name, void* data, int64_t rows, int64_t cols, uint32_t box_rows) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(cols) * sizeof(__nv_bfloat16)};
  const cuuint32_t box[2] = {64, box_rows};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult status = encode_function()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, row_bytes, box,
                                            element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    TVM_FFI_THROW(RuntimeError) << "cuTensorMapEncodeTiled for " << name << " failed with code "
                                << static_cast<int>(status);
  }
  return map;
}

__nv_bfloat16* checked_matrix(const tvm::ffi::TensorView& t, const char* name, int64_t rows, int64_t cols) {
  const DLDataType dtype = t.dtype();
  if (t.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << name << " must be a CUDA tensor";
  if (dtype.code != kDLBfloat || dtype.bits != 16 || dtype.lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << " must be bfloat16";
  }
  if (t.ndim() != 2 || t.size(0) != rows || t.size(1) != cols) {
    TVM_FFI_THROW(ValueError) << name << " must have shape [" << rows << ", " << cols << "]";
  }
  if (!t.is_contiguous()) TVM_FFI_THROW(ValueError) << name << " must be contiguous";
  return reinterpret_cast<__nv_bfloat16*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  if (a.ndim() != 2 || b.ndim() != 2) TVM_FFI_THROW(ValueError) << "A and B must be matrices";
  const int64_t m = a.size(0);
  const int64_t k = a.size(1);
  const int64_t n = b.size(0);
  __nv_bfloat16* a_data = checked_matrix(a, "A", m, k);
  __nv_bfloat16* b_data = checked_matrix(b, "B", n, k);
  __nv_bfloat16* c_data = checked_matrix(c, "C", m, n);
  if (n % kVector != 0 || k % kVector != 0) TVM_FFI_THROW(ValueError) << "N and K must be multiples of 8";
  if (k == 0) TVM_FFI_THROW(ValueError) << "K must be positive";
  if (m == 0 || n == 0) return;
  const CUtensorMap a_map = make_tensor_map("A", a_data, m, k, kTileM);
  const CUtensorMap b_map = make_tensor_map("B", b_data, n, k, kTileN / kClusterSize);
  const CUtensorMap c_map = make_tensor_map("C", c_data, m, n, 64);
  check(cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "shared memory of gemm_persistent_cluster");

  Grid grid;
  grid.pair_rows = static_cast<int>((m + kClusterSize * kTileM - 1) / (kClusterSize * kTileM));
  grid.tile_cols = static_cast<int>((n + kTileN - 1) / kTileN);
  grid.slices = static_cast<int>((k + kTileK - 1) / kTileK);

  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kClusterSize;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kClusterSize);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
  config.attrs = &cluster;
  config.numAttrs = 1;

  int resident = 0;
  check(cudaOccupancyMaxActiveClusters(&resident, gemm_kernel, &config), "occupancy of gemm_persistent_cluster");
  const int pairs = grid.pair_rows * grid.tile_cols;
  const int clusters = resident < 1 ? 1 : (resident < pairs ? resident : pairs);
  config.gridDim = dim3(static_cast<unsigned>(clusters * kClusterSize));
  check(cudaLaunchKernelEx(&config, gemm_kernel, a_map, b_map, c_map, grid), "launch of gemm_persistent_cluster");
}

}  // namespace gemm_persistent_cluster

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gemm_persistent_cluster::run);
