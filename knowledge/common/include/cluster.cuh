// Thread-block clusters and distributed shared memory.
#pragma once
#include "mbarrier.cuh"

// region cluster
DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Position and number of clusters along x.
DEVICE uint32_t cluster_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return index;
}
DEVICE uint32_t cluster_count() {
  uint32_t count;
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}
// All threads of all CTAs. Once after the barriers are initialised, once before any CTA may leave.
DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The address, in CTA `rank`, of what lies at `address` here.
DEVICE uint32_t map_to_cta(uint32_t address, uint32_t rank) {
  uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
// endregion cluster

// region dsmem
DEVICE uint32_t load_cluster(uint32_t mapped) {
  uint32_t value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(mapped) : "memory");
  return value;
}
DEVICE void store_cluster(uint32_t mapped, uint32_t value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(mapped), "r"(value) : "memory");
}
// A store that counts its 4 bytes on an mbarrier of the same CTA that it writes to; no other synchronisation is needed.
DEVICE void store_cluster_async(uint32_t mapped, uint32_t value, uint32_t mapped_bar) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(mapped), "r"(value),
               "r"(mapped_bar)
               : "memory");
}
DEVICE void add_cluster_async(uint32_t mapped, uint32_t value, uint32_t mapped_bar) {
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(
                   mapped),
               "r"(value), "r"(mapped_bar)
               : "memory");
}
// Bytes (a multiple of 16) from this CTA's shared memory to another's.
DEVICE void bulk_copy_to_cta(uint32_t mapped, uint32_t source, uint32_t bytes, uint32_t mapped_bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   mapped),
               "r"(source), "r"(bytes), "r"(mapped_bar)
               : "memory");
}
// endregion dsmem
