#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "gpu/device.h"

namespace ptxbench::gpu {

/// A vendor's library doing the problem's work, planned once so that a run is nothing but kernels.
class Baseline {
 public:
  virtual ~Baseline() = default;
  /// "cuBLASLt".
  virtual std::string name() const = 0;
  /// As found on this machine: "13.1.0".
  virtual std::string version() const = 0;
  /// Puts the work on the device's stream. Addresses in the order of the definition's inputs and outputs.
  virtual Result<void> run(const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs) = 0;
  /// Tries all plans that the library offers, and takes the fastest. Returns members for the description that name it,
  /// so that the next one need not try; null where there is nothing to choose. Runs kernels, and waits for them.
  virtual Result<base::Json> tune(const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs);
};

/// By its description; tensors are named by their places among inputs or outputs:
///   {"kind": "gemm", "m", "n", "k", "dtype", "a", "b", "c", optionally "tuned": true (the fastest plan of those that
///    cuBLASLt offers instead of its first) and then "algorithm", which tune() gave}
///   {"kind": "attention", "batch", "heads", "sequence", "depth", "causal", "backward", "dtype",
///    "q", "k", "v", "o", "lse", and of a backward pass "do", "dq", "dk", "dv"}
///   {"kind": "gqa", "paged", "page_size", "places", "queries", "heads", "kv_heads", "depth", "causal", "scale",
///   "dtype",
///    "q", "k", "v", "o", "lse", "kv_offsets_at", and where the problem has them "kv_indices_at", "q_offsets_at" (not
///    of decode) and "last_pages_at"; "kv_offsets", "q_offsets" and "last_pages" are what lies in those inputs in every
///    call, for planning; "places": pages of the cache, or keys; "tensor_cores": decode with the kernels that use them}
/// An error names the library that is missing: the baseline is unknown then, not absent.
Result<std::unique_ptr<Baseline>> make_baseline(const Device& device, const base::Json& description);
/// cudnn_attention.cpp, if this build has it (PTXBENCH_HAS_CUDNN).
Result<std::unique_ptr<Baseline>> make_attention_baseline(const Device& device, const base::Json& description);
/// cublaslt.cpp
Result<std::unique_ptr<Baseline>> make_gemm_baseline(const Device& device, const base::Json& description);

/// flashinfer.cpp
Result<std::unique_ptr<Baseline>> make_gqa_baseline(const Device& device, const base::Json& description);

}  // namespace ptxbench::gpu
