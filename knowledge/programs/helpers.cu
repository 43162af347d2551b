// The helpers of common/include, one kernel or more for each: what they do is compared with what their documents say.
#include <numeric>

#include "base.cuh"
#include "cluster.cuh"
#include "swizzle.cuh"
#include "testing.cuh"
#include "tma.cuh"

namespace {

using testing::Buffer;
using testing::expect;

std::vector<uint32_t> counting(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

template <class T>
void expect_equal(const std::vector<T>& got, const std::vector<T>& wanted, const std::string& what) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    expect(got[i] == wanted[i], what + " at " + std::to_string(i) + ": " + std::to_string(got[i]) + ", not " +
                                    std::to_string(wanted[i]));
  }
}

// ---- base.cuh ----------------------------------------------------------------------------------------------------

// Four warpgroup-sized roles exchange values over named barriers; registers move from the first to the second.
__global__ void __launch_bounds__(256, 2) warps(uint32_t* out) {  // 128 registers at entry
  __shared__ uint32_t numbers[256];
  __shared__ uint32_t elected[8];
  const uint32_t group = warpgroup_id();
  const uint32_t warp = warp_id();  // shuffles: not inside the branch of one lane
  if (elect_one()) elected[warp] = lane_id();
  if (group == 0) {
    registers_give<104>();
    numbers[threadIdx.x] = threadIdx.x * 3;
    bar_arrive(1, 256);  // hands over and does not wait
  } else {
    registers_take<152>();
    bar_sync(1, 256);
    numbers[threadIdx.x] = numbers[threadIdx.x - 128] + 1;
    bar_sync(2, 128);
    out[threadIdx.x - 128] = numbers[128 + (threadIdx.x - 128 + 32) % 128];
  }
  __syncthreads();
  if (threadIdx.x < 8) out[128 + threadIdx.x] = elected[threadIdx.x] < 32;
}

void test_warps() {
  const Buffer<uint32_t> out(std::vector<uint32_t>(136));
  warps<<<1, 256>>>(out.get());
  check(cudaGetLastError(), "launch");
  std::vector<uint32_t> wanted(136, 1);
  for (uint32_t i = 0; i < 128; ++i) wanted[i] = (i + 32) % 128 * 3 + 1;
  expect_equal(out.read(), wanted, "named barriers");
}

__global__ void small_functions(float* out, uint32_t* bits) {
  __shared__ alignas(16) uint4 place[2];
  if (threadIdx.x < 32) {
    const float x = static_cast<float>(threadIdx.x) - 16.0f;
    out[threadIdx.x] = exp2_approx(x);
    out[32 + threadIdx.x] = exp2_polynomial(x + 0.3f);
    if (threadIdx.x == 0) {
      store_shared(smem(place), make_uint4(1, 2, 3, 4));
      const uint4 v = load_shared(smem(place));
      bits[0] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w;
      bits[1] = pack_bf16(1.0f, -2.0f);
      bits[2] = align_up(1025, 1024);
    }
  }
}

void test_small_functions() {
  const Buffer<float> out(std::vector<float>(64));
  const Buffer<uint32_t> bits(std::vector<uint32_t>(3));
  small_functions<<<1, 32>>>(out.get(), bits.get());
  check(cudaGetLastError(), "launch");
  expect_equal(bits.read(), {4321u, 0xc0003f80u, 2048u}, "bits");
  const auto got = out.read();
  for (int i = 0; i < 32; ++i) {
    expect(std::abs(got[i] / std::exp2(i - 16.0f) - 1.0f) < 1e-6f, "exp2_approx");
    expect(std::abs(got[32 + i] / std::exp2(i - 16.0f + 0.3f) - 1.0f) < 1e-4f, "exp2_polynomial");
  }
}

// A warp's 16x16 block through stmatrix and back through ldmatrix, plain and transposed.
__global__ void __launch_bounds__(32) matrices(uint32_t* out) {
  __shared__ alignas(128) uint16_t block[4][8][8];
  uint32_t r[4];
  for (int i = 0; i < 4; ++i) r[i] = (lane_id() * 2 + 64 * i) | (lane_id() * 2 + 1 + 64 * i) << 16;
  const uint32_t row = smem(&block[lane_id() / 8][lane_id() % 8][0]);
  stmatrix(row, r[0], r[1], r[2], r[3]);
  __syncwarp();
  uint32_t back[4], turned[4];
  ldmatrix(back, row);
  ldmatrix_trans(turned, row);
  for (int i = 0; i < 4; ++i) out[32 * i + lane_id()] = back[i] == r[i] ? turned[i] : 0xffffffffu;
  __syncwarp();
  stmatrix_trans(row, turned[0], turned[1], turned[2], turned[3]);
  __syncwarp();
  ldmatrix(back, row);
  for (int i = 0; i < 4; ++i) out[128 + 32 * i + lane_id()] = back[i] == r[i];
}

void test_matrices() {
  const Buffer<uint32_t> out(std::vector<uint32_t>(256));
  matrices<<<1, 32>>>(out.get());
  check(cudaGetLastError(), "launch");
  std::vector<uint32_t> wanted(256, 1);
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      // Lane l holds row l / 4, columns 2 (l % 4) and the next of the transposed block.
      const uint32_t row = lane / 4, col = lane % 4 * 2;
      wanted[32 * i + lane] = (64 * i + col * 8 + row) | (64 * i + (col + 1) * 8 + row) << 16;
    }
  }
  expect_equal(out.read(), wanted, "matrices");
}

__global__ void __launch_bounds__(64) per_thread_copies(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[2][256];
  for (int stage = 0; stage < 2; ++stage) {
    cp_async(smem(&tile[stage][4 * threadIdx.x]), in + 256 * stage + 4 * threadIdx.x, threadIdx.x != 63);
    cp_async_commit();
  }
  cp_async_wait<1>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[threadIdx.x + 64 * i] = tile[0][threadIdx.x + 64 * i];
  cp_async_wait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[256 + threadIdx.x + 64 * i] = tile[1][threadIdx.x + 64 * i];
}

void test_per_thread_copies() {
  const Buffer<uint32_t> in(counting(512, 1)), out(std::vector<uint32_t>(512));
  per_thread_copies<<<1, 64>>>(in.get(), out.get());
  check(cudaGetLastError(), "launch");
  auto wanted = counting(512, 1);
  for (int i = 252; i < 256; ++i) wanted[i] = wanted[256 + i] = 0;
  expect_equal(out.read(), wanted, "cp.async");
}

// Every block adds to every other one's sum, three times over.
__global__ void whole_grid(GridBarrier* barrier, uint32_t* sums, uint32_t* out) {
  for (uint32_t round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) atomicAdd(&sums[(blockIdx.x + round) % gridDim.x], blockIdx.x + 1);
    grid_sync(barrier);
    if (threadIdx.x == 0) out[round * gridDim.x + blockIdx.x] = *(volatile uint32_t*)&sums[(blockIdx.x + 1) % gridDim.x];
    grid_sync(barrier);
  }
}

void test_grid_sync() {
  constexpr uint32_t kBlocks = 12;
  const Buffer<GridBarrier> barrier(std::vector<GridBarrier>(1));
  const Buffer<uint32_t> sums(std::vector<uint32_t>(kBlocks, 0)), out(std::vector<uint32_t>(3 * kBlocks, 0));
  GridBarrier* barrier_pointer = barrier.get();
  uint32_t *sums_pointer = sums.get(), *out_pointer = out.get();
  void* arguments[] = {&barrier_pointer, &sums_pointer, &out_pointer};
  for (int launch = 0; launch < 2; ++launch) {
    check(cudaMemset(sums.get(), 0, kBlocks * 4), "clearing");
    check(cudaLaunchCooperativeKernel(whole_grid, dim3(kBlocks), dim3(64), arguments, 0, nullptr), "launch");
    std::vector<uint32_t> state(kBlocks), wanted;
    for (uint32_t round = 0; round < 3; ++round) {
      for (uint32_t block = 0; block < kBlocks; ++block) state[(block + round) % kBlocks] += block + 1;
      for (uint32_t block = 0; block < kBlocks; ++block) wanted.push_back(state[(block + 1) % kBlocks]);
    }
    expect_equal(out.read(), wanted, "grid_sync");
  }
}

__global__ void first_of_two(uint32_t* values) {
  values[threadIdx.x] = threadIdx.x + 5;
  grid_launch_dependents();
}
__global__ void second_of_two(const uint32_t* values, uint32_t* out) {
  grid_dependency_wait();
  out[threadIdx.x] = values[threadIdx.x] * 2;
}

void test_dependent_launch() {
  const Buffer<uint32_t> values(std::vector<uint32_t>(64)), out(std::vector<uint32_t>(64));
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  first_of_two<<<1, 64, 0, stream>>>(values.get());
  check(cudaGetLastError(), "launch");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, second_of_two, static_cast<const uint32_t*>(values.get()), out.get()), "launch");
  check(cudaStreamSynchronize(stream), "synchronisation");
  auto wanted = counting(64, 5);
  for (auto& value : wanted) value *= 2;
  expect_equal(out.read(), wanted, "dependent launch");
  check(cudaStreamDestroy(stream), "stream");
}

// ---- mbarrier.cuh ------------------------------------------------------------------------------------------------

constexpr int kRingStages = 3;

// Eight items through a ring of three: a producer thread copies, 64 consumers read. Prints (as numbers) what parity
// each side waited for, which is the table of mbarrier.md.
__global__ void __launch_bounds__(96) ring(const uint32_t* in, uint32_t* out, uint32_t* parities, int items) {
  __shared__ alignas(128) uint32_t slots[kRingStages][64];
  __shared__ alignas(8) uint64_t full[kRingStages], empty[kRingStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRingStages; ++i) {
      mbar_init(smem(&full[i]), 1);
      mbar_init(smem(&empty[i]), 2);  // one arrival of each consumer warp
    }
    mbar_init_fence();
  }
  __syncthreads();
  Ring<kRingStages> at;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      for (int item = 0; item < items; ++item) {
        mbar_wait(smem(&empty[at.stage]), at.parity ^ 1);
        parities[2 * item] = at.parity ^ 1;
        mbar_arrive_expect(smem(&full[at.stage]), 256);
        bulk_load(smem(slots[at.stage]), in + 64 * item, 256, smem(&full[at.stage]));
        at.advance();
      }
    }
  } else {
    for (int item = 0; item < items; ++item) {
      mbar_wait(smem(&full[at.stage]), at.parity);
      if (threadIdx.x == 32) parities[2 * item + 1] = at.parity;
      out[64 * item + threadIdx.x - 32] = slots[at.stage][threadIdx.x - 32] * 2;
      __syncwarp();
      if (lane_id() == 0) mbar_arrive(smem(&empty[at.stage]));
      at.advance();
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRingStages; ++i) {
      mbar_inval(smem(&full[i]));
      mbar_inval(smem(&empty[i]));
    }
  }
}

constexpr int kRingItems = 8;
std::vector<uint32_t> run_ring() {
  const Buffer<uint32_t> in(counting(64 * kRingItems)), out(std::vector<uint32_t>(64 * kRingItems));
  const Buffer<uint32_t> parities(std::vector<uint32_t>(2 * kRingItems));
  ring<<<1, 96>>>(in.get(), out.get(), parities.get(), kRingItems);
  check(cudaGetLastError(), "launch");
  auto wanted = counting(64 * kRingItems);
  for (auto& value : wanted) value *= 2;
  expect_equal(out.read(), wanted, "ring");
  return parities.read();
}

void test_ring() {
  const auto parities = run_ring();
  for (uint32_t item = 0; item < kRingItems; ++item) {
    expect(parities[2 * item + 1] == item / kRingStages % 2, "parity of the consumer");
    expect(parities[2 * item] == (item / kRingStages + 1) % 2, "parity of the producer");
  }
}

// expect without arrival: two threads announce their own bytes before the one arrival closes the phase.
__global__ void __launch_bounds__(32) announced(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t slots[2][32];
  __shared__ alignas(8) uint64_t full;
  if (lane_id() == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
  }
  __syncwarp();
  if (lane_id() < 2) {
    mbar_expect(smem(&full), 128);
    bulk_load(smem(slots[lane_id()]), in + 32 * lane_id(), 128, smem(&full));
  }
  __syncwarp();
  if (lane_id() == 0) mbar_arrive(smem(&full));
  while (!mbar_try_wait(smem(&full), 0)) {
  }
  out[lane_id()] = slots[0][lane_id()] + slots[1][lane_id()];
}

void test_announced() {
  const Buffer<uint32_t> in(counting(64)), out(std::vector<uint32_t>(32));
  announced<<<1, 32>>>(in.get(), out.get());
  check(cudaGetLastError(), "launch");
  std::vector<uint32_t> wanted(32);
  for (uint32_t i = 0; i < 32; ++i) wanted[i] = 2 * i + 32;
  expect_equal(out.read(), wanted, "expect");
}

// ---- cluster.cuh -------------------------------------------------------------------------------------------------

// Four CTAs pass values to the next one in every way that distributed shared memory has.
__global__ void __launch_bounds__(32) neighbours(uint32_t* out) {
  __shared__ alignas(16) uint32_t plain[32], stored[32], counted[32], copied[32], source[32], sum;
  __shared__ alignas(8) uint64_t arrived, released, handed;
  const uint32_t rank = cluster_rank(), next = (rank + 1) % 4;
  if (lane_id() == 0) {
    sum = 0;
    mbar_init(smem(&arrived), 1);
    mbar_init(smem(&released), 1);
    mbar_init(smem(&handed), 1);
    mbar_init_fence();
    // 128 bytes of st.async, 128 of red.async and 128 of a bulk copy come from the CTA before this one.
    mbar_arrive_expect(smem(&arrived), 3 * 128);
  }
  plain[lane_id()] = 100 * rank + lane_id();
  source[lane_id()] = 1000 * rank + lane_id();
  fence_async_shared();
  cluster_sync();
  const uint32_t theirs = map_to_cta(smem(&arrived), next);
  store_cluster_async(map_to_cta(smem(&counted[lane_id()]), next), 7 * rank + lane_id(), theirs);
  add_cluster_async(map_to_cta(smem(&sum), next), lane_id() + rank, theirs);
  if (lane_id() == 0) bulk_copy_to_cta(map_to_cta(smem(copied), next), smem(source), 128, theirs);
  // An ordinary store, handed over by a remote arrival with release.
  store_cluster(map_to_cta(smem(&stored[lane_id()]), next), 50 * rank + lane_id());
  __syncwarp();
  if (lane_id() == 0) {
    mbar_arrive_remote_release(smem(&handed), next);
    mbar_arrive_remote(smem(&released), next);  // hands over no data
  }
  mbar_wait(smem(&released), 0);
  mbar_wait_cluster(smem(&handed), 0);
  mbar_wait_cluster(smem(&arrived), 0);
  uint32_t* mine = out + (cluster_index() * 4 + rank) * 32 * 5;
  mine[lane_id()] = load_cluster(map_to_cta(smem(&plain[lane_id()]), next));
  mine[32 + lane_id()] = stored[lane_id()];
  mine[64 + lane_id()] = counted[lane_id()];
  mine[96 + lane_id()] = copied[lane_id()];
  mine[128 + lane_id()] = sum + cluster_count();
  cluster_sync();  // nobody leaves while a neighbour reads
}

void test_cluster() {
  const Buffer<uint32_t> out(std::vector<uint32_t>(2 * 4 * 160));
  launch(neighbours, dim3(8), 32, 0, 4, nullptr, out.get());
  std::vector<uint32_t> wanted;
  for (uint32_t block = 0; block < 8; ++block) {
    const uint32_t rank = block % 4, next = (rank + 1) % 4, before = (rank + 3) % 4;
    for (uint32_t i = 0; i < 32; ++i) wanted.push_back(100 * next + i);
    for (uint32_t i = 0; i < 32; ++i) wanted.push_back(50 * before + i);
    for (uint32_t i = 0; i < 32; ++i) wanted.push_back(7 * before + i);
    for (uint32_t i = 0; i < 32; ++i) wanted.push_back(1000 * before + i);
    for (uint32_t i = 0; i < 32; ++i) wanted.push_back(496 + 32 * before + 2);
  }
  expect_equal(out.read(), wanted, "cluster");
}

// ---- tma.cuh and swizzle.cuh -------------------------------------------------------------------------------------

// One box through shared memory: what TMA wrote is read through swizzle<>() and, with +1, stored by TMA elsewhere.
template <uint32_t kSpan>
__global__ void __launch_bounds__(128)
    boxes(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out, uint32_t* seen, int x, int y) {
  constexpr uint32_t kRows = 16, kWords = kSpan / 4;
  __shared__ alignas(1024) uint8_t tile[kRows * kSpan];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
    tma_prefetch_map(&in);
    mbar_arrive_expect(smem(&full), sizeof(tile));
    tma_load(smem(tile), &in, smem(&full), x, y);
  }
  __syncthreads();
  mbar_wait(smem(&full), 0);
  for (uint32_t i = threadIdx.x; i < kRows * kWords; i += 128) {
    auto* word = reinterpret_cast<uint32_t*>(tile + swizzled_offset<kSpan>(i / kWords, i % kWords, 4));
    seen[i] = *word;
    *word += 1;
  }
  fence_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(&out, smem(tile), x, y);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

template <uint32_t kSpan>
void test_box(CUtensorMapSwizzle mode) {
  constexpr uint32_t kWords = kSpan / 4, kRows = 16;
  constexpr uint64_t kWidth = 40, kHeight = 20;
  const auto values = counting(kWidth * kHeight, 1);
  const Buffer<uint32_t> in(values), out(std::vector<uint32_t>(values.size())), seen(std::vector<uint32_t>(kRows * kWords));
  const auto map = [&](uint32_t* data) {
    return tensor_map(data, {kWidth, kHeight}, {kWords, kRows}, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, mode);
  };
  const uint32_t x = 40 - kWords / 2, y = 8;  // reaches beyond both edges
  boxes<kSpan><<<1, 128>>>(map(in.get()), map(out.get()), seen.get(), static_cast<int>(x), static_cast<int>(y));
  check(cudaGetLastError(), "launch");
  std::vector<uint32_t> wanted_seen(kRows * kWords), wanted_out(values.size());
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < kWords; ++c) {
      if (x + c >= kWidth || y + r >= kHeight) continue;
      wanted_seen[r * kWords + c] = values[(y + r) * kWidth + x + c];
      wanted_out[(y + r) * kWidth + x + c] = values[(y + r) * kWidth + x + c] + 1;
    }
  }
  expect_equal(seen.read(), wanted_seen, "box read through the swizzle");
  expect_equal(out.read(), wanted_out, "box stored");
}

// Ranks 3 and 4, bulk copies and reductions, cache hints, prefetches.
__global__ void __launch_bounds__(32)
    copies(const __grid_constant__ CUtensorMap cube, const __grid_constant__ CUtensorMap cube_out,
           const __grid_constant__ CUtensorMap four, const __grid_constant__ CUtensorMap four_out,
           const __grid_constant__ CUtensorMap flat, const __grid_constant__ CUtensorMap flat_sum, const uint32_t* line,
           uint32_t* line_out, const float* terms, float* totals) {
  __shared__ alignas(128) uint32_t a[32], b[32], c[32], d[32];
  __shared__ alignas(128) float e[32];
  __shared__ alignas(8) uint64_t full;
  if (lane_id() == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
    mbar_arrive_expect(smem(&full), 5 * 128);
    tma_prefetch(&flat, 0, 0);
    tma_load(smem(a), &cube, smem(&full), 0, 1, 2);
    tma_load(smem(b), &four, smem(&full), 0, 1, 0, 1);
    tma_load_hint(smem(c), &flat, smem(&full), policy_evict_first(), 0, 1);
    bulk_load(smem(d), line, 128, smem(&full));
    bulk_load(smem(e), terms, 128, smem(&full));
    mbar_wait(smem(&full), 0);
    tma_store(&cube_out, smem(a), 0, 1, 2);
    tma_store(&four_out, smem(b), 0, 1, 0, 1);
    tma_store_commit();
    tma_reduce_add(&flat_sum, smem(c), 0, 1);
    bulk_store(line_out, smem(d), 128);
    bulk_reduce_add(totals, smem(e), 128);
    tma_store_commit();
    tma_store_wait_read<1>();
    tma_store_wait<0>();
    line_out[32] = policy_evict_last() != 0;
  }
}

void test_copies() {
  const auto numbers = counting(1024, 3);
  const Buffer<uint32_t> in(numbers), cube(std::vector<uint32_t>(1024)), four(std::vector<uint32_t>(1024)),
      flat(std::vector<uint32_t>(64, 9)), line(std::vector<uint32_t>(33));
  std::vector<float> terms(32, 1.5f);
  const Buffer<float> in_terms(terms), totals(std::vector<float>(32, 2.0f));
  const auto u32 = CU_TENSOR_MAP_DATA_TYPE_UINT32;
  const auto none = CU_TENSOR_MAP_SWIZZLE_NONE;
  const auto cube_map = [&](uint32_t* p) { return tensor_map(p, {8, 8, 16}, {8, 2, 2}, u32, 4, none); };
  const auto four_map = [&](uint32_t* p) { return tensor_map(p, {8, 8, 4, 4}, {8, 2, 1, 2}, u32, 4, none); };
  const auto flat_map = [&](uint32_t* p) { return tensor_map(p, {32, 2}, {32, 1}, u32, 4, none); };
  copies<<<1, 32>>>(cube_map(in.get()), cube_map(cube.get()), four_map(in.get()), four_map(four.get()),
                    flat_map(in.get()), flat_map(flat.get()), in.get(), line.get(), in_terms.get(), totals.get());
  check(cudaGetLastError(), "launch");
  std::vector<uint32_t> wanted_cube(1024), wanted_four(1024), wanted_flat(64, 9), wanted_line(33, 1);
  for (uint32_t z = 2; z < 4; ++z) {
    for (uint32_t y = 1; y < 3; ++y) {
      for (uint32_t x = 0; x < 8; ++x) wanted_cube[z * 64 + y * 8 + x] = numbers[z * 64 + y * 8 + x];
    }
  }
  for (uint32_t w = 1; w < 3; ++w) {
    for (uint32_t y = 1; y < 3; ++y) {
      for (uint32_t x = 0; x < 8; ++x) wanted_four[w * 256 + y * 8 + x] = numbers[w * 256 + y * 8 + x];
    }
  }
  for (uint32_t x = 0; x < 32; ++x) wanted_flat[32 + x] += numbers[32 + x];
  for (uint32_t x = 0; x < 32; ++x) wanted_line[x] = numbers[x];
  expect_equal(cube.read(), wanted_cube, "3-D");
  expect_equal(four.read(), wanted_four, "4-D");
  expect_equal(flat.read(), wanted_flat, "reduction");
  expect_equal(line.read(), wanted_line, "bulk copy");
  expect_equal(totals.read(), std::vector<float>(32, 3.5f), "bulk reduction");
}

// Each of two CTAs loads one half and multicasts it; both count both halves.
__global__ void __launch_bounds__(32) halves(const __grid_constant__ CUtensorMap map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[2][32];
  __shared__ alignas(8) uint64_t full;
  if (lane_id() == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
  }
  cluster_sync();
  if (lane_id() == 0) {
    mbar_arrive_expect(smem(&full), 256);  // what arrives here, from both
    tma_load_multicast(smem(tile[cluster_rank()]), &map, smem(&full), 3, 0, static_cast<int>(cluster_rank()));
  }
  mbar_wait(smem(&full), 0);
  for (int i = 0; i < 2; ++i) out[(cluster_rank() * 2 + i) * 32 + lane_id()] = tile[i][lane_id()];
  cluster_sync();
}

void test_multicast() {
  const Buffer<uint32_t> in(counting(64, 1)), out(std::vector<uint32_t>(128));
  const CUtensorMap map =
      tensor_map(in.get(), {32, 2}, {32, 1}, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, CU_TENSOR_MAP_SWIZZLE_NONE);
  launch(halves, dim3(2), 32, 0, 2, nullptr, map, out.get());
  auto wanted = counting(64, 1);
  for (uint32_t i = 0; i < 64; ++i) wanted.push_back(i + 1);
  expect_equal(out.read(), wanted, "multicast");
}

// A map made on the device: the template's address is replaced, the result published and used.
__global__ void __launch_bounds__(32) new_map(const CUtensorMap* model, CUtensorMap* fresh, const uint32_t* tensor, uint32_t* out) {
  __shared__ alignas(128) CUtensorMap map;
  __shared__ alignas(128) uint32_t tile[32];
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
    tensor_map_acquire(fresh);
    mbar_arrive_expect(smem(&full), 128);
    tma_load(smem(tile), fresh, smem(&full), 0, 1);
  }
  mbar_wait(smem(&full), 0);
  out[lane_id()] = tile[lane_id()];
}

void test_new_map() {
  const Buffer<uint32_t> old(counting(64)), tensor(counting(64, 500)), out(std::vector<uint32_t>(32));
  const CUtensorMap map =
      tensor_map(old.get(), {32, 2}, {32, 1}, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, CU_TENSOR_MAP_SWIZZLE_NONE);
  const Buffer<CUtensorMap> model(std::vector<CUtensorMap>(1, map)), fresh(std::vector<CUtensorMap>(1, map));
  new_map<<<1, 32>>>(model.get(), fresh.get(), tensor.get(), out.get());
  check(cudaGetLastError(), "launch");
  expect_equal(out.read(), counting(32, 532), "tensor map made on the device");
}

// Global memory written by ordinary stores and read by a bulk copy of the same grid; then the reverse way.
__global__ void __launch_bounds__(32) through_global(uint32_t* scratch, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[32];
  __shared__ alignas(8) uint64_t full;
  scratch[lane_id()] = lane_id() * 11;
  fence_async_global();
  if (lane_id() == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
  }
  __syncwarp();
  if (lane_id() == 0) {
    mbar_arrive_expect(smem(&full), 128);
    bulk_load(smem(tile), scratch, 128, smem(&full));
  }
  mbar_wait(smem(&full), 0);
  tile[lane_id()] += 1;
  fence_async_all();
  __syncwarp();
  if (lane_id() == 0) {
    bulk_store(out, smem(tile), 128);
    tma_store_commit();
    tma_store_wait<0>();
  }
}

void test_through_global() {
  const Buffer<uint32_t> scratch(std::vector<uint32_t>(32)), out(std::vector<uint32_t>(32));
  through_global<<<1, 32>>>(scratch.get(), out.get());
  check(cudaGetLastError(), "launch");
  auto wanted = counting(32);
  for (auto& value : wanted) value = value * 11 + 1;
  expect_equal(out.read(), wanted, "through global memory");
}

// The tables of the documents, as this program finds them.
void print_phases() {
  const auto parities = run_ring();
  std::printf("| item | stage | turn | producer waits for parity, on `empty` | consumer waits for parity, on `full` |\n");
  std::printf("|---|---|---|---|---|\n");
  for (uint32_t item = 0; item < kRingItems; ++item) {
    std::printf("| %u | %u | %u | %u%s | %u |\n", item, item % kRingStages, item / kRingStages, parities[2 * item],
                item < kRingStages ? " (at once)" : "", parities[2 * item + 1]);
  }
}

// Announces so many bytes, loads a box of A and perhaps one of B, and waits: it would wait for ever, or too short, if the
// number were wrong.
__global__ void __launch_bounds__(32)
    counted(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, uint32_t bytes, int x, int y,
            bool both, uint32_t* out) {
  extern __shared__ uint8_t dynamic[];
  __shared__ alignas(8) uint64_t full;
  const uint32_t tile = align_up(smem(dynamic), 1024);
  if (lane_id() == 0) {
    mbar_init(smem(&full), 1);
    mbar_init_fence();
    mbar_arrive_expect(smem(&full), bytes);
    tma_load(tile, &a, smem(&full), x, y);
    if (both) tma_load(tile + 16384, &b, smem(&full), x, y);
  }
  __syncwarp();
  mbar_wait(smem(&full), 0);
  out[lane_id()] = load_shared(tile).x;
}

struct ByteCase {
  const char* what;
  const char* sum;
  uint32_t box_x, box_y, element, bytes;
  int x, y;
  bool both;
};
constexpr ByteCase kByteCases[] = {
    {"bf16 box 64 x 128", "64 * 128 * 2", 64, 128, 2, 16384, 0, 0, false},
    {"the same box, three quarters outside the tensor", "64 * 128 * 2", 64, 128, 2, 16384, 96, 192, false},
    {"A and B, bf16, 64 x 128 each, on one barrier", "2 * 16384", 64, 128, 2, 32768, 0, 0, true},
    {"bf16 box 16 x 8 under the 128-byte swizzle (padding not counted)", "16 * 8 * 2", 16, 8, 2, 256, 0, 0, false},
    {"fp32 box 32 x 8", "32 * 8 * 4", 32, 8, 4, 1024, 0, 0, false},
};

void run_bytes(const ByteCase& one) {
  const Buffer<uint32_t> in(counting(128 * 256)), out(std::vector<uint32_t>(32));
  const CUtensorMap map = tensor_map(in.get(), {128, 256}, {one.box_x, one.box_y},
                                     one.element == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                     one.element);
  launch(counted, dim3(1), 32, 33 * 1024, 1, nullptr, map, map, one.bytes, one.x, one.y, one.both, out.get());
  check(cudaDeviceSynchronize(), one.what);
}

void print_bytes() {
  std::printf("| copies | bytes | |\n|---|---|---|\n");
  for (const ByteCase& one : kByteCases) {
    run_bytes(one);
    std::printf("| %s | %u | %s |\n", one.what, one.bytes, one.sum);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::string(words[1]).rfind("--", 0) == 0) {
    std::string(words[1]) == "--phases" ? print_phases() : print_bytes();
    return testing::failures == 0 ? 0 : 1;
  }
  testing::read_arguments(count, words);
  testing::run("warps", test_warps);
  testing::run("small_functions", test_small_functions);
  testing::run("matrices", test_matrices);
  testing::run("per_thread_copies", test_per_thread_copies);
  testing::run("grid_sync", test_grid_sync);
  testing::run("dependent_launch", test_dependent_launch);
  testing::run("ring", test_ring);
  testing::run("announced", test_announced);
  testing::run("cluster", test_cluster);
  testing::run("box_128", [] { test_box<128>(CU_TENSOR_MAP_SWIZZLE_128B); });
  testing::run("box_64", [] { test_box<64>(CU_TENSOR_MAP_SWIZZLE_64B); });
  testing::run("box_32", [] { test_box<32>(CU_TENSOR_MAP_SWIZZLE_32B); });
  testing::run("copies", test_copies);
  testing::run("multicast", test_multicast);
  testing::run("new_map", test_new_map);
  testing::run("through_global", test_through_global);
  testing::run("bytes", [] {
    for (const ByteCase& one : kByteCases) run_bytes(one);
  });
  return testing::result();
}
