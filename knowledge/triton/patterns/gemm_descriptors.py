"""C[M, N] = A[M, K] B[N, K]^T in bf16, with tensor descriptors made on the host: tiles come and go by TMA, products by
wgmma; each program works through several tiles of C."""
# region imports
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
# endregion imports


# region kernel
@triton.jit
def gemm_kernel(a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                PROGRAMS: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        m = tile % tiles_m * BLOCK_M
        n = tile // tiles_m * BLOCK_N
        sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            x = a_desc.load([m, k * BLOCK_K])
            y = b_desc.load([n, k * BLOCK_K])
            sum = tl.dot(x, y.T, sum)
        c_desc.store([m, n], sum.to(tl.bfloat16))
# endregion kernel


# region run
def run(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor):
    M, K = A.shape
    N = B.shape[0]
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64
    programs = min(torch.cuda.get_device_properties("cuda").multi_processor_count,
                   triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N))
    a = TensorDescriptor.from_tensor(A, [BLOCK_M, BLOCK_K])
    b = TensorDescriptor.from_tensor(B, [BLOCK_N, BLOCK_K])
    c = TensorDescriptor.from_tensor(C, [BLOCK_M, BLOCK_N])
    gemm_kernel[(programs,)](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, programs, num_warps=8, num_stages=3)
# endregion run
