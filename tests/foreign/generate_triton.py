#!/usr/bin/env python3
"""Compiles Triton kernels for sm_90a, without a GPU, to OUT/<name>.ptx and OUT/<name>.json.

Needs Python 3.11 and what scripts/setup_foreign.sh unpacks. Most kernels come out of published packages; those import
torch, which is not here: a stand-in that answers every name is enough to import them, as only their kernels are used.
Usage: generate_triton.py FOREIGN OUT [NAME...]
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import multiprocessing
import os
import pathlib
import sys
import types

FOREIGN, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
OUT.mkdir(parents=True, exist_ok=True)
os.environ["TRITON_CACHE_DIR"] = str(OUT / "triton-cache")
sys.path[:0] = [str(FOREIGN / name) for name in ("triton", "liger", "conch", "fla")]


class Anything(type):
    """A class whose every attribute is another such class: works as a base class, a decorator, a type and a value."""

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __call__(cls, *arguments, **named):
        if len(arguments) == 1 and not named and isinstance(arguments[0], types.FunctionType):
            return arguments[0]
        return Anything("value", (), {})

    def _true(cls, other):
        return True

    __ge__ = __gt__ = _true

    def __le__(cls, other):
        return False

    __lt__ = __le__

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())

    def __getitem__(cls, item):
        return cls

    def __hash__(cls):
        return id(cls)


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    NAMES = ("torch", "einops", "transformers", "packaging", "numpy", "scipy")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in self.NAMES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = StandIn(spec.name)
        module.__version__ = "2.9.0"
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, StandInFinder())
os.environ["LIGER_FUSED_MOE_AUTOTUNE"] = "0"

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.nvidia.compiler import CUDABackend  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

# The machine code is not used, so ptxas need not run.
CUDABackend.make_cubin = lambda *arguments: b""


def open_package(name, folder):
    """Makes a package importable without running its __init__.py, which would import all of it."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


open_package("liger_kernel", FOREIGN / "liger/liger_kernel")
open_package("liger_kernel.ops", FOREIGN / "liger/liger_kernel/ops")
# Liger asks whether an Ascend NPU is there, and the stand-in would say yes.
importlib.import_module("liger_kernel.utils").is_npu_available = lambda: False
open_package("fla.ops", FOREIGN / "fla/fla/ops")
open_package("fla", FOREIGN / "fla/fla")
open_package("fla.ops.attn", FOREIGN / "fla/fla/ops/attn")
open_package("fla.ops.utils", FOREIGN / "fla/fla/ops/utils")
fla_utils = types.ModuleType("fla.utils")
fla_utils.__getattr__ = lambda name: False if name.startswith("IS_") else Anything(name, (), {})
fla_backends = types.ModuleType("fla.backends")
fla_backends.dispatch = lambda *arguments, **named: (lambda function: function)
sys.modules["fla.utils"], sys.modules["fla.backends"] = fla_utils, fla_backends
for name in ("prepare_chunk_indices", "prepare_chunk_offsets"):
    setattr(sys.modules["fla.ops.utils"], name, Anything(name, (), {}))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

LIGER, CONCH = "liger_kernel.ops.", "conch.kernels."
bf16, f16, f32, i32, u32, i64, i8, fp8 = "*bf16", "*fp16", "*fp32", "*i32", "*u32", "*i64", "*i8", "*fp8e4nv"

# name: (module, function, parameters in order: type of a run-time one, or the value of a constant, options).
# A type ending in ":16" promises a multiple of 16, as Triton itself finds out at a launch; pointers always promise it.
KERNELS = {
    "liger_softmax": (LIGER + "softmax", "_softmax_single_block_forward_kernel",
                      dict(Y_ptr=f32, Y_row_stride="i32", X_ptr=f32, X_row_stride="i32", n_cols="i32",
                           BLOCK_SIZE=1024), dict(num_warps=4)),
    "liger_layer_norm": (LIGER + "layer_norm", "_layer_norm_forward_kernel",
                         dict(Y_ptr=bf16, Y_row_stride="i32:16", X_ptr=bf16, X_row_stride="i32:16", W_ptr=bf16,
                              W_row_stride="i32", B_ptr=bf16, B_row_stride="i32", Mean_ptr=f32, Mean_row_stride="i32",
                              RSTD_ptr=f32, RSTD_row_stride="i32", n_cols="i32:16", eps="fp32", BLOCK_SIZE=1024),
                         dict(num_warps=8)),
    "liger_cross_entropy": (LIGER + "cross_entropy", "liger_cross_entropy_kernel",
                            dict(X_ptr=f32, X_stride="i32", Y_ptr=i64, Y_stride="i32", weight_ptr=f32, loss_ptr=f32,
                                 z_loss_ptr=f32, loss_stride="i32", token_accuracy_ptr=f32,
                                 token_accuracy_stride="i32", predicted_tokens_ptr=i64, predicted_tokens_stride="i32",
                                 n_cols="i32", n_non_ignore="fp32", sum_non_ignore_weight="fp32", weight_sum="fp32",
                                 ignore_index="i32", lse_square_scale=0.0, label_smoothing=0.1, reduction="mean",
                                 softcap="fp32", RETURN_Z_LOSS=False, RETURN_TOKEN_ACCURACY=True,
                                 RETURN_PREDICTED_TOKENS=True, BLOCK_SIZE=512, HAS_WEIGHT=False, HAS_SOFTCAPPING=True,
                                 HAS_GRADIENTS=True), dict(num_warps=8)),
    "liger_sparsemax": (LIGER + "sparsemax", "_sparsemax_forward_kernel",
                        dict(x_ptr=f32, x_stride_row="i32", sorted_x_ptr=f32, sorted_x_stride_row="i32", o_ptr=f32,
                             o_stride_row="i32", n_cols="i32", BLOCK_SIZE=512, num_warps=4), dict(num_warps=4)),
    "liger_swiglu": (LIGER + "swiglu", "_swiglu_forward_kernel",
                     dict(a_ptr=f16, b_ptr=f16, c_ptr=f16, stride="i32:16", gate_multiplier="fp32", n_cols=720,
                          BLOCK_SIZE=1024), dict(num_warps=4)),
    "liger_neighborhood_qk": (LIGER + "fused_neighborhood_attention", "_fused_neighborhood_attention_qk_kernel",
                              dict(Q_ptr=bf16, K_ptr=bf16, QK_ptr=f32, mask_ptr=f32, q_batch_stride="i32:16",
                                   q_head_stride="i32:16", q_seq_stride="i32:16", q_dim_stride=1,
                                   k_batch_stride="i32:16", k_head_stride="i32:16", k_seq_stride="i32:16",
                                   k_dim_stride=1, qk_batch_stride="i32:16", qk_head_stride="i32:16",
                                   qk_seq_stride="i32:16", qk_seq2_stride=1, batch_size=1, num_heads=2, seq_len=176,
                                   head_dim=64, scale=0.125, kernel_size=7, dilation=2, BLOCK_SIZE_M=64,
                                   BLOCK_SIZE_N=64, BLOCK_SIZE_K=32, num_stages=2, num_warps=4),
                              dict(num_warps=4, num_stages=2)),
    "liger_moe_histogram": (LIGER + "fused_moe_kernels", "_moe_router_histogram_kernel",
                            dict(topk_indices_ptr=i32, partial_sum_ptr=i32, T="i32", E=12, n_tiles="i32",
                                 TOKENS_PER_TILE=64, K_POW2=4, K=3, E_POW2=16), dict(num_warps=4)),
    "liger_moe_prefix_sum": (LIGER + "fused_moe_kernels", "_moe_router_prefix_sum_kernel",
                             dict(expert_freq_ptr=i32, expert_freq_offs_ptr=i32, expert_tile_offset_ptr=i32, E=12,
                                  partial_sum_ptr=i32, n_tiles="i32", TK="i32", BLOCK_M=128, BLOCK_N=16,
                                  BLOCK_M_TOKEN=16), dict(num_warps=4)),
    "liger_moe_scatter": (LIGER + "fused_moe_kernels", "_moe_router_scatter_kernel",
                          dict(s_scatter_idx_ptr=i32, s_reverse_scatter_idx_ptr=i32, x_gather_idx_ptr=i32,
                               tile_row_start_ptr=i32, tile_expert_ptr=i32, topk_indices_ptr=i32, T="i32",
                               partial_sum_ptr=i32, n_tiles="i32", expert_offs_ptr=i32, expert_tile_offset_ptr=i32,
                               K_POW2=4, K=3, TOKENS_PER_BLOCK=64, BLOCK_M_TOKEN=16), dict(num_warps=4)),
    "conch_silu_and_mul": (CONCH + "activation.silu_and_mul", "_silu_and_mul_kernel",
                           dict(output_ptr=bf16, x_ptr=bf16, output_stride="i32", input_stride="i32", d="i32",
                                cxpr_block_size=256), dict(num_warps=4)),
    "conch_rms_norm": (CONCH + "normalization.rms_norm", "_rms_norm_kernel",
                       dict(output_ptr=f16, x_ptr=f16, residual_ptr=f16, weight_ptr=f16, hidden_size="i32:16",
                            epsilon="fp32", cxpr_block_size=1024, cxpr_use_residual=True), dict(num_warps=4)),
    "conch_fp8_quantize": (CONCH + "quantization.fp8", "_static_scaled_fp8_quant_kernel",
                           dict(output_ptr=fp8, input_ptr=f32, scale_ptr=f32, hidden_size="i32:16",
                                cxpr_hidden_size_padded=512, cxpr_block_size=256, cxpr_is_rocm=False),
                           dict(num_warps=4)),
    "fla_attention": ("fla.ops.attn.parallel", "parallel_attn_fwd_kernel",
                      dict(q=bf16, k=bf16, v=bf16, o=bf16, g_cumsum=None, sink_bias=None, lse=f32, scale="fp32",
                           cu_seqlens=None, chunk_indices=None, T="i32", W=None, B=1, H=2, HQ=4, G=2, K=64, V=64,
                           BT=64, BS=32, BK=64, BV=64, USE_G=False, USE_SINK_BIAS=False, USE_WINDOW=False,
                           IS_VARLEN=False), dict(num_warps=4, num_stages=2)),
}

MATMUL = dict(M="i32", N="i32", K="i32:16", stride_am="i32:16", stride_bk="i32:16", stride_cm="i32:16")


def matmul(element, output, block, b_is_nk, split_k, **options):
    m, n, k = block
    return ("triton_kernels", "matmul_pointers",
            dict(a=element, b=element, c=output, **MATMUL, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, B_IS_NK=b_is_nk,
                 SPLIT_K=split_k), options)


def host_descriptors(**options):
    return ("triton_kernels", "matmul_host_descriptors",
            dict(a_map="tensordesc<bf16[128,64]>", b_map="tensordesc<bf16[128,64]>", c_map="tensordesc<bf16[128,128]>",
                 K="i32:16", BLOCK_M=128, BLOCK_N=128, BLOCK_K=64), options)


KERNELS.update({
    "matmul_bf16": matmul(bf16, bf16, (128, 128, 64), True, 1, num_warps=8, num_stages=3),
    "matmul_f16_4_stages": matmul(f16, f32, (64, 128, 64), False, 1, num_warps=4, num_stages=4),
    "matmul_tf32": matmul(f32, f32, (64, 64, 32), True, 1, num_warps=4, num_stages=3),
    "matmul_fp8": matmul(fp8, f32, (64, 128, 128), True, 1, num_warps=4, num_stages=3),
    "matmul_small_tile": matmul(bf16, f32, (16, 32, 64), False, 1, num_warps=2, num_stages=2),
    "matmul_split_k": matmul(bf16, f32, (64, 64, 64), True, 4, num_warps=4, num_stages=3),
    "matmul_device_descriptors": ("triton_kernels", "matmul_device_descriptors",
                                  dict(a=f16, b=f16, c=f16, M="i32", N="i32:16", K="i32:16", BLOCK_M=128, BLOCK_N=128,
                                       BLOCK_K=64), dict(num_warps=8, num_stages=3)),
    "matmul_host_descriptors": host_descriptors(num_warps=8, num_stages=3),
    "sort_ints": ("triton_kernels", "sort_rows", dict(x=i32, y=i32, COLUMNS=512, DESCENDING=False),
                  dict(num_warps=4)),
    "topk_floats": ("triton_kernels", "topk_rows", dict(x=f32, y=f32, COLUMNS=256, K=16), dict(num_warps=2)),
    "linear_recurrence": ("triton_kernels", "linear_recurrence", dict(a=f32, x=f32, y=f32, length="i32", BLOCK=256),
                          dict(num_warps=4)),
    "histogram": ("triton_kernels", "histogram", dict(x=i32, counts=i32, length="i32", BLOCK=512, BINS=64),
                  dict(num_warps=4)),
    "atomics": ("triton_kernels", "atomics", dict(x=i32, results=i32, length="i32", BLOCK=256), dict(num_warps=4)),
    "random_numbers": ("triton_kernels", "random_numbers", dict(seed="i32", uniform=i32, normal=f32, BLOCK=256),
                       dict(num_warps=4)),
})


def is_type(value):
    return isinstance(value, str) and (value[0] == "*" or value.split(":")[0] in ("i32", "i64", "fp32") or
                                       value.startswith("tensordesc"))


def generate(name):
    module, function_name, parameters, options = KERNELS[name]
    function = getattr(importlib.import_module(module), function_name)
    while not isinstance(function, triton.runtime.JITFunction):  # autotuners and heuristics around it
        function = function.fn
    if list(parameters) != function.arg_names:
        raise SystemExit(f"{name}: the kernel's parameters are {function.arg_names}")
    signature, constants, attributes = {}, {}, {}
    for index, (key, value) in enumerate(parameters.items()):
        if is_type(value):
            signature[key] = value.split(":")[0]
            if value[0] == "*" or value.endswith(":16"):
                attributes[(index,)] = [["tt.divisibility", 16]]
        else:
            signature[key] = "constexpr"
            constants[(index,)] = value
    compiled = triton.compile(ASTSource(function, signature, constants, attributes), target=GPUTarget("cuda", 90, 32),
                              options=options)
    metadata = compiled.metadata
    description = {
        "kernel": metadata.name, "num_warps": metadata.num_warps, "shared_bytes": metadata.shared,
        "global_scratch_bytes": metadata.global_scratch_size, "tensor_maps": metadata.tensordesc_meta or [],
        "parameters": {key: value for key, value in signature.items() if value != "constexpr"}, "from": module,
    }
    (OUT / f"{name}.ptx").write_text(compiled.asm["ptx"])
    (OUT / f"{name}.json").write_text(json.dumps(description, indent=1) + "\n")


with multiprocessing.get_context("fork").Pool() as pool:
    pool.map(generate, sys.argv[3:] or list(KERNELS), chunksize=1)
