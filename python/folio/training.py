"""Text to a trained model: runs that leave a directory, and steps on batches of one's own."""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _check, _core, _options, _show
from ._errors import UsageError, WrongTypeError, called, there
from ._lazy import lazy
from ._signals import Interrupts
from .encoding import Encoding
from .model import Model, Parameters, documents, load

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Unpack

    from ._settings import PrepareOptions, TokenizerOptions, TrainSettings

__all__ = ["Dataset", "Evaluation", "Run", "Step", "Trainer", "prepare", "stories", "train", "train_tokenizer"]

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Step:
    """The numbers of a training step, counted from 0; losses are in nats per token."""

    step: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    gradient_norm: float | None = None
    skipped: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Losses that were measured before a step, in nats per token."""

    step: int
    train_loss: float
    held_out_loss: float


class Dataset:
    """Tokens to train on, in a directory as nanoGPT has it: ``train.bin``, ``val.bin`` and the
    tokenizer. Made by ``folio.prepare``, ``from_texts`` and ``from_ids``."""

    def __init__(self, directory: Path) -> None:
        self.directory = _check.path("directory", directory)
        self._kept: object = None

    def __fspath__(self) -> str:
        return self.directory

    def __repr__(self) -> str:
        return f"<Dataset {self.directory!r}>"

    @classmethod
    def _in(cls, directory: Path | None) -> Dataset:
        """One in a directory, or in one that goes when it is no longer used."""
        if directory is not None:
            return cls(directory)
        kept = tempfile.TemporaryDirectory(prefix="folio-")
        made = cls(os.path.join(kept.name, "data"))
        made._kept = kept
        return made

    @classmethod
    @_options.takes("prepare")
    def from_texts(
        cls,
        texts: Iterable[str],
        directory: Path | None = None,
        *,
        progress: bool | None = None,
        **options: Unpack[PrepareOptions],
    ) -> Dataset:
        """Of documents, which are taken one at a time. Without a directory it is in a temporary
        one, which goes with the object."""
        made = cls._in(directory)
        if isinstance(texts, str | os.PathLike):
            raise _check.wrong("texts", texts, "an iterable of documents")
        with documents("texts", iter(texts) if isinstance(texts, list | tuple) else texts) as (paths, _):
            return _prepare(paths, made, progress, options)

    @classmethod
    def from_ids(
        cls,
        ids: ArrayLike,
        held_out: ArrayLike | None = None,
        *,
        tokenizer: Encoding | Path | None = None,
        directory: Path | None = None,
        val_fraction: float = 0.1,
    ) -> Dataset:
        """Of ids of tokens, one array. Of what is not given as held out, the last tenth is."""
        if not isinstance(val_fraction, int | float) or not 0 <= val_fraction < 1:
            raise _check.wrong("val_fraction", val_fraction, "a number from 0 to less than 1")
        parts = [_ids("ids", ids), *([] if held_out is None else [_ids("held_out", held_out)])]
        encoding = tokenizer
        if tokenizer is not None and not isinstance(tokenizer, Encoding):
            encoding = Encoding.open(_check.path("tokenizer", tokenizer))
        made = cls._in(directory)
        os.makedirs(made.directory, exist_ok=directory is None)
        if held_out is None:
            cut = round(len(parts[0]) * (1 - val_fraction))
            parts = [parts[0][:cut], parts[0][cut:]]
        vocab_size = max(int(part.max(initial=0)) for part in parts) + 1
        if isinstance(encoding, Encoding):
            if vocab_size > encoding.n_vocab:
                raise UsageError(
                    f"ids: {vocab_size - 1}", f"the tokenizer has {encoding.n_vocab} tokens"
                )
            vocab_size = encoding.n_vocab
            encoding.save(made.directory)
        width = np.dtype("<u2" if vocab_size <= 65536 else "<u4")
        for name, part in zip(("train.bin", "val.bin"), parts, strict=True):
            part.astype(width).tofile(os.path.join(made.directory, name))
        core = encoding._core if isinstance(encoding, Encoding) else None
        _core.describe_dataset(made.directory, core, vocab_size, width.itemsize)
        return made

    @property
    def train(self) -> NDArray[Any]:
        """The tokens to train on, where they lie in the file."""
        return self._tokens("train.bin")

    @property
    def held_out(self) -> NDArray[Any]:
        """The tokens that are held out."""
        return self._tokens("val.bin")

    @lazy
    def encoding(self) -> Encoding:
        """The tokenizer that the tokens are of."""
        return Encoding.open(self.directory)

    @property
    def has_encoding(self) -> bool:
        """Whether it has the tokenizer of its tokens: one of ``from_ids`` need not."""
        if self._described:
            return bool(self._described.get("tokenizer_hash"))
        return any(os.path.exists(os.path.join(self.directory, name)) for name in ("tokenizer.json", "meta.pkl"))

    @property
    def vocab_size(self) -> int | None:
        """How many ids there may be; None where only its tokens are there."""
        if "vocab_size" in self._described:
            return int(self._described["vocab_size"])
        return self.encoding.n_vocab if self.has_encoding else None

    @property
    def _described(self) -> dict[str, Any]:
        """What dataset.json says; nothing for a data set of another program."""
        path = os.path.join(self.directory, "dataset.json")
        if not os.path.exists(path):
            return {}
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))

    def _tokens(self, name: str) -> NDArray[Any]:
        path = os.path.join(self.directory, name)
        width = self._described.get("dtype", "uint16")
        return np.memmap(path, dtype=np.dtype(width).newbyteorder("<"), mode="r")


def stories(count: int, *, seed: int = 0) -> Iterator[str]:
    """The built-in corpus: small made-up English stories, the same everywhere, as many as are asked
    for."""
    _check.integer("count", count, 0)
    _check.integer("seed", seed, 0)
    return (_core.story(seed, index) for index in range(count))


def _ids(name: str, ids: ArrayLike) -> NDArray[Any]:
    _check.unmasked(name, ids)
    try:
        array = np.asarray(ids)
    except ValueError:
        raise _check.not_ids(name, ids) from None
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        found = f"{name}: {array.dtype} of shape {array.shape}"
        raise WrongTypeError(found, "expected ids of tokens: integers in one dimension")
    if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int32).max):
        raise UsageError(f"{name}: some are no ids of tokens", "expected 0 to 2147483647")
    return array


def _prepare(
    texts: list[str], made: Dataset, progress: bool | None, options: Mapping[str, object]
) -> Dataset:
    live = _show.Live(progress)
    named = _options.named("prepare", options)
    with there(*texts, options=named):
        _core.prepare(texts, made.directory, named, live.progress)
    live.close()
    return made


@_options.takes("prepare")
def prepare(
    texts: Path | Sequence[Path],
    directory: Path | None = None,
    *,
    progress: bool | None = None,
    **options: Unpack[PrepareOptions],
) -> Dataset:
    """Makes a data set of text files, directories and JSON lines, in bounded memory and on all
    cores. ``tokenizer`` is "char", "bytes", a published one, or a path. Ctrl-C ends it; the same
    call goes on."""
    return _prepare(_check.paths("texts", texts), Dataset._in(directory), progress, options)


@_options.takes("tokenizer")
def train_tokenizer(
    texts: Path | Sequence[Path],
    directory: Path | None = None,
    *,
    progress: bool | None = None,
    **options: Unpack[TokenizerOptions],
) -> Encoding:
    """Makes a byte-level BPE of the documents of texts. With a directory it is saved there, which
    must not be there yet."""
    live = _show.Live(progress, making="making a tokenizer")
    paths = _check.paths("texts", texts)
    named = _options.named("tokenizer", options)
    with tempfile.TemporaryDirectory(prefix="folio-") as scratch:
        out = os.path.join(scratch, "tokenizer") if directory is None else _check.path("directory", directory)
        with there(*paths):
            _core.train_tokenizer(paths, out, named, live.progress)
        live.close()
        return Encoding.open(out)


class Run:
    """A training run: its directory, which is a model for every command and for ``folio.load``."""

    def __init__(self, out: Path, result: Mapping[str, Any] | None = None) -> None:
        self.out = _check.path("out", out)
        self.result = dict(result or {})
        """How it ended: step, tokens, seconds, stopped, train_loss, val_loss, best_val_loss."""
        self._kept: list[object] = []

    def __fspath__(self) -> str:
        return self.out

    def __repr__(self) -> str:
        said = [f"{k} {v}" for k, v in self.result.items() if k in ("step", "val_loss")]
        said += ["stopped"] if self.stopped else []
        return f"<Run {self.out!r}{': ' if said else ''}{', '.join(said)}>"

    @property
    def steps(self) -> int:
        """How many steps were made."""
        if "step" in self.result:
            return int(self.result["step"])
        m = self.metrics  # a line for each step, and one for the evaluation behind the last
        made: list[float] = list(m["step"][np.isfinite(m["loss"])]) if "loss" in m else []
        return int(made[-1]) + 1 if len(made) else 0

    @property
    def stopped(self) -> bool:
        """Whether Ctrl-C or a callback has ended it before its last step: ``resume`` goes on."""
        return bool(self.result.get("stopped")) and not self.result.get("ended_by")

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """What was measured, by name, "step", "loss", "lr", "val_loss" and others: an array each,
        of equal length, with NaN where a step has no such number."""
        rows: list[dict[str, Any]] = []
        with open(os.path.join(self.out, "metrics.jsonl"), encoding="utf-8") as file:
            for line in file:
                rows.append(json.loads(line))
        names = {k: None for row in rows for k, v in row.items() if isinstance(v, int | float)}
        return {
            name: np.array([row.get(name) if row.get(name) is not None else np.nan for row in rows], dtype=np.float64)
            for name in names
        }

    @lazy
    def model(self) -> Model:
        """The model as it is after the run."""
        return load(self.out)

    def plot(self) -> _show.Figure:
        """The curve of its losses."""
        m = self.metrics
        none = np.full(len(m["step"]), np.nan)
        steps = [(int(s), float(v)) for s, v in zip(m["step"], m.get("loss", none), strict=True) if np.isfinite(v)]
        columns = (m["step"], m.get("train_eval_loss", none), m.get("val_loss", none))
        measured = [(int(s), float(t), float(v)) for s, t, v in zip(*columns, strict=True) if np.isfinite(v)]
        return _show.Figure(_show.loss_curve(steps, measured))

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    @_options.takes("train")
    def resume(
        self,
        *,
        on_step: Callable[[Step], object] | None = None,
        on_evaluation: Callable[[Evaluation], object] | None = None,
        progress: bool | None = None,
        plot: bool | None = None,
        **settings: Unpack[TrainSettings],
    ) -> Run:
        """Goes on from the last checkpoint, with other settings if they are given."""
        settings["resume"] = True
        run = train(
            None,
            out=self.out,
            on_step=on_step,
            on_evaluation=on_evaluation,
            progress=progress,
            plot=plot,
            **settings,
        )
        run._kept += self._kept
        return run


@_options.takes("train")
def train(
    data: Path | Dataset | Sequence[Path] | Iterable[str] | NDArray[np.integer[Any]] | None,
    *,
    out: Path | None = None,
    init: Path | Model | Run | None = None,
    lora: int | None = None,
    on_step: Callable[[Step], object] | None = None,
    on_evaluation: Callable[[Evaluation], object] | None = None,
    progress: bool | None = None,
    plot: bool | None = None,
    **settings: Unpack[TrainSettings],
) -> Run:
    """Trains a model of text and leaves a run directory.

    ``data`` is a file, a directory, several of them, a ``Dataset``, an iterable of documents that
    is no list or tuple, or an array of ids. ``out`` is the run directory; without it there is a
    temporary one, which goes with the run. ``preset`` names settings to begin with; all others are
    keywords: ``max_steps=200``, ``n_layer=4``. ``init`` is a model to begin with, and ``lora`` the
    rank of adapters that are trained beside it.

    ``on_step`` and ``on_evaluation`` are called with a ``Step`` and an ``Evaluation``; False ends
    the run, and so does an exception, which is raised when the run is saved. ``progress`` shows a
    line, in terminals and notebooks if it is None, and ``plot`` a curve in notebooks.

    Ctrl-C ends training with a checkpoint and returns the run as far as it came: ``run.stopped`` is
    True, ``run.resume()`` goes on. A second Ctrl-C raises KeyboardInterrupt, and so does one while
    data is prepared, before there is a run. ``folio.train(None, out=run, resume=True)`` goes on.
    """
    _check.function("on_step", on_step)
    _check.function("on_evaluation", on_evaluation)
    kept: list[object] = []
    if out is None:
        scratch = tempfile.TemporaryDirectory(prefix="folio-")
        kept.append(scratch)
        out = os.path.join(scratch.name, "run")
    directory = _check.path("out", out)
    values: dict[str, Any] = dict(settings)
    if init is not None:
        values["train.init"] = _model_path("init", init)
        kept.append(init)
    if lora is not None:
        values["lora.rank"] = _check.integer("lora", lora, 1)
    place = "(?!)"  # of data that only this call has
    if data is None:
        if not values.get("resume"):
            raise _check.wrong("data", data, "texts, a Dataset, or ids; None only with resume=True")
        paths: list[str] = []
    elif isinstance(data, str | os.PathLike | list | tuple):
        paths = _check.paths("data", data)
        kept.append(data)
    else:
        made = _made_of(data, progress, values)
        paths, kept, place = [made.directory], [*kept, made], re.escape(made.directory)
    named = _options.named("train", values)
    steps = next((int(v) for k, v in named if k == "train.max_steps" and v.isdigit()), None)
    live = _show.Live(progress, plot, steps)

    interrupts = Interrupts()

    def step(number: int, loss: float, rate: float, speed: float) -> bool:
        live.step(number, loss, rate, speed)
        more = on_step is None or on_step(Step(number, loss, rate, speed)) is not False
        return more and not interrupts.asked

    def evaluation(number: int, train_loss: float, held_out: float) -> bool:
        live.evaluation(number, train_loss, held_out)
        told = Evaluation(number, train_loss, held_out)
        return on_evaluation is None or on_evaluation(told) is not False

    runs = [directory] if data is None else []
    with there(*paths, *runs, options=named), called(place, "data"):
        prepared = _core.Train(paths, directory, named, live.progress)
        with interrupts:
            try:
                result = prepared.run(step, evaluation, lambda: interrupts.asked)
            finally:
                live.close("stopped by Ctrl-C" if interrupts.asked else "")
            run = Run(directory, json.loads(result))
            run._kept = kept
            return run


def _made_of(data: object, progress: bool | None, settings: dict[str, Any]) -> Dataset:
    """The data set of an array of ids, or of documents; takes what is about that out of
    settings."""
    if isinstance(data, np.ndarray):
        return Dataset.from_ids(_ids("data", data))
    with documents("data", data) as (paths, _):
        return _prepare(paths, Dataset._in(None), progress, _about_texts(settings))


def _tokens_of(data: object, model: Model | None, settings: dict[str, Any]) -> Dataset:
    """The data set that a ``Trainer`` draws from; takes what is about texts out of settings."""
    if isinstance(data, np.ndarray):
        return Dataset.from_ids(_ids("data", data))
    if isinstance(data, Dataset):
        paths = [data.directory]
    elif isinstance(data, str | os.PathLike | list | tuple):
        paths = _check.paths("data", data)
    else:
        paths = []
    if len(paths) == 1 and os.path.exists(os.path.join(paths[0], "train.bin")):
        return data if isinstance(data, Dataset) else Dataset(paths[0])
    with tempfile.TemporaryDirectory(prefix="folio-") as scratch:
        if model is not None and model.encoding is not None:
            model.encoding.save(scratch)
            settings["tokenizer"] = scratch
        settings["tokenizer"] = settings.get("tokenizer") or "char"
        if paths:
            return _prepare(paths, Dataset._in(None), None, _about_texts(settings))
        return _made_of(data, None, settings)


def _about_texts(settings: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of ``prepare`` out of settings."""
    about = _options.keywords("prepare").keys() - {"overwrite"}
    return {name: settings.pop(name) for name in list(settings) if name in about}


def _model_path(name: str, model: object) -> str:
    """The path of a model, of a run, or what names one."""
    return _check.path(name, model.path if isinstance(model, Model) else model)


class Trainer:
    """Training step by step, in memory alone: on batches of one's own, or on those that it draws
    from a data set. A context manager, as it may be large: leaving it gives the memory back, once
    no array shows it."""

    @_options.takes("train")
    def __init__(
        self,
        data: Path | Dataset | Sequence[Path] | Iterable[str] | NDArray[np.integer[Any]] | None = None,
        *,
        init: Model | Path | Run | None = None,
        lora: int | None = None,
        **settings: Unpack[TrainSettings],
    ) -> None:
        """``data`` is what ``train`` takes, or None for batches of one's own; texts have the
        tokenizer of ``init``, or ``tokenizer``, or one of their characters."""
        self._data: Dataset | None = None
        self.encoding: Encoding | None = None
        values: dict[str, Any] = dict(settings)
        model = init if isinstance(init, Model) or init is None else load(_model_path("init", init), dtype="fp32")
        if data is not None:
            self._data = _tokens_of(data, model, values)
            if self._data.has_encoding:
                self.encoding = self._data.encoding
            values["vocab_size"] = values.get("vocab_size") or self._data.vocab_size
        if model is not None:
            self.encoding = model.encoding or self.encoding
            values["vocab_size"] = None
        if lora is not None:
            values["lora.rank"] = _check.integer("lora", lora, 1)
        self._closable: _core.Trainer | None = _core.Trainer(
            _options.named("train", values), None if model is None else model._core
        )
        info = json.loads(self._open.info())
        self.config: dict[str, Any] = info["config"]
        self.batch_shape: tuple[int, int] = (info["sequences"], info["context"])
        """Sequences of a batch, and their length."""
        self.sequences_at_a_time: int = info["sequences_at_a_time"]
        names = info["tensors"]
        self.parameters = Parameters(names, lambda name: self._open.tensor(name, False))
        """The parameters as they are now: their numbers change with each step."""
        self.gradients = Parameters(names, lambda name: self._open.tensor(name, True))
        """The gradient of the last step, before clipping; valid until the next one."""
        # A generator for each draw: one that threads share may be locked for ever in a child of fork, and so may
        # a module while it is imported.
        from numpy.random import default_rng

        seed = _check.integer("seed", values.get("seed") or 0, 0)
        self._generators = map(lambda draw: default_rng((seed, draw)), itertools.count())

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self._closable = None

    @property
    def _open(self) -> _core.Trainer:
        if self._closable is None:
            raise UsageError("trainer: closed", "its memory was given back at the end of its with block")
        return self._closable

    def step(self, inputs: ArrayLike | None = None, targets: ArrayLike | None = None) -> Step:
        """Makes a step, with a batch of ``batch_shape``. Targets are the inputs one token later, -1
        where nothing is to be predicted. Without inputs they are drawn from the data set."""
        x, y = self._batch(inputs, targets)
        number, loss, rate, norm, speed, skipped = self._open.step(x, y)
        return Step(number, loss, rate, speed, norm, skipped)

    def steps(self, count: int) -> Iterator[Step]:
        """So many steps on batches from the data set: ``for m in trainer.steps(100)``."""
        return (self.step() for _ in range(_check.integer("count", count, 0)))

    def evaluate(self, inputs: ArrayLike | None = None, targets: ArrayLike | None = None) -> float:
        """The mean loss of a batch, without learning; without inputs of one of held-out data."""
        x, y = self._batch(inputs, targets, held_out=True)
        return self._open.evaluate(x, y)

    def save(self, directory: Path) -> None:
        """Writes the model, which ``folio.load`` opens, and what ``resume`` goes on from."""
        out = _check.path("directory", directory)
        self._open.save(out, self.encoding._core if self.encoding else None)

    def resume(self, directory: Path) -> None:
        """Goes on from what ``save`` wrote."""
        saved = _check.path("directory", directory)
        with there(saved):
            self._open.resume(saved)

    @property
    def model(self) -> Model:
        """The model as it is now, a copy: to write with."""
        return Model(self._open.model(self.encoding._core if self.encoding else None))

    def _batch(
        self, inputs: ArrayLike | None, targets: ArrayLike | None, *, held_out: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        if inputs is None:
            if self._data is None:
                raise UsageError("inputs: none", "this trainer has no data set to draw them from")
            tokens = self._data.held_out if held_out else self._data.train
            count, length = self.batch_shape
            if len(tokens) < length + 1:
                raise UsageError(f"the data has {len(tokens)} tokens", f"expected {length + 1}")
            begins = next(self._generators).integers(0, len(tokens) - length, count)
            rows = np.stack([tokens[b : b + length + 1] for b in begins]).astype(np.int32)
            return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])
        x = _batch_of("inputs", inputs, 0)
        if targets is None:
            y = np.full_like(x, -1)
            y[..., :-1] = x[..., 1:]
        else:
            y = _batch_of("targets", targets, -1)
        return x, y


def _batch_of(name: str, values: ArrayLike, low: int) -> NDArray[np.int32]:
    """Ids as (sequences, context), none of which is another number afterwards."""
    _check.unmasked(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise _check.wrong(name, values, "an array (sequences, context) of integers") from None
    if array.ndim != 2 or array.dtype.kind not in "iu":
        found = f"{name}: {array.dtype} of shape {array.shape}"
        raise WrongTypeError(found, "expected integers of shape (sequences, context)")
    if array.size and (array.min() < low or array.max() > np.iinfo(np.int32).max):
        raise UsageError(f"{name}: some are no ids of tokens", f"expected {low} to 2147483647")
    return np.ascontiguousarray(array, dtype=np.int32)
