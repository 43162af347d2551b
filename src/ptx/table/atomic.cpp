#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kAtomic = "Parallel Synchronization and Communication Instructions: atom, red";

#define SEM "{.relaxed|.acquire|.release|.acq_rel}"
#define RED_SEM "{.relaxed|.release}"
#define SPACE "{.global|.shared|.shared::cta|.shared::cluster}"
#define ATOM_HEAD SEM PTX_OPT_SCOPE SPACE
#define RED_HEAD RED_SEM PTX_OPT_SCOPE SPACE

#define ATOM(rest, isa, target) \
  { Op::atom, ATOM_HEAD rest, "D:0, a, s:0" PTX_POLICY, isa, target, kAtomic }
#define ATOM_REG(rest, isa, target) \
  { Op::atom, ATOM_HEAD rest, "D:0, a, r:0" PTX_POLICY, isa, target, kAtomic }
#define ATOM_VECTOR(rest) \
  { Op::atom, SEM PTX_OPT_SCOPE "{.global}" rest, "D:0*v, a, r:0*v" PTX_POLICY, 81, "sm_90", kAtomic }
#define RED(rest, isa, target) \
  { Op::red, RED_HEAD rest, "a, s:0" PTX_POLICY, isa, target, kAtomic }
#define RED_REG(rest, isa, target) \
  { Op::red, RED_HEAD rest, "a, r:0" PTX_POLICY, isa, target, kAtomic }
#define RED_VECTOR(rest) \
  { Op::red, RED_SEM PTX_OPT_SCOPE "{.global}" rest, "a, r:0*v" PTX_POLICY, 81, "sm_90", kAtomic }

#define ARITHMETIC(ROW, ROW_REG)                                                                                       \
  ROW("(.and|.or|.xor)" PTX_HINT "(.b32|.b64)", 11, "sm_50"),                                                          \
      ROW(".add" PTX_HINT "(.u32|.s32|.u64|.f32|.f64)", 11, "sm_60"), ROW("(.inc|.dec)" PTX_HINT ".u32", 11, "sm_50"), \
      ROW("(.min|.max)" PTX_HINT "(.u32|.s32|.u64|.s64)", 11, "sm_50"),                                                \
      ROW_REG(".add.noftz" PTX_HINT "(.f16|.f16x2)", 62, "sm_70"),                                                     \
      ROW_REG(".add.noftz" PTX_HINT "(.bf16|.bf16x2)", 78, "sm_90")
#define VECTORS(ROW)                                                                                        \
  ROW(".add" PTX_HINT "(.v2|.v4).f32"), ROW("(.add|.min|.max).noftz" PTX_HINT "(.v2|.v4|.v8)(.f16|.bf16)"), \
      ROW("(.add|.min|.max).noftz" PTX_HINT "(.v2|.v4)(.f16x2|.bf16x2)")

constexpr InstructionForm kRows[] = {
    ARITHMETIC(ATOM, ATOM_REG),
    VECTORS(ATOM_VECTOR),
    ATOM(".exch" PTX_HINT "(.b32|.b64)", 11, "sm_50"),
    ATOM_REG(".exch" PTX_HINT ".b128", 83, "sm_90"),
    {Op::atom, ATOM_HEAD ".cas(.b32|.b64)", "D:0, a, s:0, s:0", 11, "sm_50", kAtomic},
    {Op::atom, ATOM_HEAD ".cas.b16", "D:0, a, s:0, s:0", 63, "sm_70", kAtomic},
    {Op::atom, ATOM_HEAD ".cas.b128", "D:0, a, r:0, r:0", 83, "sm_90", kAtomic},
    ARITHMETIC(RED, RED_REG),
    VECTORS(RED_VECTOR),
    {Op::red_async, ".relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes(.inc|.dec).u32", "a, s:0, a", 81,
     "sm_90", kAtomic},
    {Op::red_async, ".relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes(.min|.max)(.u32|.s32)",
     "a, s:0, a", 81, "sm_90", kAtomic},
    {Op::red_async, ".relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.add(.u32|.s32|.u64)", "a, s:0, a",
     81, "sm_90", kAtomic},
    {Op::red_async, ".relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes(.and|.or|.xor).b32", "a, s:0, a",
     81, "sm_90", kAtomic},
};

}  // namespace

std::span<const InstructionForm> atomic_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
