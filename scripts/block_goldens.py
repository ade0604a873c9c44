#!/usr/bin/env python3
"""Makes tests/fixtures/gguf-blocks/blocks.gguf, random valid blocks of ggml's quantised types, and
blocks.safetensors, the numbers that the Python package gguf (0.19.0) reads from them, bit for bit.

With a build of ggml's library (0.25.3, of llama-cpp-python 0.3.36, is what the committed file is of) it also
makes quantised.gguf: numbers, and the bytes that quantize_row_..._ref makes of them.

usage: scripts/block_goldens.py DIRECTORY [LIBGGML-BASE.SO]"""
import ctypes
import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import quants
from safetensors.numpy import save_file

# Where the binary16 numbers of a block begin, and how many there are.
SCALES = {Q.Q8_0: (0, 1), Q.Q4_0: (0, 1), Q.Q4_1: (0, 2), Q.Q5_0: (0, 1), Q.Q5_1: (0, 2), Q.IQ4_NL: (0, 1),
          Q.Q2_K: (80, 2), Q.Q3_K: (108, 1), Q.Q4_K: (0, 2), Q.Q5_K: (0, 2), Q.Q6_K: (208, 1)}
# Zero, the largest, subnormal and ordinary ones, of both signs; scales and minima take turns.
HALVES = [0x0000, 0x7BFF, 0x8001, 0x3C01, 0x8000, 0xFBFF, 0x03FF, 0xA8F3, 0x83FF, 0x1234]

directory = sys.argv[1]
rng = np.random.default_rng(36)
writer = gguf.GGUFWriter(f"{directory}/blocks.gguf", "none")
expected = {}
for type, (at, count) in SCALES.items():
    block, size = gguf.GGML_QUANT_SIZES[type]
    blocks = 10 if block == 32 else 5
    data = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for i in range(blocks):
        for j in range(count):
            half = HALVES[(i + 3 * j) % len(HALVES)]
            data[i, at + 2 * j : at + 2 * j + 2] = half & 255, half >> 8
    # Two rows of half the blocks each, or one.
    rows = data.reshape(2 if blocks % 2 == 0 else 1, -1)
    writer.add_tensor(type.name, rows, raw_dtype=type)
    expected[type.name] = quants.dequantize(rows, type)
    assert np.isfinite(expected[type.name]).all()
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(expected, f"{directory}/blocks.safetensors")

if len(sys.argv) > 2:
    library = ctypes.CDLL(sys.argv[2], os.RTLD_LAZY)
    # Parts of many sizes, of one sign, zeros, ties, outliers.
    numbers = rng.standard_normal(5 * 256).astype(np.float32)
    numbers[256:512] *= np.repeat(10.0 ** rng.uniform(-6, 2, 16), 16)
    numbers[512:640] = np.abs(numbers[512:640]) + 1
    numbers[640:704] = 0
    numbers[704:768] = -np.abs(numbers[704:768])
    numbers[768:1024] = np.round(numbers[768:1024] * 3) / 4
    numbers[1024:1280:37] *= 30
    writer = gguf.GGUFWriter(f"{directory}/quantised.gguf", "none")
    writer.add_tensor("numbers", numbers)
    for type in [Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q5_K, Q.Q6_K]:
        block, size = gguf.GGML_QUANT_SIZES[type]
        data = np.zeros(len(numbers) // block * size, dtype=np.uint8)
        quantise = library[f"quantize_row_{type.name[0].lower()}{type.name[1:]}_ref"]
        quantise(numbers.ctypes.data_as(ctypes.c_void_p), data.ctypes.data_as(ctypes.c_void_p),
                 ctypes.c_int64(len(numbers)))
        writer.add_tensor(type.name, data, raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
