"""What careful kernels for tensor cores give for operations that no vendor's library here has: operands in bf16 or e4m3,
products added up in fp32, and whatever enters a second product rounded to the operands' type. On a GPU the products are
its tensor cores', where PyTorch gives their sums unrounded; elsewhere they are exact but for sums in fp32.
"""
import functools
import math

import torch


@functools.lru_cache(maxsize=None)
def has_unrounded_sums():
    try:
        one = torch.ones(1, 16, 16, dtype=torch.bfloat16, device="cuda")
        torch.bmm(one, one, out_dtype=torch.float32)
        return True
    except (TypeError, RuntimeError, AssertionError):
        return False


def multiply(a, b):
    """Products of batches of matrices in bf16, in fp32."""
    if a.is_cuda and has_unrounded_sums():
        return torch.bmm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


# --- attention over requests

ATTENTION = {
    "64 keys a step": {"tile": 64},
    "128 keys a step": {"tile": 128},
    "sums of rounded weights": {"tile": 64, "sums_rounded": True},
    "4 splits": {"tile": 64, "splits": 4},
}


def softmax_product(q, k, v, scale, seen, tile, sums_rounded):
    """Online softmax of q [batch, rows, D], k and v [batch, keys, D]; row r sees seen[r] keys. Output unnormalised."""
    batch, rows = q.shape[:2]
    top = torch.full((batch, rows), -math.inf, device=q.device)
    total = torch.zeros_like(top)
    output = torch.zeros(batch, rows, v.shape[-1], device=q.device)
    for first in range(0, k.shape[1], tile):
        keys, values = k[:, first:first + tile], v[:, first:first + tile]
        scores = multiply(q, keys.transpose(1, 2)) * (scale / math.log(2))
        columns = torch.arange(first, first + keys.shape[1], device=q.device)
        scores = scores.masked_fill(columns[None, None, :] >= seen[None, :, None], -math.inf)
        new = torch.maximum(top, scores.amax(-1))
        base = torch.where(torch.isinf(new), torch.zeros_like(new), new)
        weights = torch.exp2(scores - base[..., None])
        rounded = weights.bfloat16()
        rescale = torch.exp2(top - base)
        total = total * rescale + (rounded.float() if sums_rounded else weights).sum(-1)
        output = output * rescale[..., None] + multiply(rounded, values)
        top = new
    return output, top, total


def attention(q, k, v, scale, causal, requests, tile, sums_rounded=False, splits=1):
    """All in bf16: q [queries, heads, D], k and v [tokens, KV heads, ...]; `requests` are slices of queries and places of
    tokens. The heads that share one of K and V are rows of one product."""
    queries, heads, _ = q.shape
    kv_heads, columns = k.shape[1], v.shape[2]
    group = heads // kv_heads
    output = torch.zeros(queries, heads, columns, device=q.device)
    lse = torch.full((queries, heads), -math.inf, device=q.device)
    for mine, tokens in requests:
        count = mine.stop - mine.start
        # [KV heads, queries and heads of the group, D]
        rows = q[mine].reshape(count, kv_heads, group, -1).transpose(0, 1).reshape(kv_heads, count * group, -1)
        keys, values = k[tokens].transpose(0, 1).contiguous(), v[tokens].transpose(0, 1).contiguous()
        seen = torch.full((count,), len(tokens), device=q.device)
        if causal:
            seen = torch.arange(count, device=q.device) + 1 + len(tokens) - count
        seen = seen.repeat_interleave(group)
        length = -(-len(tokens) // splits)
        parts = [softmax_product(rows, keys[:, first:first + length], values[:, first:first + length], scale, seen - first,
                                 tile, sums_rounded) for first in range(0, len(tokens), length)]
        top = torch.stack([part[1] for part in parts]).amax(0)
        base = torch.where(torch.isinf(top), torch.zeros_like(top), top)
        shares = [torch.exp2(part[1] - base) for part in parts]
        total = sum(share * part[2] for share, part in zip(shares, parts))
        whole = sum(share[..., None] * part[0] for share, part in zip(shares, parts))
        whole = torch.where(total[..., None] > 0, whole / total[..., None], torch.zeros_like(whole))
        output[mine] = whole.reshape(kv_heads, count, group, columns).transpose(0, 1).reshape(count, heads, columns)
        lse[mine] = (top + torch.log2(total)).reshape(kv_heads, count, group).transpose(0, 1).reshape(count, heads)
    return {"output": output.bfloat16(), "lse": lse}


# --- products in e4m3 with factors

FP8_GEMM = {
    "blocks left to the tensor core": {"promoted": False},
    "blocks promoted": {"promoted": True},
}


def fp8_gemm(t, dtype, promoted):
    """Every 128 elements of K have a factor for each row of A, and for each row, or 128 rows, of B."""
    sf_b = t["SF_B"]
    if sf_b.shape[0] != t["B"].shape[0]:
        sf_b = sf_b.repeat_interleave(128, dim=0)[:t["B"].shape[0]]
    total = torch.zeros(t["A"].shape[0], t["B"].shape[0], device=t["A"].device)
    for block in range(t["SF_A"].shape[1]):
        of_k = slice(128 * block, 128 * (block + 1))
        product = multiply_fp8(t["A"][:, of_k], t["B"][:, of_k], promoted)
        total += product * t["SF_A"][:, block, None] * sf_b[None, :, block]
    return {"D": total.to(dtype)}


# --- attention in e4m3

FP8_ATTENTION = {
    "weights times 256, sums promoted": {"tile": 64, "factor": 256.0, "promoted": True},
    "weights times 1, sums promoted": {"tile": 128, "factor": 1.0, "promoted": True},
    "weights times 448, left to the tensor core": {"tile": 128, "factor": 448.0, "promoted": False},
    "all keys in one product": {"tile": 1 << 20, "factor": 256.0, "promoted": False},
}


def multiply_fp8(a, b, promoted):
    """a [rows, inner] and the transpose of b [columns, inner], both e4m3, in fp32; inner and columns are multiples of 16.
    `promoted`: sums leave the tensor core's accumulators, which keep fewer bits, every 128 terms."""
    if not a.is_cuda:
        return a.float() @ b.float().T
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a.contiguous(), b.contiguous().T, scale_a=one, scale_b=one, out_dtype=torch.float32,
                            use_fast_accum=not promoted)


def fp8_attention(t, causal, tile, factor, promoted):
    """Online softmax, head by head; row sums are of the weights before they are rounded."""
    batch, heads, length, depth = t["Q"].shape
    scale = (t["descale_q"] * t["descale_k"]).item() / math.sqrt(depth)
    out_factor = (t["descale_v"] * t["descale_s"]).item()
    output = torch.zeros(batch, heads, length, depth, device=t["Q"].device)
    lse = torch.zeros(batch, heads, length, device=output.device)
    rows = torch.arange(length, device=output.device)
    for b, h in ((b, h) for b in range(batch) for h in range(heads)):
        top = torch.full((length,), -math.inf, device=output.device)
        total, sums = torch.zeros_like(top), torch.zeros(length, depth, device=output.device)
        for first in range(0, length, tile):
            count = min(tile, length - first)
            padded = -(-count // 16) * 16
            keys, values = (torch.zeros(padded, depth, device=output.device) for _ in range(2))
            keys[:count], values[:count] = (t[name][b, h, first:first + count].float() for name in "KV")
            scores = multiply_fp8(t["Q"][b, h], keys.to(torch.float8_e4m3fn), promoted) * (scale / math.log(2))
            columns = torch.arange(first, first + padded, device=output.device)
            hidden = (columns >= first + count)[None, :] | (causal & (columns[None, :] > rows[:, None]))
            scores = scores.masked_fill(hidden, -math.inf)
            new = torch.maximum(top, scores.amax(-1))
            base = torch.where(torch.isinf(new), torch.zeros_like(new), new)
            weights = torch.exp2(scores - base[:, None])
            rescale = torch.exp2(top - base)
            total = total * rescale + weights.sum(-1)
            rounded = (weights * factor).to(torch.float8_e4m3fn)
            sums = sums * rescale[:, None] + multiply_fp8(rounded, values.T.to(torch.float8_e4m3fn), promoted)
            top = new
        output[b, h] = sums / (total * factor)[:, None] * out_factor
        lse[b, h] = (top + torch.log2(total)) * math.log(2)
    return {"O": output.clamp(-448.0, 448.0).to(torch.float8_e4m3fn), "LSE": lse}


# --- the gated delta rule


def sequences(t):
    """Of each one: its tokens among those of all, and which state it begins with."""
    if "cu_seqlens" in t:
        bounds = t["cu_seqlens"].tolist()
    else:
        bounds = [index * t["q"].shape[1] for index in range(t["q"].shape[0] + 1)]
    places = t["initial_state_indices"].tolist() if "initial_state" in t else range(len(bounds) - 1)
    return list(zip(bounds, bounds[1:], places))


def per_token(t, kind):
    """q, k and v as [tokens, heads of values, depth], the logarithms of the gates and the betas as [tokens, heads]."""
    v = t["v"].flatten(0, -3)
    q, k = (t[name].flatten(0, -3).repeat_interleave(v.shape[1] // t[name].shape[-2], 1) for name in "qk")
    a, b = (t[name].flatten(0, -2).to(kind) for name in "ab")
    x = a + t["dt_bias"].to(kind)
    softplus = torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))
    return q, k, v, -torch.exp(t["A_log"].to(kind)) * softplus, torch.sigmoid(b)


def scale_of(t):
    return t["scale"].item() or 1 / math.sqrt(t["q"].shape[-1])


def whole(t, output, finals):
    """The outputs of the problem; a pool of states stays as it was."""
    if "initial_state" in t:
        return {"output": output.reshape(t["v"].shape), "final_state": t["initial_state"].clone()}
    return {"output": output.reshape(t["v"].shape), "new_state": finals}


def delta_rule(t, kind):
    """Token by token in arithmetic of that kind."""
    q, k, v, gates, betas = per_token(t, kind)
    q, k, v = q.to(kind), k.to(kind), v.to(kind)
    states = t["initial_state" if "initial_state" in t else "state"]
    output, finals = torch.zeros(v.shape, dtype=kind, device=v.device), torch.zeros_like(states, dtype=kind)
    for index, (begin, end, place) in enumerate(sequences(t)):
        state = states[place].to(kind)  # [heads, V, K]
        for token in range(begin, end):
            state = state * torch.exp(gates[token])[:, None, None]
            old = (state @ k[token][:, :, None])[..., 0]
            change = betas[token][:, None] * (v[token] - old)
            state = state + change[:, :, None] * k[token][:, None, :]
            output[token] = (state @ q[token][:, :, None])[..., 0] * scale_of(t)
        if begin < end and "initial_state" not in t:
            finals[index] = state
    return whole(t, output, finals)


def by_tokens(t):
    made = delta_rule(t, torch.float32)
    made["output"] = made["output"].bfloat16()
    return made


def by_blocks(t, size):
    """As libraries for linear attention do a prefill: within a block of tokens the changes follow from a triangular
    system, whose inverse is rounded; the state is carried in fp32 and rounded where it enters a product."""
    q, k, v, gates, betas = per_token(t, torch.float32)
    output, finals = torch.zeros(v.shape, device=v.device), torch.zeros_like(t["state"])
    for index, (begin, end, place) in enumerate(sequences(t)):
        if begin == end:
            continue
        state = t["state"][place].float()  # [heads, V, K]
        for first in range(begin, end, size):
            block = slice(first, min(first + size, end))
            queries, keys, values = (part[block].transpose(0, 1).contiguous() for part in (q, k, v))
            sums, beta = torch.cumsum(gates[block], 0).T, betas[block].T
            count = sums.shape[1]
            later = sums[:, :, None] - sums[:, None, :]  # what is left at i of a change at j
            below = torch.ones(count, count, dtype=torch.bool, device=v.device).tril()
            decay = torch.exp(later.masked_fill(~below, -math.inf))
            system = multiply(keys, keys.transpose(1, 2)) * decay * beta[:, :, None]
            identity = torch.eye(count, device=v.device).expand_as(system)
            inverse = torch.linalg.solve_triangular(system.tril(-1) + identity, identity, upper=False,
                                                    unitriangular=True).bfloat16()
            fresh = multiply(inverse, (values.float() * beta[..., None]).bfloat16()).bfloat16()
            reads = multiply(inverse, (keys.float() * (beta * torch.exp(sums))[..., None]).bfloat16()).bfloat16()
            rounded = state.bfloat16().transpose(1, 2).contiguous()  # [heads, K, V]
            changes = fresh.float() - multiply(reads, rounded)
            within = (multiply(queries, keys.transpose(1, 2)) * decay).bfloat16()
            made = multiply(queries, rounded) * torch.exp(sums)[..., None] + multiply(within, changes.bfloat16())
            output[block] = (made * scale_of(t)).transpose(0, 1)
            left = (changes * torch.exp(sums[:, -1:] - sums)[..., None]).bfloat16()
            state = state * torch.exp(sums[:, -1])[:, None, None] + multiply(left.transpose(1, 2).contiguous(), keys)
        finals[index] = state
    return whole(t, output.bfloat16(), finals)


DELTA_RULE = {
    "tokens": by_tokens,
    "blocks of 64": functools.partial(by_blocks, size=64),
    "blocks of 16": functools.partial(by_blocks, size=16),
}
