"""Small kernels of our own for the foreign compiler, where no published kernel covers the feature: the Python is ours,
the PTX that comes out is Triton's."""

import triton
import triton.language as tl


@triton.jit
def matmul_pointers(a, b, c, M, N, K, stride_am, stride_bk, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_K: tl.constexpr, B_IS_NK: tl.constexpr, SPLIT_K: tl.constexpr):
    """C = A B. A is [M, K]; B is [K, N], or [N, K] with B_IS_NK. Split-K partial sums meet in C by atomics."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    a_block = a + row[:, None] * stride_am + k[None, :]
    if B_IS_NK:
        b_block = b + column[None, :] * stride_bk + k[:, None]
    else:
        b_block = b + k[:, None] * stride_bk + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K * SPLIT_K):
        a_tile = tl.load(a_block, mask=(row[:, None] < M) & (k[None, :] + start < K), other=0.0)
        b_tile = tl.load(b_block, mask=(column[None, :] < N) & (k[:, None] + start < K), other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a_block += BLOCK_K * SPLIT_K
        b_block += BLOCK_K * SPLIT_K if B_IS_NK else BLOCK_K * SPLIT_K * stride_bk
    c_block = c + row[:, None] * stride_cm + column[None, :]
    inside = (row[:, None] < M) & (column[None, :] < N)
    if SPLIT_K == 1:
        tl.store(c_block, total.to(c.dtype.element_ty), mask=inside)
    else:
        tl.atomic_add(c_block, total, mask=inside)


@triton.jit
def matmul_device_descriptors(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A B^T with tensor maps that the kernel itself writes, in scratch memory."""
    a_map = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_map = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_map = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        total = tl.dot(a_map.load([row, start]), b_map.load([column, start]).T, total)
    c_map.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def matmul_host_descriptors(a_map, b_map, c_map, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                            BLOCK_K: tl.constexpr):
    """C = A B^T with tensor maps that the host encoded."""
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        total = tl.dot(a_map.load([row, start]), b_map.load([column, start]).T, total)
    c_map.store([row, column], total.to(tl.bfloat16))


@triton.jit
def sort_rows(x, y, COLUMNS: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(y + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@triton.jit
def topk_rows(x, y, COLUMNS: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(y + row * K + tl.arange(0, K), tl.topk(values, K))


@triton.jit
def affine(a0, b0, a1, b1):
    """Composition of x -> a0 x + b0 and then x -> a1 x + b1."""
    return a0 * a1, a1 * b0 + b1


@triton.jit
def linear_recurrence(a, x, y, length, BLOCK: tl.constexpr):
    """y[t] = a[t] y[t-1] + x[t] along each row, blockwise with a carried state."""
    row = tl.program_id(0)
    state = 0.0
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        factor = tl.load(a + row * length + at, mask=at < length, other=1.0)
        addend = tl.load(x + row * length + at, mask=at < length, other=0.0)
        product, total = tl.associative_scan((factor, addend), 0, affine)
        result = product * state + total
        tl.store(y + row * length + at, result, mask=at < length)
        state = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, result, 0.0))


@triton.jit
def histogram(x, counts, length, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    found = tl.histogram(tl.load(x + at, mask=inside, other=0), BINS, mask=inside)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


@triton.jit
def atomics(x, results, length, BLOCK: tl.constexpr):
    """Slots: sum, maximum, minimum, or, and, xor of all elements; then a counter behind a spin lock; then the lock."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < length
    values = tl.load(x + at, mask=inside, other=0)
    zero = tl.zeros((BLOCK,), tl.int32)
    tl.atomic_add(results + zero, values, mask=inside)
    tl.atomic_max(results + zero + 1, values, mask=inside)
    tl.atomic_min(results + zero + 2, values, mask=inside)
    tl.atomic_or(results + zero + 3, values, mask=inside)
    tl.atomic_and(results + zero + 4, values, mask=inside)
    tl.atomic_xor(results + zero + 5, values, mask=inside)
    while tl.atomic_cas(results + 7, 0, 1) == 1:
        pass
    tl.store(results + 6, tl.load(results + 6, volatile=True) + tl.program_id(0))
    tl.atomic_xchg(results + 7, 0)


@triton.jit
def random_numbers(seed, uniform, normal, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(uniform + at, tl.randint(seed, at))
    tl.store(normal + at, tl.randn(seed, at))
