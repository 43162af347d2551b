"""C[M, N] = A[M, K] B[N, K]^T in bf16 for any number of rows: tiles as high as the rows need, and a list of configurations."""
# region imports
import torch
import triton
import triton.language as tl
# endregion imports


# region kernel
@triton.autotune(
    configs=[
        triton.Config({"BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_N": 128, "BLOCK_K": 64}, num_warps=8, num_stages=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def gemm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        sum = tl.dot(x, y, sum)
    tl.store(c_ptr + m[:, None] * N + n[None, :], sum.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))
# endregion kernel


# region run
def run(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor):
    M, K = A.shape
    N = B.shape[0]
    rows = min(max(triton.next_power_of_2(M), 16), 128)
    grid = lambda constants: (triton.cdiv(M, rows), triton.cdiv(N, constants["BLOCK_N"]))
    gemm_kernel[grid](A, B, C, M, N, K, BLOCK_M=rows)
# endregion run
