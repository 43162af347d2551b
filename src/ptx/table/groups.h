#pragma once

/// Modifier groups that many rows share. They are macros because a row's pattern is one string literal.
#define PTX_INT "(.u16|.u32|.u64|.s16|.s32|.s64)"
#define PTX_INT32 "(.u32|.s32)"
#define PTX_ANY "(.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64)"
#define PTX_RND "(.rn|.rz|.rm|.rp)"
#define PTX_OPT_RND "{.rn|.rz|.rm|.rp}"
#define PTX_HALF "(.f16|.f16x2)"
#define PTX_BHALF "(.bf16|.bf16x2)"
#define PTX_SCOPE "(.cta|.cluster|.gpu|.sys)"
#define PTX_OPT_SCOPE "{.cta|.cluster|.gpu|.sys}"
#define PTX_HINT "{.L2::cache_hint}"
#define PTX_POLICY ", r:u64?<L2::cache_hint>"
