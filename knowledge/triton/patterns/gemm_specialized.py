"""C[M, N] = A[M, K] B[N, K]^T in bf16 with warp specialisation: Triton gives the loads of the loop to warps of their own,
which run ahead of those that multiply."""
# region imports
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
# endregion imports


# region kernel
@triton.jit
def gemm_kernel(a_desc, b_desc, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M
    n = tl.program_id(1) * BLOCK_N
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True):
        sum = tl.dot(a_desc.load([m, k * BLOCK_K]), b_desc.load([n, k * BLOCK_K]).T, sum)
    rows = m + tl.arange(0, BLOCK_M)
    columns = n + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], sum.to(tl.bfloat16),
             mask=(rows[:, None] < M) & (columns[None, :] < N))
# endregion kernel


# region run
def run(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor):
    M, K = A.shape
    N = B.shape[0]
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 128, 64
    a = TensorDescriptor.from_tensor(A, [BLOCK_M, BLOCK_K])
    b = TensorDescriptor.from_tensor(B, [BLOCK_N, BLOCK_K])
    gemm_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](a, b, C, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
                                                                    num_warps=4, num_stages=3)
# endregion run
