"""Training from Python, and what the model that comes of it can do."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import folio

TINY: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 32, "context": 32, "batch_size": 4}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text("".join(folio.stories(100)))
    return path


@pytest.fixture(scope="module")
def run(text: pathlib.Path) -> folio.Run:
    return folio.train(text, preset="stories", max_steps=40, eval_every=20, **TINY)


@pytest.fixture(scope="module")
def model(run: folio.Run) -> folio.Model:
    return folio.load(run, dtype="fp32")


def test_a_run_tells_of_itself(text: pathlib.Path) -> None:
    steps: list[folio.Step] = []
    evaluations: list[folio.Evaluation] = []
    run = folio.train(
        text,
        preset="stories",
        max_steps=20,
        eval_every=10,
        on_step=steps.append,
        on_evaluation=evaluations.append,
        **TINY,
    )
    assert [s.step for s in steps] == list(range(20))
    assert steps[-1].loss < steps[0].loss
    assert [e.step for e in evaluations] == [0, 10, 20]
    assert run.result["step"] == 20 and not run.result["stopped"]
    np.testing.assert_allclose(run.metrics["loss"][:20], [s.loss for s in steps])
    assert "<svg" in run.plot().svg and run.metrics["step"].dtype == np.float64
    again = run.resume(max_steps=30)
    assert again.result["step"] == 30 and len(again.metrics["loss"]) >= 30


def test_progress_is_shown_where_it_is_asked_for(text: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {"preset": "stories", "max_steps": 2, **TINY}
    folio.train(text, progress=False, **settings)
    folio.train(text, **settings)  # nobody looks: this is no terminal
    assert capfd.readouterr() == ("", "")
    folio.train(text, progress=True, **settings)
    shown = capfd.readouterr()
    assert shown.out == "" and "step 2/2  loss " in shown.err


def test_a_lack_of_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError) as caught:
        folio.Trainer(vocab_size=50, n_layer=1, n_head=1, n_embd=1 << 22, n_positions=8, context=8, batch_size=1)
    assert isinstance(caught.value, folio.ResourceError)


@pytest.mark.slow
def test_callbacks_end_a_run(text: pathlib.Path) -> None:
    run = folio.train(
        text, preset="stories", max_steps=1000, on_step=lambda s: s.step < 4, **TINY
    )
    assert run.result["stopped"] and run.result["step"] == 5
    with pytest.raises(ZeroDivisionError):
        folio.train(text, preset="stories", max_steps=1000, on_step=lambda _: 1 / 0, **TINY)


def test_settings_are_named(text: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="max_steps"):
        folio.train(text, max_step=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="n_layer"):
        folio.train(text, n_layer=-1)
    with pytest.raises(folio.Error):
        folio.train("/no/such/text")
    assert any(s["name"] == "train.max_steps" and s["help"] for s in folio.settings())


@pytest.mark.slow
def test_data_of_all_kinds(tmp_path: pathlib.Path) -> None:
    texts = (story for story in folio.stories(60))
    run = folio.train(texts, preset="stories", max_steps=2, **TINY)
    assert run.model.encoding is not None
    data = folio.Dataset.from_texts(list(folio.stories(60)), tmp_path / "data", tokenizer="char")
    assert data.train.dtype == np.uint16 and len(data.held_out) > 100
    assert data.encoding.decode(data.train[:20].tolist())
    folio.train(data, preset="stories", max_steps=2, **TINY)
    ids = folio.Dataset.from_ids(
        np.arange(5000) % 50, tokenizer=data.encoding, directory=tmp_path / "ids"
    )
    run = folio.train(ids, preset="stories", max_steps=2, **TINY)
    assert run.model.config["vocab_size"] == data.encoding.n_vocab
    bare = folio.train(np.arange(5000) % 60, preset="stories", max_steps=2, **TINY)
    assert bare.model.encoding is None and bare.model.config["vocab_size"] == 60
    assert bare.model.logits([1, 2]).shape == (2, 60)
    for wrong in (np.zeros((2, 2), np.int32), np.zeros(5), np.array([-1, 3])):
        with pytest.raises(ValueError, match="ids"):
            folio.Dataset.from_ids(wrong)
    with pytest.raises(ValueError, match="expected a str"):
        folio.Dataset.from_texts([b"bytes"])  # type: ignore[list-item]
    tokenizer = folio.train_tokenizer(_written(tmp_path), vocab_size=300)
    assert tokenizer.decode(tokenizer.encode("One day")) == "One day" and tokenizer.n_vocab <= 300


def _written(directory: pathlib.Path) -> pathlib.Path:
    path = directory / "stories.txt"
    path.write_text("".join(folio.stories(50)))
    return path


@pytest.mark.slow
def test_lora(run: folio.Run, text: pathlib.Path) -> None:
    tuned = folio.train(text, init=run, lora=4, max_steps=4, **TINY)
    assert tuned.result["step"] == 4
    assert tuned.model.generate("One ", max_tokens=5, seed=1).reason == "length"


def test_writing(model: folio.Model) -> None:
    text = model.generate("One day", max_tokens=20, seed=1, temperature=0.8, probabilities=True)
    assert isinstance(text, str) and len(text.ids) == 20 and text.reason == "length"
    assert len(text.log_probabilities) == 20 and max(text.log_probabilities) <= 0
    assert model.generate("One day", max_tokens=20, seed=1, temperature=0.8) == text
    greedy: dict[str, Any] = {"max_tokens": 12, "temperature": 0}
    several = model.generate(["One day", "Mia has"], **greedy)
    assert several == [model.generate(p, **greedy) for p in ("One day", "Mia has")]
    assert len(model.generate("One", n=3, max_tokens=4, seed=5)) == 3
    stopped = model.generate("One day", max_tokens=200, temperature=0, stop=["e"])
    assert "e" not in stopped and stopped.reason in ("stop", "length")
    assert model.encoding is not None
    ids = model.encoding.encode("One day")
    assert model.generate(ids, **greedy) == several[0]
    assert model.generate(np.array(ids, np.uint32), **greedy) == several[0]
    mistaken: list[dict[str, Any]] = [{"temperature": -1}, {"temprature": 1}, {"n": 0}]
    for wrong in mistaken:
        with pytest.raises(ValueError, match="temperature|n:"):
            model.generate("One", **wrong)
    with pytest.raises(folio.Error):
        model.generate([10**9])


def test_streams(model: folio.Model) -> None:
    greedy: dict[str, Any] = {"max_tokens": 30, "temperature": 0}
    whole = model.generate("One day", **greedy)
    stream = model.stream("One day", **greedy)
    assert "".join(stream) == whole == stream.text and stream.text.ids == whole.ids
    with model.stream("One day", **greedy) as stream:
        next(stream)
        next(stream)
    assert stream.text.reason == "cancelled" and list(stream) == []
    assert whole.startswith(stream.text)

    async def written() -> str:
        return "".join([piece async for piece in model.astream("One day", **greedy)])

    assert asyncio.run(written()) == whole


def test_looking_inside(model: folio.Model) -> None:
    assert model.encoding is not None
    ids = model.encoding.encode("One day a fox")
    logits = model.logits(ids)
    assert logits.shape == (len(ids), model.encoding.n_vocab) and logits.dtype == np.float32
    shifted = logits - logits.max(1, keepdims=True)
    chances = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    expected = chances[np.arange(len(ids) - 1), ids[1:]]
    np.testing.assert_allclose(model.score(ids), expected, atol=1e-4)
    assert model.perplexity(ids) == pytest.approx(np.exp(-expected.mean()), rel=1e-4)
    rows = model.embeddings(ids, pooling="all")
    assert rows.shape == (len(ids), 32)
    np.testing.assert_allclose(model.embeddings(ids), rows.mean(0), atol=1e-5)
    assert model.embeddings(["One", "day"]).shape == (2, 32)
    attention = model.attention(ids)
    assert len(attention) == 4
    weights = attention[1, 0]
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    assert np.triu(weights, 1).max() == 0 and "<svg" in attention.plot(layer=0).svg
    np.testing.assert_allclose(model.activations(ids, "final"), rows, atol=1e-5)
    with pytest.raises(ValueError, match="layer"):
        attention[9, 0]


def test_scores(model: folio.Model) -> None:
    assert model.encoding is not None
    ids = model.encoding.encode("One day a fox")
    logits = model.logits(ids)
    score = model.score(ids, top=3)
    for t in range(1, len(ids)):
        order = np.argsort(-logits[t - 1], kind="stable").tolist()
        assert score.ranks[t - 1] == order.index(ids[t]) + 1
        likeliest = [model.encoding.decode([i]) for i in order[:3]]
        assert [token for token, _ in score.likeliest[t - 1]] == likeliest
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    np.testing.assert_allclose(score.entropies, -(chances * np.log(chances)).sum(1)[:-1], rtol=1e-4)
    assert score.tokens == [model.encoding.decode([i]) for i in ids[1:]]
    assert list(score) == score.log_probabilities.tolist() and len(score) == len(ids) - 1
    assert score.perplexity == pytest.approx(np.exp(-np.asarray(score).mean()))
    later = model.score(ids, first=4)
    assert list(later) == list(score)[3:] and later.tokens == score.tokens[3:]
    assert "12 tokens" in repr(score) and "One day a fox" in repr(score)
    assert {"<svg" in score.plot(by=by).svg for by in ("rank", "probability", "entropy")} == {True}
    assert score.plot(by="rank").svg != score.plot(by="entropy").svg
    assert "<svg" in score._repr_html_()
    long = model.score("One day a fox. " * 10)  # beyond the context
    assert len(long) == 149 and np.isfinite(long.log_probabilities).all()


def test_the_lens(model: folio.Model) -> None:
    assert model.encoding is not None
    ids = model.encoding.encode("One day a fox")
    lens = model.lens(ids, positions=[-1, 0, 0], top=2)
    assert lens.positions == [len(ids) - 1, 0] and lens.layers == 3 and len(lens) == 6
    logits = model.logits(ids)
    for position in lens.positions:
        cell = lens[position, lens.layers - 1]
        assert cell.likeliest[0][0] == model.encoding.decode([int(logits[position].argmax())])
        assert cell.rank == 1 and cell.divergence == pytest.approx(0, abs=1e-6)
        assert len(cell.likeliest) == 2 and lens[position, 0].divergence > 0
    with pytest.raises(ValueError, match="position: 3"):
        lens[3, 0]
    assert "2 positions, 3 layers" in repr(lens) and "<svg" in lens._repr_html_()
    assert len(model.lens("ab" * 16).positions) == 32
    assert repr(model.attention("One")) == "<Attention of 'One': 2 layers of 2 heads, 3 tokens>"


@pytest.mark.slow
def test_eval_is_that_of_the_program(model: folio.Model, text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "more.txt").write_text("".join(folio.stories(3, seed=5)))
    words = [sys.executable, "-m", "folio", "eval", "perplexity", "--model", model.path, "--json"]
    words += [str(tmp_path / "more.txt"), str(text), "--stride", "8", "--max-tokens", "9000"]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    found = model.eval([tmp_path / "more.txt", text], stride=8, max_tokens=9000, progress=False)
    assert [t.name for t in found.texts] == [t["file"] for t in told["texts"]]
    for one, expected in zip(found.texts, told["texts"], strict=True):
        for name in ("tokens", "bytes", "perplexity", "bits_per_byte", "word_perplexity"):
            assert getattr(one, name) == pytest.approx(expected[name], rel=1e-12), name
    assert found.tokens == sum(t.tokens for t in found.texts) and float(found) == found.perplexity
    assert found.name == "2 texts" and f"{found.perplexity:.4f} of '2 texts'" in repr(found)
    documents = list(folio.stories(3, seed=5))
    whole = model.eval(iter(documents), progress=False)
    each = [model.score(document) for document in documents]
    assert whole.documents == 3 and whole.tokens == sum(map(len, each))
    data = folio.prepare(text, tmp_path / "data", tokenizer=model.path, progress=False)
    assert model.eval(data, progress=False).tokens == len(data.held_out) - 1


def test_parameters_are_not_copied(model: folio.Model) -> None:
    wte = model.parameters["transformer.wte.weight"]
    assert wte.dtype == np.float32 and not wte.flags.writeable
    again = model.parameters["transformer.wte.weight"]
    assert again.__array_interface__["data"][0] == wte.__array_interface__["data"][0]
    assert sum(p.size for p in model.parameters.values()) == model.parameter_count
    assert np.from_dlpack(wte).shape == wte.shape
    with pytest.raises(KeyError):
        model.parameters["no.such"]


@pytest.mark.slow
def test_files_and_memory(model: folio.Model, run: folio.Run, tmp_path: pathlib.Path) -> None:
    greedy: dict[str, Any] = {"max_tokens": 8, "temperature": 0}
    expected = model.generate("One day", **greedy)
    model.save(tmp_path / "model.gguf", format="gguf")
    model.save(tmp_path / "hf")
    contents = {p.name: p.read_bytes() for p in (tmp_path / "hf").iterdir() if p.is_file()}
    for source in (
        tmp_path / "hf",
        tmp_path / "model.gguf",
        (tmp_path / "model.gguf").read_bytes(),
        contents,
        pickle.loads(pickle.dumps(model)),
    ):
        assert folio.load(source, dtype="fp32").generate("One day", **greedy) == expected
    with pytest.raises(FileNotFoundError):
        folio.load(tmp_path / "nothing")
    for broken in (b"GGUF", b"", {"config.json": b"{"}):
        with pytest.raises(folio.Error):
            folio.load(broken)
    with pytest.raises(TypeError, match="save it"):
        pickle.dumps(folio.load(contents))


@pytest.mark.slow
def test_threads_and_fork(model: folio.Model) -> None:
    greedy: dict[str, Any] = {"max_tokens": 10, "temperature": 0}
    expected = model.generate("One day", **greedy)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(model.generate("One day", **greedy)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
    child = os.fork()
    if child == 0:
        os._exit(0 if model.generate("One day", **greedy) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_trainer(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    sizes: dict[str, Any] = {"preset": "stories", **TINY}
    with folio.Trainer(text, **sizes) as trainer:
        assert trainer.batch_shape[1] == 32
        before = trainer.parameters["transformer.wte.weight"].copy()
        losses = [m.loss for m in trainer.steps(20)]
        assert losses[-1] < losses[0]
        after = trainer.parameters["transformer.wte.weight"]
        assert not np.array_equal(before, after)
        assert np.abs(trainer.gradients["transformer.wte.weight"]).max() > 0
        assert trainer.evaluate() < losses[0]
        trainer.save(tmp_path / "saved")
        expected = trainer.model.generate("One", max_tokens=5, temperature=0)
    assert after.sum() != 0  # lives as long as the view
    assert folio.load(tmp_path / "saved").generate("One", max_tokens=5, temperature=0) == expected
    with folio.Trainer(vocab_size=50, **sizes) as trainer:
        batch = np.arange(np.prod(trainer.batch_shape)).reshape(trainer.batch_shape) % 50
        first = trainer.step(batch)
        assert first.step == 0 and first.gradient_norm is not None and not first.skipped
        for wrong in (batch[:1], batch[:, :5], batch + 50):
            with pytest.raises(ValueError, match="."):
                trainer.step(wrong)
        with pytest.raises(ValueError, match="no data set"):
            trainer.step()


def test_conversations_need_a_template(model: folio.Model) -> None:
    with pytest.raises(ValueError, match="conversation"):
        model.chat("Hi")


def test_a_chat_has_the_defaults_of_the_program(model: folio.Model, tmp_path: pathlib.Path) -> None:
    model.save(tmp_path / "hf")
    (tmp_path / "template").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    conversation = [{"role": "user", "content": "One day"}]

    def check(most: int, sampling: dict[str, Any]) -> None:
        taught = folio.load(tmp_path / "hf", dtype="fp32", chat_template=tmp_path / "template")
        assert taught.encoding is not None
        ids = taught.encoding.encode("One day")
        plain, expected = taught.generate(ids, seed=1), taught.generate(ids, seed=1, max_tokens=most, **sampling)
        assert len(plain.ids) == 256 and len(expected.ids) == most and expected[:256] != plain
        assert taught.chat("One day", seed=1) == expected == taught.chat(conversation, seed=1)
        assert taught.generate(conversation, seed=1) == expected == "".join(taught.stream(conversation, seed=1))
        assert taught.generate("One day", seed=1) == plain
        assert taught.chat("One day", seed=1, defaults="plain") == plain
        assert taught.generate(conversation, seed=1, defaults="plain") == plain
        hot = taught.generate(ids, seed=1, max_tokens=9, **{**sampling, "temperature": 2})
        assert taught.chat("One day", seed=1, max_tokens=9, temperature=2) == hot

    check(512, {"temperature": 0.3, "top_k": 40, "top_p": 0.9, "min_p": 0.05})
    (tmp_path / "hf" / "generation_config.json").write_text('{"temperature": 0.7, "top_k": 2, "do_sample": true}')
    check(512, {"temperature": 0.7, "top_k": 2})
