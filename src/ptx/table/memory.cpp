#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kMove = "Data Movement and Conversion Instructions";
constexpr const char* kMultimem = "Data Movement and Conversion Instructions: multimem";
constexpr const char* kStack = "Stack Manipulation Instructions";

#define SCALARS "(.b8|.b16|.b32|.b64|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f32|.f64)"
#define LOAD_SPACE "{.const|.global|.local|.param|.param::entry|.param::func|.shared|.shared::cta|.shared::cluster}"
#define STORE_SPACE "{.global|.local|.param|.param::func|.shared|.shared::cta|.shared::cluster}"
#define STRONG_SPACE "{.global|.shared|.shared::cta|.shared::cluster}"
#define L1_PRIORITY "{.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate}"
#define PREFETCH "{.L2::64B|.L2::128B|.L2::256B}"
#define VEC "{.v2|.v4}"
#define CACHING L1_PRIORITY PTX_HINT PREFETCH
#define LOAD_OPERANDS "D:0~*v, a" PTX_POLICY
#define STORE_OPERANDS "a, s:0~*v" PTX_POLICY

#define MULTIMEM_RED(rest, operands)                                                                     \
  {Op::multimem, ".red{.global}" rest, operands, 81, "sm_90", kMultimem}, {                              \
    Op::multimem, ".red(.relaxed|.release)" PTX_SCOPE "{.global}" rest, operands, 81, "sm_90", kMultimem \
  }
#define MULTIMEM(op, orders, rest, operands)                                             \
  {Op::multimem, op "{.weak}{.global}" rest, operands, 81, "sm_90", kMultimem}, {        \
    Op::multimem, op orders PTX_SCOPE "{.global}" rest, operands, 81, "sm_90", kMultimem \
  }

constexpr InstructionForm kRows[] = {
    {Op::ld, "{.weak}" LOAD_SPACE "{.ca|.cg|.cs|.lu|.cv}" PTX_HINT PREFETCH VEC SCALARS, LOAD_OPERANDS, 10, "sm_50",
     kMove},
    {Op::ld, "{.weak}" LOAD_SPACE CACHING VEC SCALARS, LOAD_OPERANDS, 74, "sm_70", kMove},
    {Op::ld, "{.weak}" LOAD_SPACE CACHING ".b128", LOAD_OPERANDS, 83, "sm_70", kMove},
    {Op::ld, ".volatile" STRONG_SPACE PREFETCH VEC SCALARS, LOAD_OPERANDS, 10, "sm_50", kMove},
    {Op::ld, ".volatile" STRONG_SPACE PREFETCH ".b128", LOAD_OPERANDS, 83, "sm_70", kMove},
    {Op::ld, "(.relaxed|.acquire)" PTX_SCOPE STRONG_SPACE CACHING VEC SCALARS, LOAD_OPERANDS, 60, "sm_70", kMove},
    {Op::ld, "(.relaxed|.acquire)" PTX_SCOPE STRONG_SPACE CACHING ".b128", LOAD_OPERANDS, 83, "sm_70", kMove},
    {Op::ld, ".mmio.relaxed.sys{.global}" SCALARS, LOAD_OPERANDS, 82, "sm_70", kMove},
    {Op::ld, ".global{.ca|.cg|.cs}.nc" PTX_HINT PREFETCH VEC SCALARS, LOAD_OPERANDS, 31, "sm_50", kMove},
    {Op::ld, ".global.nc" CACHING VEC SCALARS, LOAD_OPERANDS, 74, "sm_70", kMove},
    {Op::ld, ".global.nc" CACHING ".b128", LOAD_OPERANDS, 83, "sm_70", kMove},
    {Op::ld,
     "{.weak}{.global}" L1_PRIORITY "(.L2::evict_normal|.L2::evict_first|.L2::evict_last)" PTX_HINT PREFETCH
     ".v8(.b32|.u32|.s32|.f32)",
     LOAD_OPERANDS, 88, "sm_100", kMove},
    {Op::ld,
     "{.weak}{.global}" L1_PRIORITY "(.L2::evict_normal|.L2::evict_first|.L2::evict_last)" PTX_HINT PREFETCH
     ".v4(.b64|.u64|.s64|.f64)",
     LOAD_OPERANDS, 88, "sm_100", kMove},
    {Op::ldu, "{.global}{.v2|.v4}" SCALARS, "D:0~*v, a", 20, "sm_50", kMove},

    {Op::st, "{.weak}" STORE_SPACE "{.wb|.cg|.cs|.wt}" PTX_HINT VEC SCALARS, STORE_OPERANDS, 10, "sm_50", kMove},
    {Op::st, "{.weak}" STORE_SPACE L1_PRIORITY PTX_HINT VEC SCALARS, STORE_OPERANDS, 74, "sm_70", kMove},
    {Op::st, "{.weak}" STORE_SPACE L1_PRIORITY PTX_HINT ".b128", STORE_OPERANDS, 83, "sm_70", kMove},
    {Op::st, ".volatile" STRONG_SPACE VEC SCALARS, STORE_OPERANDS, 10, "sm_50", kMove},
    {Op::st, ".volatile" STRONG_SPACE ".b128", STORE_OPERANDS, 83, "sm_70", kMove},
    {Op::st, "(.relaxed|.release)" PTX_SCOPE STRONG_SPACE L1_PRIORITY PTX_HINT VEC SCALARS, STORE_OPERANDS, 60, "sm_70",
     kMove},
    {Op::st, "(.relaxed|.release)" PTX_SCOPE STRONG_SPACE L1_PRIORITY PTX_HINT ".b128", STORE_OPERANDS, 83, "sm_70",
     kMove},
    {Op::st, ".mmio.relaxed.sys{.global}" SCALARS, STORE_OPERANDS, 82, "sm_70", kMove},
    {Op::st_async,
     "{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.v2|.v4}(.b32|.b64|.u32|.u64|.s32|.s64|.f32|.f64)",
     "a, s:0*v, a", 81, "sm_90", kMove},
    {Op::st_async,
     ".mmio.release" PTX_SCOPE "{.global}(.b8|.b16|.b32|.b64|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f32|.f64)",
     "a, s:0", 87, "sm_100", kMove},
    {Op::st_bulk, "{.weak}{.shared::cta}", "a, s:u64, i", 86, "sm_100", kMove},

    {Op::prefetch, "{.global|.local}(.L1|.L2)", "a", 20, "sm_50", kMove},
    {Op::prefetch, "{.global}(.L2::evict_last|.L2::evict_normal)", "a", 74, "sm_80", kMove},
    {Op::prefetch, "{.const|.param}.tensormap", "a", 80, "sm_90", kMove},
    {Op::prefetchu, ".L1", "a", 20, "sm_50", kMove},
    {Op::applypriority, "{.global}.L2::evict_normal", "a, i(128..128)", 74, "sm_80", kMove},
    {Op::discard, "{.global}.L2", "a, i(128..128)", 74, "sm_80", kMove},
    {Op::createpolicy,
     ".fractional(.L2::evict_last|.L2::evict_normal|.L2::evict_first|.L2::evict_unchanged)"
     "{.L2::evict_first|.L2::evict_unchanged}.b64",
     "d:b64, s:f32?", 74, "sm_80", kMove},
    {Op::createpolicy,
     ".range{.global}(.L2::evict_last|.L2::evict_normal|.L2::evict_first|.L2::evict_unchanged)"
     "{.L2::evict_first|.L2::evict_unchanged}.b64",
     "d:b64, a, s:u32, s:u32", 74, "sm_80", kMove},
    {Op::createpolicy, ".cvt.L2.b64", "d:b64, s:b64", 74, "sm_80", kMove},

    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", "(.and|.or|.xor)(.b32|.b64)", "d:0, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", "(.min|.max)(.u32|.s32|.u64|.s64)", "d:0, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", ".add(.u32|.s32|.u64|.f32|.f64)", "d:0, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", ".add(.v2|.v4).f32", "D:0*v, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", "(.min|.max){.v2|.v4}(.f16x2|.bf16x2)", "D:0*v, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", "(.min|.max)(.v2|.v4|.v8)(.f16|.bf16)", "D:0*v, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", ".add{.acc::f32}{.v2|.v4}(.f16x2|.bf16x2)", "D:0*v, a"),
    MULTIMEM(".ld_reduce", "(.relaxed|.acquire)", ".add{.acc::f32}(.v2|.v4|.v8)(.f16|.bf16)", "D:0*v, a"),
    MULTIMEM(".st", "(.relaxed|.release)", "(.b32|.b64|.u32|.u64|.s32|.s64|.f32|.f64|.f16x2|.bf16x2)", "a, s:0"),
    MULTIMEM(".st", "(.relaxed|.release)", "(.v2|.v4)(.f32|.f16x2|.bf16x2)", "a, s:0*v"),
    MULTIMEM(".st", "(.relaxed|.release)", "(.v2|.v4|.v8)(.f16|.bf16)", "a, s:0*v"),
    MULTIMEM_RED("(.and|.or|.xor)(.b32|.b64)", "a, s:0"),
    MULTIMEM_RED("(.min|.max)(.u32|.s32|.u64|.s64)", "a, s:0"),
    MULTIMEM_RED(".add(.u32|.s32|.u64|.f32|.f64)", "a, s:0"),
    MULTIMEM_RED(".add(.v2|.v4).f32", "a, s:0*v"),
    MULTIMEM_RED(".add{.v2|.v4}(.f16x2|.bf16x2)", "a, s:0*v"),
    MULTIMEM_RED(".add(.v2|.v4|.v8)(.f16|.bf16)", "a, s:0*v"),

    {Op::alloca_, "(.u32|.u64)", "d:0, s:0, i?", 73, "sm_52", kStack},
    {Op::stacksave, "(.u32|.u64)", "d:0", 73, "sm_52", kStack},
    {Op::stackrestore, "(.u32|.u64)", "r:0", 73, "sm_52", kStack},
};

}  // namespace

std::span<const InstructionForm> memory_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
