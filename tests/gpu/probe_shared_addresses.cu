// How shared memory is numbered: 32-bit addresses of the same variable as each CTA of a cluster sees its own and, through
// mapa, its peers' copies; where the first variable lies; the generic window.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

struct Seen {
  uint32_t own, mapped[4], rank, dynamic_offset, total, reserved_begin, reserved_end;
  unsigned long long generic_own, generic_mapped[4];
};

__global__ void __cluster_dims__(4, 1, 1) probe(Seen* out) {
  __shared__ int variable;
  extern __shared__ int dynamic[];
  const uint32_t own = static_cast<uint32_t>(__cvta_generic_to_shared(&variable));
  Seen seen{};
  seen.own = own;
  seen.dynamic_offset = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic));
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(seen.rank));
  asm("mov.u32 %0, %%total_smem_size;" : "=r"(seen.total));
  asm("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(seen.reserved_begin));
  asm("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(seen.reserved_end));
  seen.generic_own = reinterpret_cast<unsigned long long>(&variable);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(seen.mapped[rank]) : "r"(own), "r"(rank));
    asm("mapa.u64 %0, %1, %2;" : "=l"(seen.generic_mapped[rank]) : "l"(&variable), "r"(rank));
  }
  out[blockIdx.x] = seen;
}

int main() {
  Seen* device;
  Seen host[4];
  cudaMalloc(&device, sizeof host);
  probe<<<4, 1, 1000>>>(device);
  if (cudaDeviceSynchronize() != cudaSuccess) {
    std::printf("failed: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  for (const Seen& s : host) {
    std::printf("rank %u: own %#x dynamic %#x mapa %#x %#x %#x %#x generic %#llx mapa %#llx %#llx %#llx %#llx total %u reserved %u..%u\n",
                s.rank, s.own, s.dynamic_offset, s.mapped[0], s.mapped[1], s.mapped[2], s.mapped[3], s.generic_own,
                s.generic_mapped[0], s.generic_mapped[1], s.generic_mapped[2], s.generic_mapped[3], s.total, s.reserved_begin,
                s.reserved_end);
  }
  return 0;
}
