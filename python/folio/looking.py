"""What a model shows of itself: figures in notebooks, numbers everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _check, _core, _show
from ._errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from .encoding import Encoding
    from .model import Model

__all__ = ["Attention", "Lens", "LensCell", "Perplexity", "Score"]

Likeliest = list[tuple[str, float]]


def texts_of(encoding: Encoding | None, ids: Sequence[int]) -> list[str]:
    """The text of each id by itself; its number for a model without a tokenizer."""
    return [encoding.decode([i]) if encoding and i < encoding.n_vocab else str(i) for i in ids]


def _likeliest(encoding: Encoding | None, pairs: list[tuple[int, float]]) -> Likeliest:
    return list(zip(texts_of(encoding, [i for i, _ in pairs]), [p for _, p in pairs], strict=True))


def _beginning(tokens: Sequence[str]) -> str:
    text = "".join(tokens)
    return repr(text if len(text) <= 40 else text[:40] + "...")


class Attention(Mapping[tuple[int, int], "NDArray[np.float32]"]):
    """What each token of a text attends to: ``attention[layer, head]`` is (T, T), a row for each
    query. Computed when asked for. A notebook shows all heads."""

    def __init__(self, model: Model, ids: list[int]) -> None:
        self._model = model
        self.ids = ids
        config = model.config
        self.layers, self.heads = int(config["n_layer"]), int(config["n_head"])
        self.tokens = texts_of(model.encoding, ids)

    def __repr__(self) -> str:
        sizes = f"{self.layers} layers of {self.heads} heads, {len(self.ids)} tokens"
        return f"<Attention of {_beginning(self.tokens)}: {sizes}>"

    def __getitem__(self, at: tuple[int, int]) -> NDArray[np.float32]:
        if not isinstance(at, tuple) or len(at) != 2:
            raise _check.wrong("attention[...]", at, "a layer and a head: attention[0, 0]")
        layer = _check.integer("layer", at[0], 0, self.layers - 1)
        head = _check.integer("head", at[1], 0, self.heads - 1)
        return self._model._core.attention(self.ids, layer, head)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((layer, head) for layer in range(self.layers) for head in range(self.heads))

    def __len__(self) -> int:
        return self.layers * self.heads

    def plot(self, layer: int | None = None, head: int | None = None) -> _show.Figure:
        """A figure of one head, of those of a layer, or of all."""
        _check.optional_integer("layer", layer, 0, self.layers - 1)
        _check.optional_integer("head", head, 0, self.heads - 1)
        wanted = [(i, h) for i, h in self if layer in (None, i) and head in (None, h)]
        maps = [(f"layer {i}, head {h}", self[i, h]) for i, h in wanted]
        columns = 1 if head is not None else min(self.heads, 4)
        return _show.Figure(_core.heatmaps(maps, self.tokens, "attention", columns))

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()


@dataclass(frozen=True)
class LensCell:
    """What the model would predict at a position if it ended after so many blocks."""

    likeliest: Likeliest
    """Tokens and their probabilities, the likeliest first."""
    entropy: float
    """Of the prediction, in nats."""
    divergence: float
    """KL(final prediction || this one), in nats."""
    rank: int
    """The place here of the token that is first at the end, from 1."""


class Lens(Mapping[tuple[int, int], LensCell]):
    """The logit lens on a text: ``lens[position, layer]`` is what would be predicted behind a
    token, with layer 0 after the embedding and the last one the model's own prediction. A notebook
    shows the likeliest tokens of all."""

    def __init__(self, model: Model, ids: list[int], positions: list[int], top: int) -> None:
        self._lens = _core.Lens(model._core, ids, positions, top)
        self.ids = ids
        self.tokens = texts_of(model.encoding, ids)
        self.positions = positions
        self.layers = int(model.config["n_layer"]) + 1
        cells = (
            LensCell(_likeliest(model.encoding, pairs), entropy, divergence, rank)
            for pairs, entropy, divergence, rank in self._lens.cells()
        )
        self._cells = {(p, layer): next(cells) for p in positions for layer in range(self.layers)}

    def __repr__(self) -> str:
        sizes = f"{len(self.positions)} positions, {self.layers} layers"
        return f"<Lens on {_beginning(self.tokens)}: {sizes}>"

    def __getitem__(self, at: tuple[int, int]) -> LensCell:
        if not isinstance(at, tuple) or len(at) != 2:
            raise _check.wrong("lens[...]", at, "a position and a layer: lens[0, 0]")
        position = _check.integer("position", at[0], 0, len(self.ids) - 1)
        layer = _check.integer("layer", at[1], 0, self.layers - 1)
        if position not in self.positions:
            raise UsageError(f"position: {position}", f"the lens is on {self.positions}")
        return self._cells[position, layer]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def plot(self) -> _show.Figure:
        """A figure: the likeliest token in each cell, and its probability."""
        return _show.Figure(self._lens.svg())

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()


class Score:
    """How well a model foresaw each token of a text from ``first`` on. Loops and NumPy take it for
    its ``log_probabilities``. A notebook shows the text coloured."""

    def __init__(self, model: Model, ids: list[int], first: int, top: int) -> None:
        self._scores = _core.Scores(model._core, ids, top)
        self._tokens = texts_of(model.encoding, ids)
        self.ids = ids[first:]
        self.tokens = self._tokens[first:]
        rows = self._scores.tokens()[first - 1 :]
        self.log_probabilities: NDArray[np.float64] = np.array([row[0] for row in rows])
        """ln of the probability that the model gave each token."""
        self.ranks: NDArray[np.int64] = np.array([row[1] for row in rows])
        """The place of each token in the prediction, 1 for the likeliest."""
        self.entropies: NDArray[np.float64] = np.array([row[2] for row in rows])
        """Of each prediction, in nats."""
        self.likeliest: list[Likeliest] = [_likeliest(model.encoding, row[3]) for row in rows]
        """The likeliest tokens at each place, with their probabilities."""

    @property
    def nats_per_token(self) -> float:
        """The mean of -ln p."""
        return -float(self.log_probabilities.mean())

    @property
    def perplexity(self) -> float:
        """How many tokens the model wavers between on average."""
        return math.exp(self.nats_per_token)

    def __repr__(self) -> str:
        means = f"{self.nats_per_token:.4f} nats per token, perplexity {self.perplexity:.2f}"
        return f"<Score of {_beginning(self._tokens)}: {len(self)} tokens, {means}>"

    def __len__(self) -> int:
        return len(self.log_probabilities)

    def __iter__(self) -> Iterator[float]:
        return iter(self.log_probabilities.tolist())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        made = self.log_probabilities.astype(dtype or np.float64, copy=False)
        return made.copy() if copy else made

    def plot(self, by: str = "rank") -> _show.Figure:
        """The whole text, a colour for each token, by its "rank", "probability" or "entropy"."""
        return _show.Figure(self._scores.svg(_check.choice("by", by, ("rank", "probability", "entropy"))))

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text, or several. ``float`` of it is the perplexity."""

    name: str
    documents: int
    tokens: int
    """Tokens that were predicted."""
    bytes: int
    """Of those; 0 where they are not known."""
    words: int
    """Of the whole text, between white space; 0 where they are not known."""
    nats: float
    """The sum of -ln p."""
    texts: list[Perplexity] = field(default_factory=list, repr=False)
    """The same of each text, where there are several."""

    @property
    def nats_per_token(self) -> float:
        """The mean of -ln p."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """The exponential of that."""
        return math.exp(self.nats_per_token)

    @property
    def bits_per_byte(self) -> float:
        """NaN where bytes are not known."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.nan

    @property
    def word_perplexity(self) -> float:
        """As lm-evaluation-harness has it; NaN where words are not known."""
        return math.exp(self.nats / self.words) if self.words else math.nan

    def __float__(self) -> float:
        return self.perplexity

    def __repr__(self) -> str:
        means = f"{self.nats_per_token:.4f} nats per token, {self.bits_per_byte:.4f} bits per byte"
        return f"<Perplexity {self.perplexity:.4f} of {self.name!r}: {self.tokens:,} tokens, {means}>"
