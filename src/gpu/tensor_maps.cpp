#include <cstring>

#include "emulator/tensor/tensor_map.h"
#include "gpu/gpu_backend.h"

namespace ptxbench::gpu {

Result<void> translate_tensor_maps(const Driver& driver, std::span<std::byte> bytes) {
  using emulator::TensorMap;
  // The map is aligned on the device, not here: machine code may want its parameters at offset 112 of a buffer whose
  // start lies at 528 in the constant bank.
  constexpr std::size_t kStep = 8;
  for (std::size_t at = 0; at + sizeof(TensorMap) <= bytes.size(); at += kStep) {
    std::uint64_t magic = 0;
    std::memcpy(&magic, bytes.data() + at, sizeof magic);
    if (magic != TensorMap::kMagic) continue;
    const auto map = emulator::read_tensor_map(bytes.data() + at);
    if (!map || map->rank == 0 || map->rank > emulator::kMaxTensorRank) continue;
    cuuint64_t dims[emulator::kMaxTensorRank]{}, strides[emulator::kMaxTensorRank]{};
    cuuint32_t box[emulator::kMaxTensorRank]{}, steps[emulator::kMaxTensorRank]{};
    for (std::size_t d = 0; d < map->rank; ++d) {
      dims[d] = map->global_dims[d];
      box[d] = map->box_dims[d];
      steps[d] = map->element_strides[d];
      if (d > 0) strides[d - 1] = map->global_strides[d - 1];
    }
    CUtensorMap encoded{};
    const CUresult result = driver.cuTensorMapEncodeTiled(
        &encoded, static_cast<CUtensorMapDataType>(map->data_type), map->rank,
        reinterpret_cast<void*>(map->global_address), dims, strides, box, steps,
        static_cast<CUtensorMapInterleave>(map->interleave), static_cast<CUtensorMapSwizzle>(map->swizzle),
        static_cast<CUtensorMapL2promotion>(map->l2_promotion), static_cast<CUtensorMapFloatOOBfill>(map->oob_fill));
    if (result != CUDA_SUCCESS) {
      return input_error("the driver refuses a tensor map that cuTensorMapEncodeTiled accepted: {}",
                         driver.describe(result));
    }
    std::memcpy(bytes.data() + at, &encoded, sizeof encoded);
    at += sizeof(TensorMap) - kStep;
  }
  return {};
}

}  // namespace ptxbench::gpu
