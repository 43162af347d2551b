#pragma once

#include <cstdint>

namespace ptxbench::gpu {

/// Element types that the generator of kernels.cu makes.
enum class ElementType : std::int32_t { float32, float16, bfloat16, float8_e4m3fn, float8_e5m2 };

}  // namespace ptxbench::gpu
