"""How fast folio is from Python.

    python python/bench.py tokens TEXT [--megabytes 100] [--encoding gpt2] [--json]
    python python/bench.py steps [--steps 400] [--json]

Tokens: folio.Encoding beside the program and other packages, those that are installed.

Each of them turns the same text, repeated up to a size, into a file of uint16 tokens, in a process of its own; the best of
--times counts, from the text in memory to the closed file. The text is read and the tokenizer made before. The program is
timed with its start, reading and the making of the tokenizer.

Steps: training by folio.train, with a callback for each step, beside the program, in turns; seconds that both log.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

# The package that is installed, not its sources, which lie beside this file.
del sys.path[0]

import numpy as np

Encode = Callable[[str], Any]


def _folio(name: str) -> Encode:
    import folio

    return folio.get_encoding(name).encode_to_numpy


def _folio_ids(name: str) -> Encode:
    import folio

    return folio.get_encoding(name).encode_ordinary


def _tiktoken(name: str) -> Encode:
    import tiktoken

    return tiktoken.get_encoding(name).encode_to_numpy


def _tiktoken_batch(name: str) -> Encode:
    """Its threads work on lines apart, whose ids are not always those of the whole."""
    import tiktoken

    encoding = tiktoken.get_encoding(name)
    threads = os.cpu_count() or 1

    def encode(text: str) -> Any:
        lists = encoding.encode_ordinary_batch(text.splitlines(keepends=True), num_threads=threads)
        return np.concatenate([np.asarray(one, dtype=np.uint16) for one in lists])

    return encode


def _tokenizers(name: str) -> Encode:
    import folio
    from tokenizers import Tokenizer

    with tempfile.TemporaryDirectory() as scratch:
        folio.get_encoding(name).save(scratch)
        tokenizer = Tokenizer.from_file(os.path.join(scratch, "tokenizer.json"))

    def encode(text: str) -> Any:
        batch = tokenizer.encode_batch_fast(text.splitlines(keepends=True))
        return np.concatenate([np.asarray(one.ids, dtype=np.uint16) for one in batch])

    return encode


def _gigatoken(name: str) -> Encode:
    import folio
    import gigatoken  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as scratch:
        folio.get_encoding(name).save(scratch)
        tokenizer = gigatoken.Tokenizer(os.path.join(scratch, "tokenizer.json"))
    return lambda text: np.asarray(tokenizer.encode(text))


KINDS: dict[str, Callable[[str], Encode]] = {
    "folio": _folio,
    "folio, a list": _folio_ids,
    "tiktoken": _tiktoken,
    "tiktoken, lines on all threads": _tiktoken_batch,
    "tokenizers, lines on all threads": _tokenizers,
    "gigatoken": _gigatoken,
}


def _text(path: str, megabytes: float) -> str:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return text * max(1, round(megabytes * 1e6 / len(text.encode())))


def _measure(args: argparse.Namespace, kind: str) -> dict[str, Any]:
    """In this process."""
    encode = KINDS[kind](args.encoding)
    text = _text(args.text, args.megabytes)
    text.encode()
    seconds = []
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "tokens.bin")
        for _ in range(args.times):
            begin = time.perf_counter()
            ids = encode(text)
            np.asarray(ids, dtype=np.uint16).tofile(path)
            seconds.append(time.perf_counter() - begin)
        tokens = os.path.getsize(path) // 2
    return {"seconds": min(seconds), "tokens": tokens, "bytes": len(text.encode())}


def _program(args: argparse.Namespace) -> dict[str, Any]:
    """The program by itself, which reads the text from a file: with its start and the tokenizer's."""
    with tempfile.TemporaryDirectory() as scratch:
        text, out = os.path.join(scratch, "text"), os.path.join(scratch, "tokens.bin")
        with open(text, "w", encoding="utf-8") as file:
            file.write(_text(args.text, args.megabytes))
        words = ["tokenizer", "encode", "--tokenizer", args.encoding, "--special", "ordinary"]
        command = [*args.program.split(), *words, "--format", "u16", text, "--out", out]
        seconds = []
        for _ in range(args.times):
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - begin)
        size = os.path.getsize(text)
        return {"seconds": min(seconds), "tokens": os.path.getsize(out) // 2, "bytes": size}


def _steps(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    import folio

    seconds: dict[str, list[float]] = {"folio.train": [], "folio train": []}
    with tempfile.TemporaryDirectory() as scratch:
        text = os.path.join(scratch, "stories.txt")
        with open(text, "w", encoding="utf-8") as file:
            file.writelines(folio.stories(1000))
        for _ in range(args.times):
            run = folio.train(
                text, preset="char-cpu", max_steps=args.steps, eval_every=0, on_step=lambda _: None
            )
            seconds["folio.train"].append(float(run.metrics["seconds"][-1]))
            out = os.path.join(scratch, "run")
            words = ["train", "--data", text, "--preset", "char-cpu", "--set", "train.eval_every=0"]
            rest = ["--max-steps", str(args.steps), "--out", out, "--overwrite"]
            command = [*args.program.split(), *words, *rest]
            subprocess.run(command, check=True, capture_output=True)
            seconds["folio train"].append(float(folio.Run(out).metrics["seconds"][-1]))
    return {
        kind: {"seconds": min(all_), "milliseconds_per_step": 1e3 * min(all_) / args.steps}
        for kind, all_ in seconds.items()
    }


def _tokens(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {"folio tokenizer encode": _program(args)}
    for kind in KINDS:
        words = [sys.executable, __file__, *sys.argv[1:], "--kind", kind]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            results[kind] = json.loads(ran.stdout.splitlines()[-1])
        else:
            said = ran.stderr.strip().splitlines()
            results[kind] = {"skipped": said[-1] if said else "failed"}
    for result in results.values():
        if "seconds" in result:
            result["megabytes_per_second"] = result["bytes"] / 1e6 / result["seconds"]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["tokens", "steps"])
    parser.add_argument("text", nargs="?")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--encoding", default="gpt2")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--program", default=f"{sys.executable} -m folio")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.what == "tokens" and args.text is None:
        parser.error("tokens: name a text")
    if args.kind:
        print(json.dumps(_measure(args, args.kind)))
        return
    results = _steps(args) if args.what == "steps" else _tokens(args)
    if args.json:
        print(json.dumps({"what": args.what, "cores": os.cpu_count(), "results": results}))
        return
    for kind, result in results.items():
        if "skipped" in result:
            print(f"{kind:34} {result['skipped']}")
            continue
        numbers = (f"{value:,.2f} {name.replace('_', ' ')}" for name, value in result.items())
        print(f"{kind:34} {', '.join(numbers)}")


if __name__ == "__main__":
    main()
