// Tensor and bulk copies. All are issued by one thread.
#pragma once
#include <cuda.h>

#include "mbarrier.cuh"

// region tma
// `map` points to a `const __grid_constant__ CUtensorMap` parameter. Coordinates count elements, innermost first.
// The barrier's phase must have been told the bytes of the whole box, clipped or not.
DEVICE void tma_load(uint32_t destination, const CUtensorMap* map, uint32_t bar, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          destination),
      "l"(map), "r"(bar), "r"(x), "r"(y)
      : "memory");
}
DEVICE void tma_load(uint32_t destination, const CUtensorMap* map, uint32_t bar, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(destination),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z)
      : "memory");
}
// To the same offset in every CTA of `mask` (bit = rank), counting on the barrier at the same offset in each.
DEVICE void tma_load_multicast(uint32_t destination, const CUtensorMap* map, uint32_t bar, uint16_t mask, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(destination),
      "l"(map), "r"(bar), "h"(mask), "r"(x), "r"(y)
      : "memory");
}
// Rows and columns beyond the tensor are not written.
DEVICE void tma_store(const CUtensorMap* map, uint32_t source, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(source), "r"(x), "r"(y)
               : "memory");
}
DEVICE void tma_store(const CUtensorMap* map, uint32_t source, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(source), "r"(x), "r"(y), "r"(z)
               : "memory");
}
// Adds the box to memory instead.
DEVICE void tma_reduce_add(const CUtensorMap* map, uint32_t source, int x, int y) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(source), "r"(x), "r"(y)
               : "memory");
}
// Stores count in groups of the thread that issued them: commit, and wait, in that same thread.
DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most kLeft groups still read shared memory: the buffers of the others may be written again.
template <int kLeft>
DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
// At most kLeft groups are unfinished. Before the thread exits: tma_store_wait<0>().
template <int kLeft>
DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kLeft) : "memory");
}
DEVICE void tma_prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// endregion tma

// region tma_4d
DEVICE void tma_load(uint32_t destination, const CUtensorMap* map, uint32_t bar, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(destination),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
DEVICE void tma_store(const CUtensorMap* map, uint32_t source, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(source), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
// endregion tma_4d

// region bulk
// Contiguous bytes, without a tensor map: addresses and size are multiples of 16.
DEVICE void bulk_load(uint32_t destination, const void* source, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   destination),
               "l"(source), "r"(bytes), "r"(bar)
               : "memory");
}
DEVICE void bulk_store(void* destination, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination), "r"(source),
               "r"(bytes)
               : "memory");
}
DEVICE void bulk_reduce_add(float* destination, uint32_t source, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(destination),
               "r"(source), "r"(bytes)
               : "memory");
}
// endregion bulk

// region hints
// How long lines stay in L2: pass the policy to a copy with .L2::cache_hint.
DEVICE uint64_t policy_evict_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
DEVICE uint64_t policy_evict_last() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
DEVICE void tma_load_hint(uint32_t destination, const CUtensorMap* map, uint32_t bar, uint64_t policy, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(destination),
      "l"(map), "r"(bar), "l"(policy), "r"(x), "r"(y)
      : "memory");
}
DEVICE void tma_prefetch(const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(x), "r"(y) : "memory");
}
// endregion hints

// region tensormap
// Points a map in shared memory at another tensor; one thread. The new map is used from global memory:
// tensor_map_publish (one whole warp) copies it there and releases it, tensor_map_acquire comes before its first use.
DEVICE void tensor_map_set_address(uint32_t map_in_shared, const void* tensor) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map_in_shared),
               "l"(tensor)
               : "memory");
}
DEVICE void tensor_map_publish(CUtensorMap* map_in_global, uint32_t map_in_shared) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          map_in_global),
      "r"(map_in_shared)
      : "memory");
}
DEVICE void tensor_map_acquire(const CUtensorMap* map_in_global) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map_in_global) : "memory");
}
// endregion tensormap
