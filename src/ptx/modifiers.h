#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/types.h"

namespace ptxbench::ptx {

/// wgmma shapes: `m64n<N>k<K>`, N = 8..256 in steps of 8. The enumerator of `.m64n256k16` is Mod::m64n256k16.
// clang-format off
#define PTXBENCH_PTX_WGMMA_N(X, K)                                                                                    \
  X(m64n8##K, "m64n8" #K)                                                                                             \
  X(m64n16##K, "m64n16" #K) X(m64n24##K, "m64n24" #K) X(m64n32##K, "m64n32" #K) X(m64n40##K, "m64n40" #K)             \
      X(m64n48##K, "m64n48" #K) X(m64n56##K, "m64n56" #K) X(m64n64##K, "m64n64" #K) X(m64n72##K, "m64n72" #K)         \
          X(m64n80##K, "m64n80" #K) X(m64n88##K, "m64n88" #K) X(m64n96##K, "m64n96" #K) X(m64n104##K, "m64n104" #K)   \
              X(m64n112##K, "m64n112" #K) X(m64n120##K, "m64n120" #K) X(m64n128##K, "m64n128" #K)                     \
                  X(m64n136##K, "m64n136" #K) X(m64n144##K, "m64n144" #K) X(m64n152##K, "m64n152" #K)                 \
                      X(m64n160##K, "m64n160" #K) X(m64n168##K, "m64n168" #K) X(m64n176##K, "m64n176" #K)             \
                          X(m64n184##K, "m64n184" #K) X(m64n192##K, "m64n192" #K) X(m64n200##K, "m64n200" #K)         \
                              X(m64n208##K, "m64n208" #K) X(m64n216##K, "m64n216" #K) X(m64n224##K, "m64n224" #K)     \
                                  X(m64n232##K, "m64n232" #K) X(m64n240##K, "m64n240" #K) X(m64n248##K, "m64n248" #K) \
                                      X(m64n256##K, "m64n256" #K)
// clang-format on
// clang-format off
#define PTXBENCH_PTX_WGMMA_SHAPES(X) \
  PTXBENCH_PTX_WGMMA_N(X, k8)        \
  PTXBENCH_PTX_WGMMA_N(X, k16) PTXBENCH_PTX_WGMMA_N(X, k32) PTXBENCH_PTX_WGMMA_N(X, k64) PTXBENCH_PTX_WGMMA_N(X, k256)
// clang-format on

/// Shapes of mma.sync, mma.sp.sync, wmma, ldmatrix, stmatrix and movmatrix.
// clang-format off
#define PTXBENCH_PTX_MATRIX_SHAPES(X)                                                                             \
  X(m8n8, "m8n8")                                                                                                 \
  X(m8n16, "m8n16") X(m16n8, "m16n8") X(m16n16, "m16n16") X(m8n8k4, "m8n8k4") X(m8n8k16, "m8n8k16")               \
      X(m8n8k32, "m8n8k32") X(m8n8k128, "m8n8k128") X(m16n8k4, "m16n8k4") X(m16n8k8, "m16n8k8")                   \
          X(m16n8k16, "m16n8k16") X(m16n8k32, "m16n8k32") X(m16n8k64, "m16n8k64") X(m16n8k128, "m16n8k128")       \
              X(m16n8k256, "m16n8k256") X(m16n16k16, "m16n16k16") X(m8n32k16, "m8n32k16") X(m32n8k16, "m32n8k16") \
                  X(m16n16k8, "m16n16k8")
// clang-format on

/// Every modifier except types. Spelling rule for the enumerator: `::` and `.` become `_`, keywords and names that
/// start with a digit get a trailing or leading underscore (`const_`, `_1d`).
// clang-format off
#define PTXBENCH_PTX_MODIFIERS(X)                                                                                      \
  /* rounding and arithmetic */                                                                                        \
  X(rn, "rn")                                                                                                          \
  X(rz, "rz") X(rm, "rm") X(rp, "rp") X(rna, "rna") X(rs, "rs") X(rni, "rni") X(rzi, "rzi") X(rmi, "rmi")              \
      X(rpi, "rpi") X(ftz, "ftz") X(noftz, "noftz") X(sat, "sat") X(satfinite, "satfinite") X(relu, "relu")            \
          X(approx, "approx") X(full, "full") X(lo, "lo") X(hi, "hi") X(wide, "wide") X(cc, "cc") X(oob, "oob")        \
              X(cvt, "cvt") X(NaN, "NaN") X(xorsign, "xorsign") X(abs, "abs") X(pack, "pack")                          \
                  X(to, "to") /* comparison and boolean */                                                             \
      X(eq, "eq") X(ne, "ne") X(lt, "lt") X(le, "le") X(gt, "gt") X(ge, "ge") X(ls, "ls") X(hs, "hs") X(equ, "equ")    \
          X(neu, "neu") X(ltu, "ltu") X(leu, "leu") X(gtu, "gtu") X(geu, "geu") X(num, "num") X(nan, "nan")            \
              X(and_, "and") X(or_, "or") X(xor_, "xor") X(finite, "finite") X(infinite, "infinite")                   \
                  X(number, "number") X(notanumber, "notanumber") X(normal, "normal")                                  \
                      X(subnormal, "subnormal") /* shifts, permutes, bit fields, video */                              \
      X(l, "l") X(r, "r") X(wrap, "wrap") X(clamp, "clamp") X(shiftamt, "shiftamt") X(f4e, "f4e") X(b4e, "b4e")        \
          X(rc8, "rc8") X(ecl, "ecl") X(ecr, "ecr") X(rc16, "rc16") X(po, "po") X(shr7, "shr7") X(shr15, "shr15")      \
              X(b0, "b0") X(b1, "b1") X(b2, "b2") X(b3, "b3") X(h0, "h0") X(h1, "h1") X(h10, "h10")                    \
                  X(b3210, "b3210") /* state spaces */                                                                 \
      X(const_, "const") X(global, "global") X(local, "local") X(param, "param") X(param_entry, "param::entry")        \
          X(param_func, "param::func") X(shared, "shared") X(shared_cta, "shared::cta")                                \
              X(shared_cluster, "shared::cluster") /* memory order, scope, vectors, caches */                          \
      X(weak, "weak") X(relaxed, "relaxed") X(acquire, "acquire") X(release, "release") X(acq_rel, "acq_rel")          \
          X(sc, "sc") X(volatile_, "volatile") X(mmio, "mmio") X(cta, "cta") X(cluster, "cluster") X(gpu, "gpu")       \
              X(sys, "sys") X(gl, "gl") X(v2, "v2") X(v4, "v4") X(v8, "v8") X(ca, "ca") X(cg, "cg") X(cs, "cs")        \
                  X(lu, "lu") X(cv, "cv") X(wb, "wb") X(wt, "wt") X(nc, "nc") X(unified, "unified") X(L1, "L1")        \
                      X(L2, "L2") X(L1_evict_normal, "L1::evict_normal") X(L1_evict_unchanged, "L1::evict_unchanged")  \
                          X(L1_evict_first, "L1::evict_first") X(L1_evict_last, "L1::evict_last")                      \
                              X(L1_no_allocate, "L1::no_allocate") X(L2_evict_normal, "L2::evict_normal")              \
                                  X(L2_evict_unchanged, "L2::evict_unchanged") X(L2_evict_first, "L2::evict_first")    \
                                      X(L2_evict_last, "L2::evict_last") X(L2_cache_hint, "L2::cache_hint")            \
                                          X(L2_64B, "L2::64B") X(L2_128B, "L2::128B") X(L2_256B, "L2::256B")           \
                                              X(fractional, "fractional") X(range, "range")                            \
                                                  X(tensormap, "tensormap") /* atomics and reductions */               \
      X(exch, "exch") X(cas, "cas") X(inc, "inc") X(dec, "dec") X(add, "add") X(min, "min") X(max, "max")              \
          X(popc, "popc") X(ld_reduce, "ld_reduce") X(st, "st") X(red, "red") X(acc_f32, "acc::f32")                   \
              X(acc_f16, "acc::f16") /* synchronisation */                                                             \
      X(sync, "sync") X(aligned, "aligned") X(arrive, "arrive") X(wait, "wait") X(uni, "uni") X(all, "all")            \
          X(any, "any") X(ballot, "ballot") X(up, "up") X(down, "down") X(bfly, "bfly") X(idx, "idx")                  \
              X(proxy, "proxy") X(alias, "alias") X(async, "async") X(async_generic, "async::generic")                 \
                  X(tensormap_generic, "tensormap::generic") X(sync_restrict_shared_cta, "sync_restrict::shared::cta") \
                      X(sync_restrict_shared_cluster, "sync_restrict::shared::cluster") X(expect_tx, "expect_tx")      \
                          X(noComplete, "noComplete") X(parity, "parity") X(noinc, "noinc") X(read, "read")            \
                              X(launch_dependents, "launch_dependents") X(mask, "mask")                                \
                                  X(phase, "phase") /* bulk copies */                                                  \
      X(mbarrier_complete_tx_bytes, "mbarrier::complete_tx::bytes") X(multicast_cluster, "multicast::cluster")         \
          X(bulk_group, "bulk_group") X(cp_mask, "cp_mask") X(ignore_oob, "ignore_oob") X(cta_group_1, "cta_group::1") \
              X(cta_group_2, "cta_group::2") X(_1d, "1d") X(_2d, "2d") X(_3d, "3d") X(_4d, "4d") X(_5d, "5d")          \
                  X(tile, "tile") X(tile_gather4, "tile::gather4") X(tile_scatter4, "tile::scatter4")                  \
                      X(im2col, "im2col") X(im2col_w, "im2col::w") X(im2col_w_128, "im2col::w::128")                   \
                          X(im2col_no_offs, "im2col_no_offs") X(global_address, "global_address") X(rank, "rank")      \
                              X(box_dim, "box_dim") X(global_dim, "global_dim") X(global_stride, "global_stride")      \
                                  X(element_stride, "element_stride") X(elemtype, "elemtype")                          \
                                      X(interleave_layout, "interleave_layout") X(swizzle_mode, "swizzle_mode")        \
                                          X(fill_mode, "fill_mode") X(swizzle_atomicity, "swizzle_atomicity")          \
                                              X(b1024, "b1024") /* matrices */                                         \
      X(row, "row") X(col, "col") X(trans, "trans") X(x1, "x1") X(x2, "x2") X(x4, "x4") X(b8x16, "b8x16")              \
          X(b6x16_p32, "b6x16_p32") X(b4x16_p64, "b4x16_p64") X(kind_f8f6f4, "kind::f8f6f4") X(a, "a") X(b, "b")       \
              X(c, "c") X(d, "d") PTXBENCH_PTX_MATRIX_SHAPES(X)                                                        \
                  PTXBENCH_PTX_WGMMA_SHAPES(X) /* textures and surfaces */                                             \
      X(texref, "texref") X(samplerref, "samplerref") X(surfref, "surfref") X(a1d, "a1d") X(a2d, "a2d")                \
          X(cube, "cube") X(acube, "acube") X(_2dms, "2dms") X(a2dms, "a2dms") X(level, "level") X(grad, "grad")       \
              X(base, "base") X(g, "g") X(p, "p") X(trap, "trap") X(zero, "zero") X(width, "width")                    \
                  X(height, "height") X(depth, "depth") X(channel_data_type, "channel_data_type")                      \
                      X(channel_order, "channel_order") X(normalized_coords, "normalized_coords")                      \
                          X(array_size, "array_size") X(num_mipmap_levels, "num_mipmap_levels")                        \
                              X(num_samples, "num_samples") X(memory_layout, "memory_layout")                          \
                                  X(filter_mode, "filter_mode") X(addr_mode_0, "addr_mode_0")                          \
                                      X(addr_mode_1, "addr_mode_1") X(addr_mode_2, "addr_mode_2")                      \
                                          X(force_unnormalized_coords, "force_unnormalized_coords")
// clang-format on

enum class Mod : uint16_t {
  none,
#define X(name, bits) type_##name,
  PTXBENCH_PTX_TYPES(X)
#undef X
#define X(name, text) name,
      PTXBENCH_PTX_MODIFIERS(X)
#undef X
          count_,
};

/// Spelling without the leading dot ("shared::cluster", "f32"); "" for Mod::none.
std::string_view modifier_text(Mod mod);
/// The modifier or type spelled `text` (no leading dot); Mod::none if there is none.
Mod find_modifier(std::string_view text);

/// The type a modifier names, Type::none if it is not a type.
constexpr Type mod_type(Mod mod) {
  const auto value = static_cast<uint16_t>(mod);
  return value >= static_cast<uint16_t>(Mod::type_b1) && value <= static_cast<uint16_t>(Mod::type_ue8m0x2)
             ? static_cast<Type>(value)
             : Type::none;
}
constexpr Mod type_mod(Type type) { return static_cast<Mod>(static_cast<uint16_t>(type)); }

/// The state space a modifier names, StateSpace::generic if it is not a state space.
constexpr StateSpace mod_space(Mod mod) {
  switch (mod) {
    case Mod::const_:
      return StateSpace::const_;
    case Mod::global:
      return StateSpace::global;
    case Mod::local:
      return StateSpace::local;
    case Mod::param:
      return StateSpace::param;
    case Mod::param_entry:
      return StateSpace::param_entry;
    case Mod::param_func:
      return StateSpace::param_func;
    case Mod::shared:
      return StateSpace::shared;
    case Mod::shared_cta:
      return StateSpace::shared_cta;
    case Mod::shared_cluster:
      return StateSpace::shared_cluster;
    default:
      return StateSpace::generic;
  }
}

/// Matrix sizes of a shape modifier (`.m64n256k16`, `.m16n8k16`, `.m8n8`): k is 0 where the shape names none.
struct MatrixShape {
  uint32_t m = 0, n = 0, k = 0;
};
/// All zero if `mod` is not a matrix shape.
MatrixShape mod_shape(Mod mod);

}  // namespace ptxbench::ptx
