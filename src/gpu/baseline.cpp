#include "gpu/baseline.h"

namespace ptxbench::gpu {

Result<base::Json> Baseline::tune(const std::vector<std::uint64_t>&, const std::vector<std::uint64_t>&) {
  return base::Json();
}

Result<std::unique_ptr<Baseline>> make_baseline(const Device& device, const base::Json& description) {
  const std::string kind = description.value("kind", "");
  if (kind == "gemm") return make_gemm_baseline(device, description);
  if (kind == "gqa") return make_gqa_baseline(device, description);
  if (kind == "attention") {
#ifdef PTXBENCH_HAS_CUDNN
    return make_attention_baseline(device, description);
#else
    return infrastructure_error("this build has no cuDNN baseline: run scripts/setup.sh and build again");
#endif
  }
  return infrastructure_error("no baseline of kind '{}' in this build", kind);
}

}  // namespace ptxbench::gpu
