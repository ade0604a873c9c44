"""folio.Trainer: the data that it takes, and the batches that it refuses."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import folio

TINY: dict[str, Any] = {"preset": "debug"}
IDS = np.arange(2000) % 50


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text("".join(folio.stories(60)))
    return path


def test_data_is_what_train_takes(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    told = (
        IDS.astype(np.uint16),
        folio.Dataset.from_ids(IDS),
        folio.Dataset.from_ids(IDS, directory=tmp_path / "ids"),
        tmp_path / "ids",
    )
    losses = []
    for data in told:
        trainer = folio.Trainer(data, **TINY)
        assert trainer.encoding is None and trainer.config["vocab_size"] == 50
        losses.append((trainer.step().loss, trainer.evaluate()))
        assert trainer.model.logits([1, 2]).shape == (2, 50)
    assert len(set(losses)) == 1
    prepared = folio.prepare(text, tmp_path / "data", tokenizer="char", progress=False)
    known = prepared.encoding.n_vocab
    texts: tuple[Any, ...] = (text, str(text), [text], prepared, tmp_path / "data", iter(folio.stories(60)))
    for data in texts:
        trainer = folio.Trainer(data, **TINY)
        assert trainer.encoding is not None and trainer.config["vocab_size"] == known, data
        trainer.step()
    assert folio.Trainer(IDS, vocab_size=64, **TINY).config["vocab_size"] == 64
    spoken = folio.Trainer(text, tokenizer="bytes", **TINY)
    assert spoken.encoding is not None and spoken.config["vocab_size"] == spoken.encoding.n_vocab > 256
    # Texts of a model that there is have its tokens.
    spoken.save(tmp_path / "saved")
    from_it = folio.Trainer(text, init=tmp_path / "saved", context=8, batch_size=2)
    assert from_it.encoding is not None and from_it.encoding.n_vocab == spoken.encoding.n_vocab
    assert from_it.evaluate() > 0
    with pytest.raises(folio.UsageError, match="vocab_size"):
        folio.Trainer(n_layer=1, n_embd=16, n_head=2)
    with pytest.raises(folio.UsageError, match="some are no ids"):
        folio.Trainer(np.array([-1, 3]), **TINY)


def test_batches_of_other_numbers_are_refused() -> None:
    trainer = folio.Trainer(vocab_size=50, **TINY)
    ones = np.ones(trainer.batch_shape, np.int64)
    wrong = (
        ones * (2**32 + 1),
        ones * (2**31),
        ones * -(2**32 - 1),
        (ones * 1).astype(np.uint64) + np.uint64(2**63),
        ones * 1.7,
        ones * 1.0,
        ones.astype(complex),
        ones.astype(bool),
        ones.astype(object),
        ones.astype(str),
        ones.astype("M8[D]"),
        np.ma.array(ones, mask=ones > 0),
        np.ma.array(ones, mask=np.arange(ones.size).reshape(ones.shape) == 3),
        ones[0],
        np.array(1),
        [[1.5] * ones.shape[1]] * ones.shape[0],
        [[1], [2, 3]],
        "ones",
    )
    before = trainer.parameters["transformer.wte.weight"].copy()
    for batch in wrong:
        value: Any = batch
        for call in (
            lambda: trainer.step(value),
            lambda: trainer.step(ones, value),
            lambda: trainer.evaluate(value),
            lambda: trainer.evaluate(ones, value),
        ):
            with pytest.raises(ValueError, match="inputs|targets") as caught:
                call()
            assert isinstance(caught.value, folio.Error)
    assert np.array_equal(before, trainer.parameters["transformer.wte.weight"])
    losses = {trainer.evaluate(ones.astype(dtype)) for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4")}
    assert losses == {trainer.evaluate(ones.tolist())} == {trainer.evaluate(np.asfortranarray(ones))}
    assert losses == {trainer.evaluate(np.ma.array(ones, mask=False))}


def test_masks_are_refused_wherever_ids_are_taken(text: pathlib.Path) -> None:
    trainer = folio.Trainer(text, **TINY)
    encoding = trainer.encoding
    assert encoding is not None
    model = trainer.model
    some: Any = np.ma.array([1, 2, 3, 4], mask=[False, True, False, False])
    calls: dict[str, Any] = {
        "data": lambda x: folio.train(x, max_steps=1, progress=False, **TINY),
        "Trainer": lambda x: folio.Trainer(x, **TINY),
        "ids": lambda x: folio.Dataset.from_ids(x),
        "held_out": lambda x: folio.Dataset.from_ids([1, 2], x),
        "prompt": lambda x: model.generate(x, max_tokens=1),
        "stream": lambda x: list(model.stream(x, max_tokens=1)),
        "logits": lambda x: model.logits(x),
        "score": lambda x: model.score(x),
        "embeddings": lambda x: model.embeddings(x),
        "attention": lambda x: model.attention(x),
        "lens": lambda x: model.lens(x),
        "positions": lambda x: model.lens("One", positions=x - 1),
        "activations": lambda x: model.activations(x, "mlp"),
        "decode": lambda x: encoding.decode(x),
        "decode_tokens_bytes": lambda x: encoding.decode_tokens_bytes(x),
        "decode_with_offsets": lambda x: encoding.decode_with_offsets(x),
        "decode_batch": lambda x: encoding.decode_batch([x]),
    }
    for name, call in calls.items():
        with pytest.raises(folio.UsageError, match="masked"):
            call(some)
        if name not in ("data", "Trainer", "positions"):
            call(np.ma.array([1, 2, 3, 4], mask=False))


def test_a_closed_trainer_says_so(tmp_path: pathlib.Path) -> None:
    with folio.Trainer(IDS, **TINY) as trainer:
        name = next(iter(trainer.parameters))
    for call in (
        trainer.step,
        trainer.evaluate,
        lambda: trainer.save(tmp_path / "x"),
        lambda: trainer.resume(tmp_path),
        lambda: trainer.model,
        lambda: trainer.parameters[name],
        lambda: next(trainer.steps(3)),
    ):
        with pytest.raises(folio.UsageError, match="closed"):
            call()
