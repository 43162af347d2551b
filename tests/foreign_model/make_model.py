#!/usr/bin/env python3
"""Writes a tiny language model with random weights in GGUF: one layer of 32 numbers, a token for each byte.

    make_model.py FILE

Its answers are noise, which is all that a test of a server's protocol needs.
"""
import sys

import gguf
import numpy

WIDTH, HEADS, INNER, CONTEXT = 32, 2, 64, 32768
UNKNOWN, CONTROL, BYTE = 2, 3, 6


def main(path):
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random bytes")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    random = numpy.random.default_rng(1)
    shapes = {"token_embd.weight": (len(tokens), WIDTH), "output.weight": (len(tokens), WIDTH),
              "blk.0.ffn_gate.weight": (INNER, WIDTH), "blk.0.ffn_up.weight": (INNER, WIDTH),
              "blk.0.ffn_down.weight": (WIDTH, INNER)}
    shapes.update({f"blk.0.attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")})
    for name, shape in shapes.items():
        writer.add_tensor(name, random.normal(0, 0.2, shape).astype(numpy.float32))
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, numpy.ones(WIDTH, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(sys.argv[1])
