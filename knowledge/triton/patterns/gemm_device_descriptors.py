"""C[M, N] = A[M, K] B[N, K]^T in bf16, with tensor descriptors made in the kernel, whose tensor maps lie in scratch memory
that `triton.set_allocator` provides."""
# region imports
import torch
import triton
import triton.language as tl
# endregion imports


# region kernel
@triton.jit
def gemm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    m = tl.program_id(0) * BLOCK_M
    n = tl.program_id(1) * BLOCK_N
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        sum = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, sum)
    c_desc.store([m, n], sum.to(tl.bfloat16))


def scratch(size: int, alignment: int, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)
# endregion kernel


# region run
def run(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor):
    M, K = A.shape
    N = B.shape[0]
    triton.set_allocator(scratch)
    gemm_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 128))](A, B, C, M, N, K, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64,
                                                           num_warps=4, num_stages=3)
# endregion run
