"""C[M, N] = A[M, K] B[N, K]^T in bf16 for few rows: K is split over programs, which add their parts into scratch of fp32;
a second kernel rounds it to bf16."""
# region imports
import torch
import triton
import triton.language as tl
# endregion imports


# region kernel
@triton.jit
def product_kernel(a_ptr, b_ptr, sum_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                   PARTS: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.cdiv(K, BLOCK_K * PARTS) * BLOCK_K
    first = tl.program_id(2) * part
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(first, min(first + part, K), BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        sum = tl.dot(x, y, sum)
    tl.atomic_add(sum_ptr + m[:, None] * N + n[None, :], sum, mask=(m[:, None] < M) & (n[None, :] < N), sem="relaxed")


@triton.jit
def round_kernel(sum_ptr, c_ptr, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + i, tl.load(sum_ptr + i, mask=i < count).to(tl.bfloat16), mask=i < count)
# endregion kernel


# region run
def run(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor):
    M, K = A.shape
    N = B.shape[0]
    total = torch.zeros((M, N), device=A.device, dtype=torch.float32)
    product_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64), 4)](A, B, total, M, N, K, BLOCK_M=64, BLOCK_N=64,
                                                                BLOCK_K=64, PARTS=4, num_warps=4, num_stages=3)
    round_kernel[(triton.cdiv(M * N, 1024),)](total, C, M * N, BLOCK=1024, num_warps=4)
# endregion run
