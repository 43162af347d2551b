#pragma once

#include <cstdint>
#include <string_view>

namespace ptxbench::ptx {

/// Fundamental and packed instruction types (PTX ISA "State Spaces, Types, and Variables").
// clang-format off
#define PTXBENCH_PTX_TYPES(X)                                                                                      \
  X(b1, 1)                                                                                                         \
  X(b4x16, 64) X(b8, 8) X(b16, 16) X(b32, 32) X(b64, 64) X(b128, 128) X(u8, 8) X(u16, 16) X(u32, 32) X(u64, 64)    \
      X(s8, 8) X(s16, 16) X(s32, 32) X(s64, 64) X(f16, 16) X(f16x2, 32) X(bf16, 16) X(bf16x2, 32) X(tf32, 32)      \
          X(f32, 32) X(f32x2, 64) X(f64, 64) X(pred, 1) X(u16x2, 32) X(s16x2, 32) X(u8x4, 32) X(s8x4, 32) X(u4, 4) \
              X(s4, 4) X(e4m3, 8) X(e5m2, 8) X(e4m3x2, 16) X(e5m2x2, 16) X(e4m3x4, 32) X(e5m2x4, 32) X(e2m1x2, 8)  \
                  X(e2m3x2, 16) X(e3m2x2, 16) X(ue8m0x2, 16)
// clang-format on

enum class Type : uint8_t {
  none,
#define X(name, bits) name,
  PTXBENCH_PTX_TYPES(X)
#undef X
};

/// Width in bits of one value of the type; 0 for `none`.
constexpr unsigned type_bits(Type type) {
  switch (type) {
    case Type::none:
      return 0;
#define X(name, bits) \
  case Type::name:    \
    return bits;
      PTXBENCH_PTX_TYPES(X)
#undef X
  }
  return 0;
}

std::string_view type_name(Type type);  ///< "f32", without the dot

enum class StateSpace : uint8_t {
  generic,  ///< no state space written
  reg,
  sreg,
  const_,
  global,
  local,
  param,
  param_entry,
  param_func,
  shared,
  shared_cta,
  shared_cluster,
};

/// Driver-defined registers; cooperative grid synchronisation finds its workspace through %envreg1 and %envreg2.
// clang-format off
#define PTXBENCH_PTX_ENVIRONMENT_REGISTERS(X)                                                                         \
  X(envreg0, "%envreg0")                                                                                              \
  X(envreg1, "%envreg1") X(envreg2, "%envreg2") X(envreg3, "%envreg3") X(envreg4, "%envreg4") X(envreg5, "%envreg5")  \
      X(envreg6, "%envreg6") X(envreg7, "%envreg7") X(envreg8, "%envreg8") X(envreg9, "%envreg9")                     \
          X(envreg10, "%envreg10") X(envreg11, "%envreg11") X(envreg12, "%envreg12") X(envreg13, "%envreg13")         \
              X(envreg14, "%envreg14") X(envreg15, "%envreg15") X(envreg16, "%envreg16") X(envreg17, "%envreg17")     \
                  X(envreg18, "%envreg18") X(envreg19, "%envreg19") X(envreg20, "%envreg20") X(envreg21, "%envreg21") \
                      X(envreg22, "%envreg22") X(envreg23, "%envreg23") X(envreg24, "%envreg24")                      \
                          X(envreg25, "%envreg25") X(envreg26, "%envreg26") X(envreg27, "%envreg27")                  \
                              X(envreg28, "%envreg28") X(envreg29, "%envreg29") X(envreg30, "%envreg30")              \
                                  X(envreg31, "%envreg31")
// clang-format on

// clang-format off
#define PTXBENCH_PTX_SPECIAL_REGISTERS(X)                                                                              \
  X(tid_x, "%tid.x")                                                                                                   \
  X(tid_y, "%tid.y") X(tid_z, "%tid.z") X(ntid_x, "%ntid.x") X(ntid_y, "%ntid.y") X(ntid_z, "%ntid.z") X(              \
      ctaid_x, "%ctaid.x") X(ctaid_y, "%ctaid.y") X(ctaid_z, "%ctaid.z") X(nctaid_x, "%nctaid.x")                      \
      X(nctaid_y, "%nctaid.y") X(nctaid_z, "%nctaid.z") X(laneid, "%laneid") X(warpid, "%warpid") X(                   \
          nwarpid, "%nwarpid") X(smid, "%smid") X(nsmid, "%nsmid") X(gridid, "%gridid")                                \
          X(is_explicit_cluster, "%is_explicit_cluster") X(clusterid_x, "%clusterid.x") X(clusterid_y, "%clusterid.y") \
              X(clusterid_z, "%clusterid.z") X(nclusterid_x, "%nclusterid.x") X(nclusterid_y, "%nclusterid.y")         \
                  X(nclusterid_z, "%nclusterid.z") X(cluster_ctaid_x, "%cluster_ctaid.x")                              \
                      X(cluster_ctaid_y, "%cluster_ctaid.y") X(cluster_ctaid_z, "%cluster_ctaid.z")                    \
                          X(cluster_nctaid_x, "%cluster_nctaid.x") X(cluster_nctaid_y, "%cluster_nctaid.y") X(         \
                              cluster_nctaid_z, "%cluster_nctaid.z") X(cluster_ctarank, "%cluster_ctarank")            \
                              X(cluster_nctarank, "%cluster_nctarank") X(lanemask_eq, "%lanemask_eq") X(               \
                                  lanemask_le, "%lanemask_le") X(lanemask_lt, "%lanemask_lt")                          \
                                  X(lanemask_ge, "%lanemask_ge") X(lanemask_gt, "%lanemask_gt") X(clock, "%clock") X(  \
                                      clock_hi, "%clock_hi") X(clock64, "%clock64") X(globaltimer, "%globaltimer")     \
                                      X(globaltimer_lo, "%globaltimer_lo") X(globaltimer_hi, "%globaltimer_hi")        \
                                          X(total_smem_size, "%total_smem_size") X(aggr_smem_size, "%aggr_smem_size")  \
                                              X(dynamic_smem_size, "%dynamic_smem_size")                               \
                                                  X(reserved_smem_offset_begin, "%reserved_smem_offset_begin")         \
                                                      X(reserved_smem_offset_end, "%reserved_smem_offset_end")         \
                                                          X(reserved_smem_offset_cap, "%reserved_smem_offset_cap")     \
                                                              X(current_graph_exec, "%current_graph_exec")             \
                                                                  PTXBENCH_PTX_ENVIRONMENT_REGISTERS(X)
// clang-format on

enum class SpecialRegister : uint8_t {
#define X(name, text) name,
  PTXBENCH_PTX_SPECIAL_REGISTERS(X)
#undef X
};

}  // namespace ptxbench::ptx
