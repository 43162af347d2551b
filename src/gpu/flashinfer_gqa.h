#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "gpu/flashinfer_module.h"

namespace ptxbench::gpu {

/// Grouped-query attention as calls of FlashInfer's modules, with the arguments that its own Python wrappers pass:
/// BatchDecodeWithPagedKVCacheWrapper, with or without tensor cores, and BatchPrefillWithPagedKVCacheWrapper and
/// BatchPrefillWithRaggedKVCacheWrapper, whose choice on Hopper are the kernels made for it ("FA3"). No CUDA in here.
class FlashInferGqa {
 public:
  using Numbers = std::vector<std::int32_t>;
  enum class Method { decode, decode_tensor_cores, paged_prefill, ragged_prefill };

  // What the wrappers take for plans, and recommend for partial results.
  static constexpr std::int64_t kIntWorkspaceBytes = std::int64_t{8} << 20;
  static constexpr std::int64_t kFloatWorkspaceBytes = std::int64_t{128} << 20;

  /// Device memory that is ours and outlives all calls.
  struct Memory {
    FfiArguments::Device device;
    void *floats = nullptr, *integers = nullptr;  ///< kFloatWorkspaceBytes, zeroed before the first call, and the other
    void *q_offsets = nullptr, *last_pages = nullptr;  ///< own_q_offsets() and own_last_pages()
  };

  /// From a baseline's description (baseline.h). The error says what the modules are not built for.
  static Result<FlashInferGqa> read(const base::Json& description);

  Method method() const { return method_; }
  /// The module with its functions to plan and to run, in this order.
  Result<FlashInferModule> load(const FlashInferFolder& folder) const;

  // What the wrappers make for themselves where the problem has no such input.
  Numbers own_q_offsets() const;   ///< one query each
  Numbers own_last_pages() const;  ///< one token each

  /// `staging`: kIntWorkspaceBytes of host memory, in use until the stream has come so far. Refers to this object.
  FfiArguments plan_arguments(const Memory& memory, void* staging);
  /// `planned`: what planning returned. Addresses in the order of the definition's inputs and outputs.
  FfiArguments run_arguments(const Memory& memory, const candidate::abi::Any& planned,
                             const std::vector<std::uint64_t>& inputs, const std::vector<std::uint64_t>& outputs) const;

 private:
  std::int64_t requests() const { return static_cast<std::int64_t>(kv_offsets_.size()) - 1; }
  bool decodes() const { return method_ == Method::decode || method_ == Method::decode_tensor_cores; }
  Result<void> check(const std::string& dtype, std::int64_t depth, bool causal, bool decode) const;
  Numbers key_counts() const;  ///< of each request
  void add_variant(FfiArguments& call) const;

  Method method_ = Method::decode;
  bool paged_ = false;
  std::int64_t page_size_ = 1, places_ = 0, queries_ = 0, heads_ = 0, kv_heads_ = 0;
  double scale_ = 1;
  Numbers kv_offsets_, q_offsets_, last_pages_, key_counts_;
  std::size_t q_ = 0, k_ = 0, v_ = 0, o_ = 0, lse_ = 0, kv_offsets_at_ = 0, kv_indices_at_ = 0;
  std::optional<std::size_t> q_offsets_at_, last_pages_at_;
};

}  // namespace ptxbench::gpu
