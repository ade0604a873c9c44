#!/usr/bin/env python3
"""Compares folio's float32 products with oneDNN's sgemm, for the layers of GPT-2 (124M) in training.

    apt install libdnnl-dev
    scripts/onednn_rates.py build/release/folio [--threads 2] [--simd AVX2] [--rounds 7] [--products gpt2|small]

Both take turns: a round is one run of `folio bench matmul` and as long a measurement of oneDNN, on whole matrices and
with its own threads. What is printed is of the fastest runs, which a machine that others use disturbs least. folio
itself does not use oneDNN."""

import argparse
import ctypes
import ctypes.util
import json
import mmap
import os
import subprocess
import time


def matrix(rows, columns):
    """Zeros that are looked at as floats, in large pages like those of folio."""
    memory = mmap.mmap(-1, (rows * columns * 4 + (1 << 22)) & ~((1 << 21) - 1))
    memory.madvise(mmap.MADV_HUGEPAGE)
    floats = (ctypes.c_float * (rows * columns)).from_buffer(memory)
    ctypes.memset(floats, 0x3C, rows * columns * 4)  # 0.0115
    return floats


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folio")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--simd", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--products", default="gpt2")
    parser.add_argument("--seconds", default="0.1")
    flags = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = flags.threads
    if flags.simd == "AVX2":
        os.environ["ONEDNN_MAX_CPU_ISA"] = os.environ["DNNL_MAX_CPU_ISA"] = "AVX2"
    sgemm = ctypes.CDLL(ctypes.util.find_library("dnnl")).dnnl_sgemm
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    sgemm.argtypes = [ctypes.c_char, ctypes.c_char, number, number, number, ctypes.c_float, pointer, number, pointer,
                      number, ctypes.c_float, pointer, number]

    def seconds_of(product, N, I, O, arrays):
        x, weight, out = arrays
        call = {"x W": (b"N", b"N", N, O, I, 1.0, x, I, weight, O, 0.0, out, O),
                "d_out W^T": (b"N", b"T", N, I, O, 1.0, out, O, weight, O, 0.0, x, I),
                "x^T d_out": (b"T", b"N", I, O, N, 1.0, x, I, out, O, 0.0, weight, O)}[product]
        sgemm(*call)
        runs = []
        end = time.monotonic() + float(flags.seconds)
        while len(runs) < 3 or time.monotonic() < end:
            begin = time.perf_counter()
            sgemm(*call)
            runs.append(time.perf_counter() - begin)
        return min(runs)

    command = [flags.folio, "bench", "matmul", "--dtype", "fp32", "--products", flags.products, "--threads",
               flags.threads, "--seconds", flags.seconds, "--json"] + (["--simd", flags.simd] if flags.simd else [])
    ours, theirs = {}, {}
    for _ in range(flags.rounds):
        for row in json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["products"]:
            N, I, O = row["N"], row["I"], row["O"]
            key = (row["product"], N, I, O)
            ours.setdefault(key, []).append(row["seconds_min"])
            theirs.setdefault(key, []).append(seconds_of(*key, [matrix(N, I), matrix(I, O), matrix(N, O)]))
    print(f"{'product':<10} {'N':>5} {'I':>5} {'O':>6}   folio  oneDNN  GFLOP/s, folio/oneDNN")
    for key in ours:
        product, N, I, O = key
        rates = [2e-9 * N * I * O / min(times[key]) for times in (ours, theirs)]
        print(f"{product:<10} {N:>5} {I:>5} {O:>6}  {rates[0]:6.1f}  {rates[1]:6.1f}  {rates[0] / rates[1]:.2f}")


if __name__ == "__main__":
    main()
