// A model of tensor memory and tcgen05 in ordinary CUDA, under the names of tcgen05.cuh, so that the Blackwell patterns
// can be executed where there are no such tensor cores. Products are computed at their issue, by the issuing thread, from
// the bits of the real descriptors. It proves barriers, phases, addresses and layouts of a pattern against this reading
// of the instructions, and neither timing nor what the hardware orders.
#pragma once

// The real encoders are used; what contains instructions of sm_100a is put aside under other names and never called.
#define tmem_alloc hardware_tmem_alloc
#define tmem_relinquish hardware_tmem_relinquish
#define tmem_dealloc hardware_tmem_dealloc
#define tcgen05_fence_before hardware_fence_before
#define tcgen05_fence_after hardware_fence_after
#define tmem_load_wait hardware_load_wait
#define tmem_store_wait hardware_store_wait
#define tmem_load hardware_load
#define tmem_store hardware_store
#define umma_commit hardware_commit
#define umma_commit_multicast hardware_commit_multicast
#define tma_load_pair hardware_load_pair
#define umma_f16 hardware_umma_f16
#define umma_f16_ts hardware_umma_f16_ts
#include "sm_100a/include/tcgen05.cuh"
#undef tmem_alloc
#undef tmem_relinquish
#undef tmem_dealloc
#undef tcgen05_fence_before
#undef tcgen05_fence_after
#undef tmem_load_wait
#undef tmem_store_wait
#undef tmem_load
#undef tmem_store
#undef umma_commit
#undef umma_commit_multicast
#undef tma_load_pair
#undef umma_f16
#undef umma_f16_ts
#include "tma.cuh"

constexpr int kModelBlocks = 32;
__device__ uint32_t model_memory[kModelBlocks][128][512];

DEVICE void model_check(bool good) {
  if (!good) __trap();
}
DEVICE uint32_t model_block() {
  const uint32_t block = blockIdx.x + gridDim.x * blockIdx.y;
  model_check(block < kModelBlocks);
  return block;
}

template <int kCtas = 1>
DEVICE void tmem_alloc(uint32_t slot, uint32_t columns) {
  model_check(columns >= 32 && columns <= 512 && (columns & (columns - 1)) == 0);
  // Not 0 where there is a choice: addresses must be relative to what is returned.
  if (lane_id() == 0) asm volatile("st.shared.b32 [%0], %1;" ::"r"(slot), "r"(512 - columns) : "memory");
  __syncwarp();
}
template <int kCtas = 1>
DEVICE void tmem_relinquish() {}
template <int kCtas = 1>
DEVICE void tmem_dealloc(uint32_t tmem, uint32_t columns) {
  model_check(tmem == 512 - columns);
}
DEVICE void tcgen05_fence_before() {}
DEVICE void tcgen05_fence_after() {}
DEVICE void tmem_load_wait() {}
DEVICE void tmem_store_wait() {}

DEVICE uint32_t* model_cells(uint32_t address, uint32_t count) {
  const uint32_t lane = address >> 16, column = address & 0xffff;
  model_check(__activemask() == 0xffffffffu && lane == threadIdx.x / 32 % 4 * 32 && column + count <= 512);
  return &model_memory[model_block()][lane + lane_id()][column];
}
template <class T, int kCount>
DEVICE void tmem_load(T (&v)[kCount], uint32_t address) {
  const uint32_t* cells = model_cells(address, kCount);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint32_t bits = __ldcg(cells + i);
    v[i] = reinterpret_cast<const T&>(bits);
  }
}
template <class T, int kCount>
DEVICE void tmem_store(uint32_t address, const T (&v)[kCount]) {
  uint32_t* cells = model_cells(address, kCount);
#pragma unroll
  for (int i = 0; i < kCount; ++i) __stcg(cells + i, reinterpret_cast<const uint32_t&>(v[i]));
}

/// Sixteen bf16 along K of row `mn` of an operand, as floats.
DEVICE void model_operand(float (&x)[16], uint64_t descriptor, bool mn_major, uint32_t mn, uint32_t rank, bool pair) {
  const uint32_t start = uint32_t(descriptor & 0x3fff) << 4, leading = uint32_t(descriptor >> 16 & 0x3fff) << 4,
                 stride = uint32_t(descriptor >> 32 & 0x3fff) << 4, mode = uint32_t(descriptor >> 61);
  model_check((descriptor >> 46 & 7) == 1 && (descriptor >> 49 & 7) == 0 && (mode == 2 || mode == 4 || mode == 6));
  const uint32_t span = mode == 2 ? 128 : mode == 4 ? 64 : 32;
  const auto place = [&](uint32_t offset) {
    const uint32_t logical = start + offset, address = logical ^ (logical >> 3 & (span - 16));
    return pair ? map_to_cta(address, rank) : address;
  };
  if (mn_major) {
    for (uint32_t k = 0; k < 16; ++k) {
      uint16_t bits;
      const uint32_t address = place(mn / (span / 2) * leading + k / 8 * stride + k % 8 * span + mn % (span / 2) * 2);
      asm volatile("ld.shared::cluster.u16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
      x[k] = __uint_as_float(uint32_t(bits) << 16);
    }
    return;
  }
  for (uint32_t half = 0; half < 2; ++half) {
    uint32_t w[4];
    const uint32_t address = place(mn / 8 * stride + mn % 8 * span + half * 16);
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address)
                 : "memory");
    for (uint32_t i = 0; i < 8; ++i) {
      x[8 * half + i] = __uint_as_float(i % 2 == 0 ? w[i / 2] << 16 : w[i / 2] & 0xffff0000u);
    }
  }
}

struct ModelShape {
  uint32_t m, n;
  bool a_mn, b_mn;
};
template <int kCtas>
DEVICE ModelShape model_shape(uint32_t instruction) {
  const ModelShape shape{(instruction >> 24 & 31) * 16, (instruction >> 17 & 63) * 8, (instruction >> 15 & 1) != 0,
                         (instruction >> 16 & 1) != 0};
  model_check((instruction >> 4 & 3) == 1 && (instruction >> 7 & 7) == 1 && (instruction >> 10 & 7) == 1);
  model_check(shape.m == 128 * kCtas && shape.n % (16 * kCtas) == 0 && shape.n >= 16 && shape.n <= 256);
  return shape;
}
template <int kCtas, class Row>
DEVICE void model_product(uint32_t d, uint64_t b, ModelShape shape, bool accumulate, Row row_of_a) {
  const uint32_t block = model_block(), column = d & 0xffff;
  model_check(d >> 16 == 0 && column + shape.n <= 512);
  const uint32_t share = shape.n / kCtas;
  for (uint32_t j = 0; j < shape.n; j += 8) {  // eight columns at a time, to fetch A less often
    float y[8][16];
#pragma unroll
    for (uint32_t c = 0; c < 8; ++c) model_operand(y[c], b, shape.b_mn, (j + c) % share, (j + c) / share, kCtas == 2);
    for (uint32_t i = 0; i < shape.m; ++i) {
      float x[16];
      row_of_a(x, i);
      uint32_t* cells = &model_memory[(block & ~uint32_t(kCtas - 1)) + i / 128][i % 128][column + j];
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        float sum = accumulate ? __uint_as_float(__ldcg(cells + c)) : 0.0f;
#pragma unroll
        for (int k = 0; k < 16; ++k) sum = fmaf(x[k], y[c][k], sum);
        __stcg(cells + c, __float_as_uint(sum));
      }
    }
  }
}
template <int kCtas = 1>
DEVICE void umma_f16(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate) {
  const ModelShape shape = model_shape<kCtas>(instruction);
  model_product<kCtas>(d, b, shape, accumulate, [&](float (&x)[16], uint32_t i) {
    model_operand(x, a, shape.a_mn, i % 128, i / 128, kCtas == 2);
  });
}
template <int kCtas = 1>
DEVICE void umma_f16_ts(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, bool accumulate) {
  const ModelShape shape = model_shape<kCtas>(instruction);
  model_check(kCtas == 1 && !shape.a_mn && a >> 16 == 0 && (a & 0xffff) + 8 <= 512);
  model_product<kCtas>(d, b, shape, accumulate, [&](float (&x)[16], uint32_t i) {
    for (uint32_t k = 0; k < 8; ++k) {
      const uint32_t bits = __ldcg(&model_memory[model_block()][i][(a & 0xffff) + k]);
      x[2 * k] = __uint_as_float(bits << 16);
      x[2 * k + 1] = __uint_as_float(bits & 0xffff0000u);
    }
  });
}
template <int kCtas = 1>
DEVICE void umma_commit(uint32_t bar) {
  mbar_arrive(bar);
}
template <int kCtas = 1>
DEVICE void umma_commit_multicast(uint32_t bar, uint16_t mask) {
  for (uint32_t rank = 0; rank < 16; ++rank) {
    if ((mask >> rank & 1) != 0) mbar_arrive_remote_release(bar, rank);
  }
}
// Copies, waits, and then counts the bytes where they belong; each call moves MODEL_BOX_BYTES.
#ifndef MODEL_BOX_BYTES
#define MODEL_BOX_BYTES 0
#endif
DEVICE void tma_load_pair(uint32_t destination, const void* map, uint32_t mapped_bar, int x, int y) {
  __shared__ alignas(8) uint64_t own;
  mbar_init(smem(&own), 1);
  mbar_init_fence();
  mbar_arrive_expect(smem(&own), MODEL_BOX_BYTES);
  tma_load(destination, static_cast<const CUtensorMap*>(map), smem(&own), x, y);
  mbar_wait(smem(&own), 0);
  mbar_inval(smem(&own));
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(mapped_bar),
               "n"(MODEL_BOX_BYTES)
               : "memory");
}
