"""Every public function with arguments that are wrong: errors name the parameter and say what was expected, and show
nothing of what is behind them."""

from __future__ import annotations

import inspect
import os
import pathlib
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import folio

TINY: dict[str, Any] = {"preset": "stories", "n_layer": 1, "n_head": 2, "n_embd": 16, "context": 16, "batch_size": 2}
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
RANKS = {bytes([i]): i for i in range(256)}
INTERNAL = re.compile(
    r"nanobind|std::|_core|folio::|incompatible function|Invoked with|C long|C int|0x[0-9a-f]{6}|\.cc\b|\.h\b|"
    r"NoneType|object is not|has no attribute|not iterable|not subscriptable|positional argument|unhashable"
)
# One of each kind of what nobody means.
WRONG: list[Any] = [
    None, True, 3, -1, 2.5, float("nan"), 2**70, "", "no/such/place", "a" * 300, "d/" * 2500, "\0", "\ud83d", b"bytes", [], [None], [1.5],
    [[1], [2, 3]], ["a\0"], {}, {"a": 1}, {1: 2}, (), object(), np.zeros((2, 2)), np.zeros(0, np.int64),
    np.array(["a"]), np.array([2**40]), np.array(3), np.ma.array([1, 2], mask=[False, True]), [2**70], [-1], [{}], [{"role": "user"}], [{"rol": "user", "content": "a"}],
    [{"role": 1, "content": "a"}], [{"role": "user", "content": None}], [{"role": "nobody", "content": "a"}],
    [{"role": "user", "content": "a", "tool_calls": [1]}], lambda: 1, int, iter([3]), iter(["a", None]),
]  # fmt: skip


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("arguments")
    (home / "text.txt").write_text("".join(folio.stories(40)))
    run = folio.train(home / "text.txt", out=home / "run", max_steps=1, progress=False, **TINY)
    model = folio.load(run, dtype="fp32")
    encoding = model.encoding
    assert encoding is not None
    data = folio.prepare(home / "text.txt", home / "data", tokenizer="char", progress=False)
    return {
        "home": home,
        "text": home / "text.txt",
        "run": run,
        "model": model,
        "encoding": encoding,
        "data": data,
        "trainer": folio.Trainer(data, **TINY),
        "attention": model.attention("One"),
        "lens": model.lens("One"),
        "score": model.score("One"),
    }


Call = Callable[[dict[str, Any], Any], object]
FEW = {"max_tokens": 2, "seed": 1}
# What each parameter of the public API is called with, by its name in messages.
CALLS: dict[str, Call] = {
    "get_encoding name": lambda t, x: folio.get_encoding(x),
    "encoding_for_model model_name": lambda t, x: folio.encoding_for_model(x),
    "encoding_name_for_model model_name": lambda t, x: folio.encoding_name_for_model(x),
    "settings kind": lambda t, x: folio.settings(x),
    "set_threads threads": lambda t, x: folio.set_threads(x),
    "stories count": lambda t, x: next(iter(folio.stories(x)), None),
    "stories seed": lambda t, x: list(folio.stories(1, seed=x)),
    "load source": lambda t, x: folio.load(x),
    "load dtype": lambda t, x: folio.load(t["run"], dtype=x),
    "load tokenizer": lambda t, x: folio.load(t["run"], tokenizer=x),
    "load adapter": lambda t, x: folio.load(t["run"], adapter=x),
    "load chat_template": lambda t, x: folio.load(t["run"], chat_template=x),
    "prepare texts": lambda t, x: folio.prepare(x, tokenizer="char", progress=False),
    "prepare directory": lambda t, x: folio.prepare(t["text"], x, tokenizer="char", progress=False),
    "prepare tokenizer": lambda t, x: folio.prepare(t["text"], tokenizer=x, progress=False),
    "prepare val_fraction": lambda t, x: folio.prepare(t["text"], tokenizer="char", val_fraction=x, progress=False),
    "train_tokenizer texts": lambda t, x: folio.train_tokenizer(x, vocab_size=300, progress=False),
    "train_tokenizer directory": lambda t, x: folio.train_tokenizer(t["text"], x, vocab_size=300, progress=False),
    "train_tokenizer vocab_size": lambda t, x: folio.train_tokenizer(t["text"], vocab_size=x, progress=False),
    "train_tokenizer special_tokens": lambda t, x: folio.train_tokenizer(
        t["text"], vocab_size=300, special_tokens=x, progress=False
    ),
    "Dataset directory": lambda t, x: folio.Dataset(x),
    "from_texts texts": lambda t, x: folio.Dataset.from_texts(x, tokenizer="char", progress=False),
    "from_texts directory": lambda t, x: folio.Dataset.from_texts(["abc"] * 30, x, tokenizer="char", progress=False),
    "from_ids ids": lambda t, x: folio.Dataset.from_ids(x),
    "from_ids held_out": lambda t, x: folio.Dataset.from_ids([1, 2], x),
    "from_ids tokenizer": lambda t, x: folio.Dataset.from_ids([1, 2] * 50, tokenizer=x),
    "from_ids directory": lambda t, x: folio.Dataset.from_ids([1, 2] * 50, directory=x),
    "from_ids val_fraction": lambda t, x: folio.Dataset.from_ids([1, 2] * 50, val_fraction=x),
    "Run out": lambda t, x: folio.Run(x),
    "train data": lambda t, x: folio.train(x, max_steps=1, progress=False, **TINY),
    "train out": lambda t, x: folio.train(t["data"], out=x, max_steps=1, progress=False, **TINY),
    "train init": lambda t, x: folio.train(t["data"], init=x, max_steps=1, progress=False, **TINY),
    "train lora": lambda t, x: folio.train(t["data"], init=t["run"], lora=x, max_steps=1, progress=False),
    "train on_step": lambda t, x: folio.train(t["data"], on_step=x, max_steps=1, progress=False, **TINY),
    "train on_evaluation": lambda t, x: folio.train(t["data"], on_evaluation=x, max_steps=1, progress=False, **TINY),
    "train max_steps": lambda t, x: folio.train(t["data"], progress=False, **{**TINY, "max_steps": x}),
    "train learning_rate": lambda t, x: folio.train(t["data"], learning_rate=x, max_steps=1, progress=False, **TINY),
    "train preset": lambda t, x: folio.train(t["data"], max_steps=1, progress=False, **{**TINY, "preset": x}),
    "train tokenizer": lambda t, x: folio.train(t["text"], tokenizer=x, max_steps=1, progress=False, **TINY),
    "train resume": lambda t, x: folio.train(t["data"], resume=x, max_steps=1, progress=False, **TINY),
    "Trainer data": lambda t, x: folio.Trainer(x, **TINY, vocab_size=50),
    "Trainer init": lambda t, x: folio.Trainer(t["data"], init=x, **TINY),
    "Trainer lora": lambda t, x: folio.Trainer(t["data"], init=t["model"], lora=x),
    "Trainer vocab_size": lambda t, x: folio.Trainer(vocab_size=x, **TINY),
    "Trainer seed": lambda t, x: folio.Trainer(vocab_size=50, seed=x, **TINY),
    "Trainer.step inputs": lambda t, x: t["trainer"].step(x),
    "Trainer.step targets": lambda t, x: t["trainer"].step(np.ones(t["trainer"].batch_shape, int), x),
    "Trainer.evaluate inputs": lambda t, x: t["trainer"].evaluate(x),
    "Trainer.steps count": lambda t, x: next(iter(t["trainer"].steps(x)), None),
    "Trainer.save directory": lambda t, x: t["trainer"].save(x),
    "Trainer.resume directory": lambda t, x: t["trainer"].resume(x),
    "generate prompt": lambda t, x: t["model"].generate(x, **FEW),
    "generate n": lambda t, x: t["model"].generate("One", n=x, **FEW),
    "generate probabilities": lambda t, x: t["model"].generate("One", probabilities=x, **FEW),
    "generate max_tokens": lambda t, x: t["model"].generate("One", max_tokens=x),
    "generate temperature": lambda t, x: t["model"].generate("One", temperature=x, **FEW),
    "generate stop": lambda t, x: t["model"].generate("One", stop=x, **FEW),
    "generate seed": lambda t, x: t["model"].generate("One", seed=x, max_tokens=2),
    "stream prompt": lambda t, x: list(t["model"].stream(x, **FEW)),
    "chat messages": lambda t, x: t["model"].chat(x, **FEW),
    "chat system": lambda t, x: t["model"].chat("Hi", system=x, **FEW),
    "logits text": lambda t, x: t["model"].logits(x),
    "logits first": lambda t, x: t["model"].logits("One", first=x),
    "score text": lambda t, x: t["model"].score(x),
    "score first": lambda t, x: t["model"].score("One", first=x),
    "score top": lambda t, x: t["model"].score("One", top=x),
    "perplexity text": lambda t, x: t["model"].perplexity(x),
    "eval data": lambda t, x: t["model"].eval(x, progress=False),
    "eval context": lambda t, x: t["model"].eval(t["text"], context=x, max_tokens=100, progress=False),
    "eval stride": lambda t, x: t["model"].eval(t["text"], stride=x, max_tokens=100, progress=False),
    "eval max_tokens": lambda t, x: t["model"].eval(t["text"], max_tokens=x, progress=False),
    "eval field": lambda t, x: t["model"].eval(t["text"], field=x, max_tokens=100, progress=False),
    "eval special": lambda t, x: t["model"].eval(t["text"], special=x, max_tokens=100, progress=False),
    "embeddings text": lambda t, x: t["model"].embeddings(x),
    "embeddings pooling": lambda t, x: t["model"].embeddings("One", pooling=x),
    "attention text": lambda t, x: t["model"].attention(x)[0, 0],
    "attention[...] at": lambda t, x: t["attention"][x],
    "attention[...] layer": lambda t, x: t["attention"][x, 0],
    "attention.plot layer": lambda t, x: t["attention"].plot(layer=x),
    "attention.plot head": lambda t, x: t["attention"].plot(head=x),
    "lens text": lambda t, x: t["model"].lens(x),
    "lens positions": lambda t, x: t["model"].lens("One", positions=x),
    "lens top": lambda t, x: t["model"].lens("One", top=x),
    "lens[...] at": lambda t, x: t["lens"][x],
    "lens[...] position": lambda t, x: t["lens"][x, 0],
    "score.plot by": lambda t, x: t["score"].plot(by=x),
    "activations text": lambda t, x: t["model"].activations(x, "mlp"),
    "activations point": lambda t, x: t["model"].activations("One", x),
    "activations layer": lambda t, x: t["model"].activations("One", "mlp", layer=x),
    "Model.save path": lambda t, x: t["model"].save(x),
    "Model.save format": lambda t, x: t["model"].save(t["home"] / "saved", format=x),
    "Model.save dtype": lambda t, x: t["model"].save(t["home"] / "saved", dtype=x),
    "Encoding name": lambda t, x: folio.Encoding(x, pat_str=GPT2, mergeable_ranks=RANKS, special_tokens={}),
    "Encoding pat_str": lambda t, x: folio.Encoding("x", pat_str=x, mergeable_ranks=RANKS, special_tokens={}),
    "Encoding mergeable_ranks": lambda t, x: folio.Encoding("x", pat_str=GPT2, mergeable_ranks=x, special_tokens={}),
    "Encoding special_tokens": lambda t, x: folio.Encoding("x", pat_str=GPT2, mergeable_ranks=RANKS, special_tokens=x),
    "Encoding explicit_n_vocab": lambda t, x: folio.Encoding(
        "x", pat_str=GPT2, mergeable_ranks=RANKS, special_tokens={}, explicit_n_vocab=x
    ),
    "Encoding.open path": lambda t, x: folio.Encoding.open(x),
    "Encoding.save directory": lambda t, x: t["encoding"].save(x),
    "encode text": lambda t, x: t["encoding"].encode(x),
    "encode allowed_special": lambda t, x: t["encoding"].encode("a", allowed_special=x),
    "encode disallowed_special": lambda t, x: t["encoding"].encode("a", disallowed_special=x),
    "encode_ordinary text": lambda t, x: t["encoding"].encode_ordinary(x),
    "encode_to_numpy text": lambda t, x: t["encoding"].encode_to_numpy(x),
    "encode_batch text": lambda t, x: t["encoding"].encode_batch(x),
    "encode_ordinary_batch text": lambda t, x: t["encoding"].encode_ordinary_batch(x),
    "encode_with_unstable text": lambda t, x: t["encoding"].encode_with_unstable(x),
    "encode_single_token text_or_bytes": lambda t, x: t["encoding"].encode_single_token(x),
    "count text": lambda t, x: t["encoding"].count(x),
    "decode tokens": lambda t, x: t["encoding"].decode(x),
    "decode errors": lambda t, x: t["encoding"].decode([0], x),
    "decode_bytes tokens": lambda t, x: t["encoding"].decode_bytes(x),
    "decode_tokens_bytes tokens": lambda t, x: t["encoding"].decode_tokens_bytes(x),
    "decode_single_token_bytes token": lambda t, x: t["encoding"].decode_single_token_bytes(x),
    "decode_with_offsets tokens": lambda t, x: t["encoding"].decode_with_offsets(x),
    "decode_batch batch": lambda t, x: t["encoding"].decode_batch(x),
    "decode_bytes_batch batch": lambda t, x: t["encoding"].decode_bytes_batch(x),
    "is_special_token token": lambda t, x: t["encoding"].is_special_token(x),
}
# What raises as everything of its kind does in Python, by its own word.
PYTHONS_OWN = (LookupError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


@pytest.mark.slow
@pytest.mark.parametrize("called", CALLS)
def test_wrong_arguments(
    called: str, things: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = called.split()[-1]
    refused = 0
    for value in WRONG:
        if callable(value) and name.startswith("on_"):
            continue  # it is called, and says by itself what it does not take
        value = iter([3]) if type(value) is type(iter([])) else value
        try:
            CALLS[called](things, value)
        except (folio.Error, *PYTHONS_OWN) as error:
            text = str(error)
            refused += 1
            assert not INTERNAL.search(text), f"{called} of {value!r}: {text}"
            if isinstance(error, folio.WrongTypeError):
                assert name in text or called.split("[")[0] in text, f"{called} of {value!r}: {text}"
                assert "expected" in text, f"{called} of {value!r}: {text}"
        except Exception as error:
            pytest.fail(f"{called} of {value!r}: {type(error).__name__}: {error}")
    folio.set_threads(os.cpu_count() or 1)
    assert refused > 3, f"{called} takes everything"


def test_the_table_has_all_of_the_api() -> None:
    """Whatever is public and takes something is called above."""
    known = {call.split()[0].split(".")[-1] for call in CALLS} | {"resume", "astream", "close", "plot"}
    for name in folio.__all__:
        thing = getattr(folio, name)
        if inspect.isclass(thing) and issubclass(thing, folio.Error):
            continue
        methods = inspect.getmembers(thing, inspect.isroutine) if inspect.isclass(thing) else [(name, thing)]
        for method, function in methods:
            if not callable(function):  # a cached property, in some versions
                continue
            if method.startswith("_") or getattr(function, "__module__", "") is None:
                continue
            if not (getattr(function, "__module__", None) or "").startswith("folio"):
                continue
            taken = [p for p in inspect.signature(function).parameters if p != "self"]
            assert not taken or method in known, f"{name}.{method} is not in the table"


def test_conversations(things: dict[str, Any]) -> None:
    chat = things["model"].chat
    for messages, told in (
        (None, "messages: None"),
        ([], "messages: an empty list"),
        ([3], r"messages\[0\]: 3"),
        ([{"role": "user"}], r"messages\[0\]: no 'content'.*found 'role'"),
        ([{"role": "user", "content": "a"}, {"content": "b"}], r"messages\[1\]: no 'role'"),
        ([{"role": "user", "content": None}], r"messages\[0\]\['content'\]: None"),
        ([{"role": "user", "content": 3}], r"messages\[0\]\['content'\]: 3"),
        ([{"role": "user", "content": "a", "tool_calls": [{1, 2}]}], "messages: "),
    ):
        with pytest.raises(ValueError, match=told):
            chat(messages)


def test_prompts(things: dict[str, Any]) -> None:
    generate = things["model"].generate
    for prompt, told in (
        (None, "prompt: None"),
        (3, "prompt: 3"),
        ([1, "a"], r"prompt\[1\]: 'a'"),
        (["a", 1], r"prompt\[1\]: 1"),
        (b"a", "prompt: b'a'"),
        ("".encode(), "prompt: b''"),
        ({"role": "user"}, "prompt: of type dict"),
    ):
        with pytest.raises(TypeError, match=told) as caught:
            generate(prompt)
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, folio.Error)
        assert "expected" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, folio.WrongTypeError) and str(again) == str(caught.value)


def test_what_is_not_there_is_a_file_that_is_not_found(things: dict[str, Any], tmp_path: pathlib.Path) -> None:
    none = tmp_path / "none"
    text, model = things["text"], things["model"]
    calls: list[Callable[[], object]] = [
        lambda: folio.load(none),
        lambda: folio.load(things["run"], adapter=none),
        lambda: folio.load(things["run"], tokenizer=none),
        lambda: folio.load(things["run"], chat_template=none),
        lambda: folio.train(none),
        lambda: folio.train([text, none]),
        lambda: folio.train(folio.Dataset(none)),
        lambda: folio.train(text, init=none),
        lambda: folio.train(text, tokenizer=none),
        lambda: folio.train(None, out=none, resume=True),
        lambda: folio.Run(none).resume(),
        lambda: folio.Run(none).model,
        lambda: folio.Run(none).metrics,
        lambda: folio.prepare(none),
        lambda: folio.prepare([text, none]),
        lambda: folio.prepare(text, tokenizer=none),
        lambda: folio.train_tokenizer(none),
        lambda: folio.Dataset(none).train,
        lambda: folio.Dataset(none).encoding,
        lambda: folio.Dataset.from_ids([1, 2, 3], tokenizer=none),
        lambda: folio.Trainer(none, **TINY),
        lambda: folio.Trainer(init=none),
        lambda: folio.Trainer([text, none], **TINY),
        lambda: folio.Trainer(folio.Dataset(none), **TINY),
        lambda: folio.Trainer(text, tokenizer=none, **TINY),
        lambda: folio.Dataset(none).held_out,
        lambda: folio.Dataset.from_texts(["abc"] * 30, tokenizer=none),
        lambda: folio.Dataset.from_texts(["abc"] * 30, chat_template=none),
        lambda: folio.prepare(text, chat_template=none),
        lambda: folio.train(text, chat_template=none),
        lambda: folio.train(text, init=things["run"], init_adapter=none),
        lambda: folio.train(text, init=folio.Run(none)),
        lambda: folio.Run(none).steps,
        lambda: folio.Run(none).plot(),
        lambda: folio.train_tokenizer([text, none]),
        lambda: model.eval(folio.Dataset(none)),
        lambda: model.save(none / "model.gguf", format="gguf"),
        lambda: things["score"].plot().save(none / "score.svg"),
        lambda: things["trainer"].resume(none),
        lambda: folio.Encoding.open(none),
        lambda: model.eval(none),
        lambda: model.eval([text, none]),
    ]
    for i, call in enumerate(calls):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert "none" in str(caught.value), i
    with pytest.raises(folio.UsageError) as typo:
        folio.train(text, tokenizer="gtp2")
    assert not isinstance(typo.value, FileNotFoundError)


def test_places_that_nobody_knows_are_not_named(things: dict[str, Any]) -> None:
    for call, begins in (
        (lambda: folio.train(iter(["a"]), **TINY), "data: too short"),
        (lambda: folio.Dataset.from_texts(["a"]), "texts: too short"),
        (lambda: things["model"].eval(iter(["a"])), "data: nothing to predict"),
        (lambda: folio.load(b"GGUF"), "source is not a valid GGUF file"),
        (lambda: folio.load({"config.json": b"{"}), "source: no model found"),
    ):
        with pytest.raises(folio.InputError, match=f"^{begins}") as caught:
            call()
        assert not isinstance(caught.value, FileNotFoundError)
        assert not re.search("tmp|memory:", str(caught.value))
    with pytest.raises(folio.InputError) as held:  # a path that is there, and short options
        folio.train(np.arange(3), max_steps=1, field="held", **TINY)
    assert not isinstance(held.value, FileNotFoundError) and str(held.value).startswith("data: ")


def test_settings_are_keyword_arguments(things: dict[str, Any]) -> None:
    parameters = inspect.signature(folio.train).parameters
    for keyword, of_type in (("max_steps", int), ("learning_rate", float), ("tokenizer", None)):
        parameter = parameters[keyword]
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert of_type is None or (parameter.annotation is of_type and isinstance(parameter.default, of_type))
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    # Each setting of the program is there, by a name that Python takes, with its help.
    described = {s["name"] for s in folio.settings()} - {"train.init", "lora.rank"}
    assert len(parameters) == len(described) + 8
    assert all(keyword.isidentifier() for keyword in parameters)
    help_of = folio.train.__doc__ or ""
    for setting in folio.settings():
        if setting["name"] in described:
            assert setting["help"] in help_of
    options = inspect.signature(folio.Model.generate).parameters
    assert {"temperature", "top_k", "seed", "stop", "n", "max_tokens"} <= set(options)
    assert "seed" in inspect.signature(folio.Trainer).parameters
    assert "dtype" in inspect.signature(folio.load).parameters
    for function, typo, meant in (
        (folio.train, "max_step", "max_steps"),
        (folio.load, "dtyp", "dtype"),
        (folio.prepare, "tokeniser", "tokenizer"),
    ):
        mistaken: dict[str, Any] = {typo: 1}
        with pytest.raises(ValueError, match=f"did you mean {meant}"):
            function(things["text"], **mistaken)
