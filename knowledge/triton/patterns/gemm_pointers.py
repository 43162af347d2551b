"""C[M, N] = A[M, K] B[N, K]^T in bf16, with pointers and masks: one tile of C per program, operands pipelined through
shared memory by cp.async, products by wgmma."""
# region imports
import torch
import triton
import triton.language as tl
# endregion imports


# region kernel
@triton.jit
def gemm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    # Programs that follow each other share rows of A and columns of B in the L2 cache.
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * tiles_n)
    rows = min(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + pid % (GROUP_M * tiles_n) % rows
    tile_n = pid % (GROUP_M * tiles_n) // rows

    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * stride_am + k[None, :]
    b = b_ptr + n[None, :] * stride_bn + k[:, None]
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = k < K - start
        x = tl.load(a, mask=(m[:, None] < M) & left[None, :], other=0.0)
        y = tl.load(b, mask=(n[None, :] < N) & left[:, None], other=0.0)
        sum = tl.dot(x, y, sum)
        a += BLOCK_K
        b += BLOCK_K
    c = c_ptr + m[:, None] * stride_cm + n[None, :]
    tl.store(c, sum.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))
# endregion kernel


# region run
def run(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor):
    M, K = A.shape
    N = B.shape[0]
    block_m = 64 if M <= 64 else 128
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    gemm_kernel[grid](A, B, C, M, N, K, A.stride(0), B.stride(0), C.stride(0),
                      BLOCK_M=block_m, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8 if block_m == 128 else 4,
                      num_stages=4)
# endregion run
