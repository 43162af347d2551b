#!/usr/bin/env python3
"""Writes the sources of the FlashInfer modules that the baselines of grouped-query attention load (scripts/build_flashinfer.sh).

  flashinfer_modules.py CSRC FOLDER

CSRC is FlashInfer's own folder of templates and sources. FOLDER gets one folder a module, with the files to compile in it:
what FlashInfer's generator makes for bfloat16, int32 indices, depth 128, no position encoding, no window and no soft cap,
but only for the masks that are wanted. src/gpu/flashinfer.cpp passes the arguments that are listed here.
"""
import pathlib
import sys

import jinja2

COMMON = {
    "dtype_q": "nv_bfloat16", "dtype_kv": "nv_bfloat16", "dtype_o": "nv_bfloat16", "idtype": "int32_t",
    "head_dim_qk": 128, "head_dim_vo": 128, "pos_encoding_mode": "PosEncodingMode::kNone",
    "use_sliding_window": "false", "use_logits_soft_cap": "false", "use_fp16_qk_reduction": "false",
}
ROPE = [("double", "logits_soft_cap"), ("double", "sm_scale"), ("double", "rope_rcp_scale"), ("double", "rope_rcp_theta")]

# Of each module: the templates of its configuration and its kernels, its host code, the variant of attention with the
# arguments that it adds (optional tensors, then numbers), and its mask.
MODULES = {
    "decode": {
        "config": ("batch_decode_customize_config.jinja", "batch_decode_config.inc"),
        "kernels": {"kernel.cu": "batch_decode_kernel_inst.jinja"},
        "host": {"host.cu": ["batch_decode.cu", "batch_decode_jit_binding.cu"]},
        "variant": ("DefaultAttention<false, false, false, false>", "flashinfer/attention/variants.cuh"),
        "tensors": [("float", "maybe_alibi_slopes")],
        "numbers": ROPE,
        "params": "params.",
        "mask": None,
    },
    "decode_tensor_cores": {
        "config": ("batch_prefill_customize_config.jinja", "batch_prefill_config.inc"),
        # Nothing asks it for the kernels without pages, which it then lacks, like tiles that FlashInfer never chooses.
        "kernels": {"paged.cu": "batch_prefill_paged_kernel_inst.jinja"},
        # Two files: a default argument of the one must stay unseen by the other.
        "host": {"host.cu": ["batch_prefill.cu"], "binding.cu": ["batch_prefill_jit_binding.cu"]},
        "variant": ("DefaultAttention<use_custom_mask, false, false, false>", "flashinfer/attention/variants.cuh"),
        "tensors": [("uint8_t", "maybe_custom_mask"), ("int32_t", "maybe_mask_indptr"), ("float", "maybe_alibi_slopes"),
                    ("uint32_t", "maybe_prefix_len_ptr"), ("uint16_t", "maybe_token_pos_in_items_ptr"),
                    ("uint16_t", "maybe_max_item_len_ptr"), ("uint8_t", "maybe_k_cache_sf"), ("uint8_t", "maybe_v_cache_sf")],
        "numbers": ROPE + [("int64_t", "token_pos_in_items_len")],
        "params": "params.",
        "mask": "kNone",
    },
    "prefill": {
        "config": ("batch_prefill_sm90_customize_config.jinja", "batch_prefill_sm90_config.inc"),
        "kernels": {"paged.cu": "batch_prefill_paged_sm90_kernel_inst.jinja",
                    "ragged.cu": "batch_prefill_ragged_sm90_kernel_inst.jinja"},
        "host": {"host.cu": ["batch_prefill_sm90.cu", "batch_prefill_sm90_jit_binding.cu"]},
        "variant": ("DefaultAttention<false>", "flashinfer/attention/hopper/variants.cuh"),
        "tensors": [("uint32_t", "maybe_prefix_len_ptr"), ("uint16_t", "maybe_token_pos_in_items_ptr"),
                    ("uint16_t", "maybe_max_item_len_ptr"), ("float", "maybe_scale_v")],
        "numbers": [("double", "logits_soft_cap"), ("double", "sm_scale"), ("double", "scale_v_scalar"),
                    ("int64_t", "token_pos_in_items_len")],
        "params": "params.additional_params.",
        "mask": "kCausal",
    },
}


def additions(module):
    """The variant's arguments, as members, as parameters, and as assignments of the one to the other."""
    tensors, numbers, to = module["tensors"], module["numbers"], module["params"]
    setters = [f"{to}{name} = {name} ? static_cast<{kind}*>({name}.value().data_ptr()) : nullptr;" for kind, name in tensors]
    setters += [f"{to}{name} = {name};" for _, name in numbers]
    return {
        "additional_params_decl": "".join([f"{kind}* {name};\n" for kind, name in tensors] +
                                          [f"{kind} {name};\n" for kind, name in numbers]),
        "additional_func_params": "".join([f", Optional<ffi::Tensor> {name}" for _, name in tensors] +
                                          [f", {kind} {name}" for kind, name in numbers]),
        "additional_params_setter": " \\\n".join(setters),
    }


def only_mask(mask):
    """The host code chooses among kernels for every mask; those that are not built must not be asked for."""
    if mask is None:
        return ""
    return f"""
#include <flashinfer/utils.cuh>
#undef DISPATCH_MASK_MODE
#define DISPATCH_MASK_MODE(mask_mode, MASK_MODE, ...)              \\
  if (mask_mode != MaskMode::{mask}) {{                             \\
    FLASHINFER_ERROR("this module has no kernels for that mask");  \\
  }} else {{                                                         \\
    constexpr MaskMode MASK_MODE = MaskMode::{mask};                \\
    __VA_ARGS__                                                    \\
  }}
"""


def main(csrc, folder):
    csrc, folder = pathlib.Path(csrc), pathlib.Path(folder)
    for name, module in MODULES.items():
        values = dict(COMMON, **additions(module), mask_mode=f"MaskMode::{module['mask']}")
        values["variant_name"] = module["variant"][0]
        values["variant_decl"] = f"#include <{module['variant'][1]}>"

        def render(template):
            text = (csrc / template).read_text()
            return jinja2.Template(text, undefined=jinja2.StrictUndefined).render(values)

        to = folder / name
        to.mkdir(parents=True, exist_ok=True)
        template, config = module["config"]
        (to / config).write_text(render(template) + only_mask(module["mask"]))
        for file, template in module["kernels"].items():
            (to / file).write_text(render(template))
        # Together where that is possible, as reading the headers takes longer than compiling what follows them.
        for file, sources in module["host"].items():
            (to / file).write_text("".join((csrc / source).read_text() for source in sources))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
