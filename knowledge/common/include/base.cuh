// Addresses, warps, named barriers, registers, packing, proxy fences.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

// region base
#define DEVICE __device__ __forceinline__

// The 32-bit address that every shared-memory operand of PTX takes: constraint "r", never "l".
DEVICE uint32_t smem(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
DEVICE uint32_t align_up(uint32_t address, uint32_t to) { return (address + to - 1) / to * to; }

DEVICE uint32_t lane_id() { return threadIdx.x % 32; }
// Read from lane 0, so that the compiler knows the value to be the same in the whole warp. Blocks of one dimension.
DEVICE uint32_t warp_id() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }
DEVICE uint32_t warpgroup_id() { return warp_id() / 4; }
// True in exactly one lane. The whole warp must get here together.
DEVICE bool elect_one() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected)::"memory");
  return elected != 0;
}

// Named barriers 1..15 (0 is __syncthreads). `threads` counts all that sync or arrive, a multiple of 32.
DEVICE void bar_sync(uint32_t id, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEVICE void bar_arrive(uint32_t id, uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// By all warps of a warpgroup. kRegisters: a multiple of 8 in 24..256.
template <int kRegisters>
DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Makes this thread's ordinary accesses to shared (global) memory visible to TMA and tensor cores. Call it in every
// thread that wrote, before the barrier after which another thread issues the asynchronous operation.
DEVICE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
DEVICE void fence_async_all() { asm volatile("fence.proxy.async;" ::: "memory"); }

DEVICE uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE void store_shared(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
DEVICE uint4 load_shared(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
// Four 8x8 blocks of 16-bit elements. Lane 8i + r gives the address of row r (16 bytes) of block i.
DEVICE void stmatrix(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}
// endregion base

// region more
DEVICE void stmatrix_trans(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
DEVICE void ldmatrix(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
DEVICE void ldmatrix_trans(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
// 16 bytes by the older, per-thread copy; zero-filled where `valid` is false.
DEVICE void cp_async(uint32_t destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeftInFlight>
DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeftInFlight) : "memory");
}
// Programmatic dependent launch: the first returns when the kernels before have ended (or let go) and their writes
// are visible; the second lets the next kernel start.
DEVICE void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEVICE void grid_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// exp2 for x in [-126, 127] on the FMA pipes: a cubic around the nearest integer, relative error below 1e-4.
DEVICE float exp2_polynomial(float x) {
  x = fmaxf(x, -126.0f);
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: the nearest integer lands in the lowest bits
  const float rest = x - (shifted - 12582912.0f);
  float y = fmaf(rest, 0.0551716691f, 0.2426111222f);
  y = fmaf(y, rest, 0.6932609855f);
  y = fmaf(y, rest, 0.9999280735f);
  return __int_as_float(__float_as_int(y) + (__float_as_int(shifted) << 23));
}
// endregion more

// region gridsync
// A barrier of the whole grid. All blocks must be resident: launch with cudaLaunchCooperativeKernel. `state` is
// zero before the first launch and is left ready for the next. The generation is read before arriving: afterwards, the
// last block may already have moved it on.
struct GridBarrier {
  unsigned arrived, generation;
};
DEVICE void grid_sync(GridBarrier* state) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    unsigned before, now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(before) : "l"(&state->generation) : "memory");
    __threadfence();
    if (atomicAdd(&state->arrived, 1u) == blocks - 1) {
      atomicExch(&state->arrived, 0u);
      __threadfence();
      atomicAdd(&state->generation, 1u);
    } else {
      do {
        __nanosleep(64);
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(&state->generation) : "memory");
      } while (now == before);
    }
    __threadfence();
  }
  __syncthreads();
}
// endregion gridsync
