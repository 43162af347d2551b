#include "ptx/table/groups.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx::table {
namespace {

constexpr const char* kMove = "Data Movement and Conversion Instructions";

#define INTS "(.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64)"
#define IRND "(.rni|.rzi|.rmi|.rpi)"
#define OPT_IRND "{.rni|.rzi|.rmi|.rpi}"
#define F8X2 "(.e4m3x2|.e5m2x2)"

constexpr InstructionForm kRows[] = {
    {Op::mov, PTX_ANY, "d:0, m:0", 10, "sm_50", kMove},
    {Op::mov, ".pred", "P, p", 10, "sm_50", kMove},
    {Op::mov, ".b128", "d:0, s:0", 83, "sm_70", kMove},
    {Op::mov, ".b16", "d:0, s:b8*2 | D:b8*2, s:0", 10, "sm_50", kMove},
    {Op::mov, ".b32", "d:0, s:b16*2 | D:b16*2, s:0 | d:0, s:b8*4 | D:b8*4, s:0", 10, "sm_50", kMove},
    {Op::mov, ".b64", "d:0, s:b32*2 | D:b32*2, s:0 | d:0, s:b16*4 | D:b16*4, s:0", 10, "sm_50", kMove},
    {Op::mov, ".b128", "d:0, s:b64*2 | D:b64*2, s:0 | d:0, s:b32*4 | D:b32*4, s:0", 83, "sm_70", kMove},

    {Op::cvt, INTS INTS, "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.u8(.u16|.u32|.u64|.s8|.s16|.s32|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.u16(.u32|.u64|.s8|.s16|.s32|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.u32(.u64|.s8|.s16|.s32|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.u64(.s8|.s16|.s32|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.s8(.u8|.u16|.u32|.u64|.s16|.s32|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.s16(.u16|.u32|.u64|.s32|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.s32(.u32|.u64|.s64)", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, ".sat.s64.u64", "d:0~, x:1~", 10, "sm_50", kMove},
    {Op::cvt, IRND "{.ftz}{.sat}" INTS ".f32", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, IRND "{.sat}" INTS "(.f16|.f64)", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, IRND INTS ".bf16", "d:0, r:1", 78, "sm_90", kMove},
    {Op::cvt, PTX_RND "{.ftz}{.sat}.f32" INTS, "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, PTX_RND "{.sat}(.f16|.f64)" INTS, "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, PTX_RND ".bf16" INTS, "d:0, s:1", 78, "sm_90", kMove},
    {Op::cvt, PTX_RND "{.ftz}{.sat}.f32.f64", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, PTX_RND "{.ftz}{.sat}.f16.f32", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, PTX_RND "{.sat}.f16.f64", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, PTX_OPT_RND ".f16.bf16", "d:0, r:1", 78, "sm_90", kMove},
    {Op::cvt, PTX_OPT_RND ".bf16.f16", "d:0, r:1", 78, "sm_90", kMove},
    {Op::cvt, PTX_RND ".bf16.f64", "d:0, s:1", 78, "sm_90", kMove},
    {Op::cvt, PTX_RND "{.ftz}.bf16.f32", "d:0, s:1", 78, "sm_90", kMove},
    {Op::cvt, PTX_OPT_RND "{.ftz}.f32.bf16", "d:0, r:1", 71, "sm_80", kMove},
    {Op::cvt, PTX_OPT_RND ".f64.bf16", "d:0, r:1", 78, "sm_90", kMove},
    {Op::cvt, "{.ftz}{.sat}.f32.f16", "d:0~, r:1~", 10, "sm_50", kMove},
    {Op::cvt, "{.sat}.f64.f16", "d:0~, r:1~", 10, "sm_50", kMove},
    {Op::cvt, "{.ftz}{.sat}.f64.f32", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, OPT_IRND "{.ftz}{.sat}.f32.f32", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, OPT_IRND "{.sat}.f64.f64", "d:0~, s:1~", 10, "sm_50", kMove},
    {Op::cvt, OPT_IRND "{.sat}.f16.f16", "d:0~, r:1~", 10, "sm_50", kMove},
    {Op::cvt, OPT_IRND ".bf16.bf16", "d:0, r:1", 78, "sm_90", kMove},
    {Op::cvt, "(.rn|.rz){.relu}{.satfinite}(.f16|.bf16).f32", "d:b16, s:f32", 70, "sm_80", kMove},
    {Op::cvt, "(.rn|.rz){.relu}{.satfinite}(.f16x2|.bf16x2).f32", "d:b32, s:f32, s:f32", 70, "sm_80", kMove},
    {Op::cvt, ".rs{.relu}{.satfinite}(.f16x2|.bf16x2).f32", "d:b32, r:f32, r:f32, r:b32", 87, "sm_100a", kMove},
    {Op::cvt, ".rna{.satfinite}.tf32.f32", "d:b32, s:f32", 70, "sm_80", kMove},
    {Op::cvt, "(.rn|.rz){.relu}.tf32.f32", "d:b32, s:f32", 78, "sm_90", kMove},
    {Op::cvt, ".rn.satfinite{.relu}" F8X2 ".f32", "d:b16, s:f32, s:f32", 78, "sm_89", kMove},
    {Op::cvt, ".rn.satfinite{.relu}" F8X2 ".f16x2", "d:b16, r:f16x2", 78, "sm_89", kMove},
    {Op::cvt, ".rn{.relu}.f16x2" F8X2, "d:f16x2, r:b16", 78, "sm_89", kMove},
    {Op::cvt, ".rn.satfinite{.relu}(.e2m3x2|.e3m2x2).f32", "d:b16, r:f32, r:f32", 86, "sm_100a", kMove},
    {Op::cvt, ".rn{.relu}.f16x2(.e2m3x2|.e3m2x2)", "d:f16x2, r:b16", 86, "sm_100a", kMove},
    {Op::cvt, ".rn.satfinite{.relu}.e2m1x2.f32", "d:b8, r:f32, r:f32", 86, "sm_100a", kMove},
    {Op::cvt, ".rn{.relu}.f16x2.e2m1x2", "d:f16x2, r:b8", 86, "sm_100a", kMove},
    {Op::cvt, "(.rz|.rp){.satfinite}.ue8m0x2.f32", "d:b16, r:f32, r:f32", 86, "sm_100a", kMove},
    {Op::cvt, "(.rz|.rp){.satfinite}.ue8m0x2.bf16x2", "d:b16, r:bf16x2", 86, "sm_100a", kMove},
    {Op::cvt, ".rn.bf16x2.ue8m0x2", "d:bf16x2, r:b16", 86, "sm_100a", kMove},
    {Op::cvt_pack, ".sat(.u16|.s16).s32", "d:b32, s:s32, s:s32", 65, "sm_72", kMove},
    {Op::cvt_pack, ".sat(.u8|.s8).s32.b32", "d:b32, s:s32, s:s32, s:b32", 65, "sm_72", kMove},
    {Op::cvt_pack, ".sat(.u4|.s4).s32.b32", "d:b32, s:s32, s:s32, s:b32", 65, "sm_75", kMove},
    {Op::cvta, "(.const|.global|.local|.shared|.shared::cta|.shared::cluster|.param|.param::entry).u64", "d:0, m:0", 20,
     "sm_50", kMove},
    {Op::cvta, ".to(.const|.global|.local|.shared|.shared::cta|.shared::cluster|.param|.param::entry).u64", "d:0, s:0",
     20, "sm_50", kMove},
    {Op::isspacep, "(.const|.global|.local|.shared|.shared::cta|.shared::cluster|.param|.param::entry)", "P, s:b64", 20,
     "sm_50", kMove},
    {Op::mapa, "{.shared::cluster}(.u32|.u64)", "d:0, m:0, s:u32", 78, "sm_90", kMove},
    {Op::getctarank, "{.shared::cluster}(.u32|.u64)", "d:u32, m:0", 78, "sm_90", kMove},
    {Op::shfl_sync, "(.up|.down|.bfly|.idx).b32", "e:0, s:0, s:u32, s:u32, s:u32", 60, "sm_50", kMove},
};

}  // namespace

std::span<const InstructionForm> convert_rows() { return kRows; }

}  // namespace ptxbench::ptx::table
