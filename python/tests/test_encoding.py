"""folio.Encoding beside what tiktoken promises of the same members."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import folio

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@pytest.fixture(scope="module")
def small() -> folio.Encoding:
    """All bytes, two merges that build on each other, one special token behind a gap."""
    ranks = {bytes([i]): i for i in range(256)} | {b"th": 256, b"the": 257, b" the": 258}
    return folio.Encoding(
        "small", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 260}
    )


def test_made_of_ranks(small: folio.Encoding) -> None:
    assert small.encode("the then") == [257, 258, 110]
    assert small.encode("a the") == [97, 258]
    assert small.n_vocab == 261 and small.eot_token == 260
    assert small.decode([257, 258]) == "the the"
    assert small.encode_single_token("the") == 257
    assert small.encode_single_token(b" the") == 258
    with pytest.raises(KeyError):
        small.encode_single_token("thee")
    for unused in (259, 261, -1, 1 << 40):
        with pytest.raises(KeyError):
            small.decode([unused])
        with pytest.raises(KeyError):
            small.decode_single_token_bytes(unused)


def test_special_tokens(small: folio.Encoding) -> None:
    text = "the<|endoftext|>"
    with pytest.raises(ValueError, match="endoftext"):
        small.encode(text)
    with pytest.raises(ValueError, match="endoftext"):
        small.encode_batch(["fine", text])
    assert small.encode(text, allowed_special="all") == [257, 260]
    assert small.encode(text, allowed_special={"<|endoftext|>"}) == [257, 260]
    plain = small.encode_ordinary(text)
    assert small.encode(text, disallowed_special=()) == plain and 260 not in plain
    assert small.encode(text, disallowed_special={"other"}) == plain
    with pytest.raises(ValueError, match="'he'"):
        small.encode(text, allowed_special="all", disallowed_special={"he"})
    assert small.is_special_token(260) and not small.is_special_token(257)


def test_arrays_batches_and_counts(small: folio.Encoding) -> None:
    texts = ["", "the", "then the", "é" * 50, "a\x00b"]
    lists = [small.encode_ordinary(t) for t in texts]
    assert small.encode_ordinary_batch(texts) == lists == small.encode_batch(texts)
    assert [small.count(t) for t in texts] == [len(ids) for ids in lists]
    array = small.encode_to_numpy(texts[2])
    assert array.dtype == np.uint32 and array.tolist() == lists[2]
    for dtype in (np.uint32, np.int32, np.int64, np.uint16):
        assert small.decode(array.astype(dtype)) == texts[2]
    assert small.decode(iter(lists[2])) == texts[2]
    assert small.decode_batch(lists) == texts
    with pytest.raises(TypeError):
        small.decode(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        small.encode(b"bytes")  # type: ignore[arg-type]


def test_surrogates_and_bytes(small: folio.Encoding) -> None:
    assert small.encode("\ud83d\udc4d") == list("👍".encode())
    assert small.encode("\ud83d") == small.encode("\ufffd")
    assert small.encode_batch(["\ud83d"]) == [small.encode("\ufffd")]
    for bad in (b"\x80", b"the\xff", b"\xe3\x81", b""):
        assert small.decode_bytes(small._encode_bytes(bad)) == bad


def test_mistakes_are_refused() -> None:
    ranks = {bytes([i]): i for i in range(256)}

    def make(**changed: object) -> folio.Encoding:
        given = {"pat_str": GPT2, "mergeable_ranks": ranks, "special_tokens": {}} | changed
        return folio.Encoding("x", **given)  # type: ignore[arg-type]

    for changed in (
        {"pat_str": "a|b"},
        {"mergeable_ranks": {b"a": 0}},
        {"mergeable_ranks": ranks | {b"ab": 5}},
        {"mergeable_ranks": ranks | {b"ab": -1}},
        {"mergeable_ranks": ranks | {b"ab": 1 << 30}},
        {"mergeable_ranks": ranks | {b"": 256}},
        {"mergeable_ranks": ranks | {b"a" * 2000: 256}},
        {"special_tokens": {"<s>": 7}},
        {"special_tokens": {"<s>": 300, "<t>": 300}},
        {"special_tokens": {"": 300}},
        {"explicit_n_vocab": 300},
    ):
        with pytest.raises(folio.Error) as caught:
            make(**changed)
        assert isinstance(caught.value, ValueError), changed


def test_errors_say_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="no encoding 'gtp2'"):
        folio.get_encoding("gtp2")
    with pytest.raises(folio.InputError) as caught:
        folio.Encoding.open(tmp_path)
    assert "no tokenizer found" in str(caught.value) and caught.value.help
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and type(again) is type(caught.value)
    with pytest.raises(KeyError):
        folio.encoding_for_model("no-such-model")


def test_files(small: folio.Encoding, tmp_path: pathlib.Path) -> None:
    small.save(tmp_path / "saved")
    opened = folio.Encoding.open(tmp_path / "saved")
    assert opened.encode("then the") == small.encode("then the")
    assert opened.special_tokens_set == small.special_tokens_set


def test_pickling_and_threads(small: folio.Encoding) -> None:
    text = "then the " * 20000
    expected = small.encode(text)
    again = pickle.loads(pickle.dumps(small))
    assert again.name == "small" and again.encode(text) == expected
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(small.encode(text) == expected))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_fork(small: folio.Encoding) -> None:
    """A child of a process whose threads have worked encodes as its parent does."""
    text = "then the " * 300000  # on all threads
    expected = small.encode_to_numpy(text)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(small.encode_to_numpy(text), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("published")
def test_published() -> None:
    gpt2 = folio.get_encoding("gpt2")
    assert gpt2.encode("hello world") == [31373, 995]
    assert folio.get_encoding("gpt2") is gpt2 is pickle.loads(pickle.dumps(gpt2))
    assert folio.encoding_for_model("gpt-oss-120b").encode(
        "<|start|>today\n  \n", allowed_special="all"
    ) == [200006, 58744, 31835]
    cl100k = folio.encoding_for_model("gpt-4")
    copy = folio.Encoding(
        "copy",
        pat_str=cl100k._pat_str,
        mergeable_ranks=cl100k._mergeable_ranks,
        special_tokens=cl100k._special_tokens,
    )
    text = "We'd ADD 12345 — 我非常 <|fim_prefix|>\r\n  \n" * 50
    assert copy.encode_ordinary(text) == cl100k.encode_ordinary(text)
    stable, rest = gpt2.encode_with_unstable("hello fanta")
    assert stable == [31373] and gpt2.encode(" fantastic") in rest and [277, 4910] in rest


@pytest.mark.usefixtures("published")
def test_the_program() -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "folio", *words], capture_output=True, text=True, check=False
        )

    assert run("--version").stdout.startswith(f"folio {folio.__version__}")
    assert run("tokenizer", "encode", "--tokenizer", "gpt2", "--text", "hello world").stdout.split() == ["31373", "995"]
    assert run("no-such-command").returncode == 2
