"""Attention without a mask, forward, in bf16, with the natural logarithm of each row's sum of exponentials: one tile of
queries per program, keys and values in a loop, softmax kept up to date as they come."""
# region imports
import math

import torch
import triton
import triton.language as tl
# endregion imports


# region kernel
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, S, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     D: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * S * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    rows = m[:, None] * D + d[None, :]
    q = tl.load(q_ptr + head + rows, mask=m[:, None] < S, other=0.0)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    out = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, S, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(q, k) * scale  # in powers of two
        scores = tl.where(n[None, :] < S, scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        factor = tl.exp2(largest - now)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(v_ptr + head + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        out = tl.dot(p.to(tl.bfloat16), v, out * factor[:, None])
        largest = now
    tl.store(o_ptr + head + rows, (out / total[:, None]).to(tl.bfloat16), mask=m[:, None] < S)
    tl.store(lse_ptr + tl.program_id(1) * S + m, (largest + tl.log2(total)) * 0.6931471805599453, mask=m < S)
# endregion kernel


# region run
def run(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, O: torch.Tensor, LSE: torch.Tensor):
    B, H, S, D = Q.shape
    scale = 1.0 / math.sqrt(D) * 1.4426950408889634
    attention_kernel[(triton.cdiv(S, 64), B * H)](Q, K, V, O, LSE, S, scale, BLOCK_M=64, BLOCK_N=64, D=D, num_warps=4,
                                                  num_stages=2)
# endregion run
