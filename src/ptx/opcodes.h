#pragma once

#include <cstdint>
#include <string_view>

namespace ptxbench::ptx {

/// Opcodes: the part of an instruction's name that says what it does; everything after it is a modifier. The longest
/// opcode that matches wins ("cp.async.bulk.tensor" before "cp.async.bulk" before "cp.async").
#define PTXBENCH_PTX_OPCODES(X)                                                                                    \
  X(abs, "abs") X(activemask, "activemask") X(add, "add") X(addc, "addc") X(alloca_, "alloca") X(and_, "and")       \
  X(applypriority, "applypriority") X(atom, "atom") X(bar, "bar") X(bar_warp_sync, "bar.warp.sync")                 \
  X(barrier, "barrier") X(barrier_cluster_arrive, "barrier.cluster.arrive")                                        \
  X(barrier_cluster_wait, "barrier.cluster.wait") X(bfe, "bfe") X(bfi, "bfi") X(bfind, "bfind") X(bmsk, "bmsk")      \
  X(bra, "bra") X(brev, "brev") X(brkpt, "brkpt") X(brx_idx, "brx.idx") X(call, "call") X(clz, "clz")               \
  X(cnot, "cnot") X(copysign, "copysign") X(cos, "cos") X(cp_async, "cp.async")                                    \
  X(cp_async_commit_group, "cp.async.commit_group") X(cp_async_wait_group, "cp.async.wait_group")                   \
  X(cp_async_wait_all, "cp.async.wait_all") X(cp_async_mbarrier_arrive, "cp.async.mbarrier.arrive")                 \
  X(cp_async_bulk, "cp.async.bulk") X(cp_async_bulk_commit_group, "cp.async.bulk.commit_group")                     \
  X(cp_async_bulk_wait_group, "cp.async.bulk.wait_group") X(cp_async_bulk_prefetch, "cp.async.bulk.prefetch")       \
  X(cp_async_bulk_prefetch_tensor, "cp.async.bulk.prefetch.tensor") X(cp_async_bulk_tensor, "cp.async.bulk.tensor")  \
  X(cp_reduce_async_bulk, "cp.reduce.async.bulk") X(cp_reduce_async_bulk_tensor, "cp.reduce.async.bulk.tensor")     \
  X(createpolicy, "createpolicy") X(cvt, "cvt") X(cvt_pack, "cvt.pack") X(cvta, "cvta") X(discard, "discard")       \
  X(div, "div") X(dp2a, "dp2a") X(dp4a, "dp4a") X(elect_sync, "elect.sync") X(ex2, "ex2") X(exit, "exit")           \
  X(fence, "fence") X(fence_mbarrier_init, "fence.mbarrier_init") X(fence_proxy, "fence.proxy") X(fma, "fma")       \
  X(fns, "fns") X(getctarank, "getctarank") X(griddepcontrol, "griddepcontrol") X(isspacep, "isspacep")             \
  X(istypep, "istypep") X(ld, "ld") X(ldmatrix, "ldmatrix") X(ldu, "ldu") X(lg2, "lg2") X(lop3, "lop3")             \
  X(mad, "mad") X(mad24, "mad24") X(madc, "madc") X(mapa, "mapa") X(match_sync, "match") X(max, "max")              \
  X(mbarrier_arrive, "mbarrier.arrive") X(mbarrier_arrive_drop, "mbarrier.arrive_drop")                            \
  X(mbarrier_complete_tx, "mbarrier.complete_tx") X(mbarrier_expect_tx, "mbarrier.expect_tx")                      \
  X(mbarrier_init, "mbarrier.init") X(mbarrier_inval, "mbarrier.inval")                                            \
  X(mbarrier_pending_count, "mbarrier.pending_count") X(mbarrier_test_wait, "mbarrier.test_wait")                   \
  X(mbarrier_try_wait, "mbarrier.try_wait") X(membar, "membar") X(min, "min") X(mma, "mma.sync") X(mma_sp, "mma.sp.sync")    \
  X(mov, "mov") X(movmatrix, "movmatrix") X(mul, "mul") X(mul24, "mul24") X(multimem, "multimem")                   \
  X(nanosleep, "nanosleep") X(neg, "neg") X(not_, "not") X(or_, "or") X(pmevent, "pmevent") X(popc, "popc")         \
  X(prefetch, "prefetch") X(prefetchu, "prefetchu") X(prmt, "prmt") X(rcp, "rcp") X(red, "red")                     \
  X(red_async, "red.async") X(redux_sync, "redux.sync") X(rem, "rem") X(ret, "ret") X(rsqrt, "rsqrt") X(sad, "sad") \
  X(selp, "selp") X(set, "set") X(setmaxnreg, "setmaxnreg") X(setp, "setp") X(shf, "shf") X(shfl_sync, "shfl.sync") \
  X(shl, "shl") X(shr, "shr") X(sin, "sin") X(slct, "slct") X(sqrt, "sqrt") X(st, "st") X(st_async, "st.async")     \
  X(st_bulk, "st.bulk") X(stackrestore, "stackrestore") X(stacksave, "stacksave") X(stmatrix, "stmatrix")          \
  X(sub, "sub") X(subc, "subc") X(szext, "szext") X(tanh, "tanh")                                                  \
  X(tensormap_cp_fenceproxy, "tensormap.cp_fenceproxy") X(tensormap_replace, "tensormap.replace")                   \
  X(testp, "testp") X(trap, "trap") X(vabsdiff, "vabsdiff") X(vabsdiff4, "vabsdiff4") X(vadd, "vadd")               \
  X(vadd4, "vadd4") X(vmad, "vmad") X(vmax, "vmax") X(vmin, "vmin") X(vote_sync, "vote.sync") X(vset, "vset")       \
  X(vshl, "vshl") X(vshr, "vshr") X(vsub, "vsub") X(wgmma_commit_group, "wgmma.commit_group.sync.aligned")         \
  X(wgmma_fence, "wgmma.fence.sync.aligned") X(wgmma_mma_async, "wgmma.mma_async.sync.aligned")                    \
  X(wgmma_mma_async_sp, "wgmma.mma_async.sp.sync.aligned")                                                        \
  X(wgmma_wait_group, "wgmma.wait_group.sync.aligned") X(xor_, "xor")                                             \
  X(mma_sp_ordered, "mma.sp::ordered_metadata.sync") X(wmma_load_a, "wmma.load.a.sync")                            \
  X(wmma_load_b, "wmma.load.b.sync") X(wmma_load_c, "wmma.load.c.sync") X(wmma_store_d, "wmma.store.d.sync")        \
  X(wmma_mma, "wmma.mma.sync") X(vadd2, "vadd2") X(vsub2, "vsub2") X(vavrg2, "vavrg2") X(vabsdiff2, "vabsdiff2")    \
  X(vmin2, "vmin2") X(vmax2, "vmax2") X(vset2, "vset2") X(vsub4, "vsub4") X(vavrg4, "vavrg4") X(vmin4, "vmin4")     \
  X(vmax4, "vmax4") X(vset4, "vset4") X(tex, "tex") X(tld4, "tld4") X(txq, "txq") X(suld, "suld") X(sust, "sust")   \
  X(sured, "sured") X(suq, "suq")

enum class Op : uint16_t {
  invalid,
#define X(name, text) name,
  PTXBENCH_PTX_OPCODES(X)
#undef X
};

std::string_view opcode_text(Op op);  ///< "cp.async.bulk.tensor"

}  // namespace ptxbench::ptx
