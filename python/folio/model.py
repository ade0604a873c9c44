"""A model: it writes, and shows what it computes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union, cast, overload

import numpy as np

from . import _core, _options, _show
from ._errors import InputError, NotThereError, UsageError
from .encoding import Encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .training import Run

__all__ = ["Attention", "Model", "Stream", "Text", "load"]

# A text, its ids, or a conversation: messages with "role" and "content", and what else they have.
Prompt = Union[str, Sequence[int], "NDArray[np.integer[Any]]", Sequence[Mapping[str, Any]]]


class Text(str):
    """A text that a model wrote, without the prompt."""

    ids: list[int]
    """The ids that were chosen, those of a stop text too."""
    reason: str
    """Why it ended: "length", "stop", "context" or "cancelled"."""
    log_probabilities: list[float]
    """ln of the probability that the model gave each id; empty unless asked for."""

    @classmethod
    def _of(cls, text: str, ids: list[int], reason: str, probabilities: list[float]) -> Text:
        made = cls(text)
        made.ids, made.reason, made.log_probabilities = ids, reason, probabilities
        return made


class Stream(Iterator[str]):
    """A text while it is written: each piece is a step of the model on the thread that asks for it.
    ``close``, leaving the loop or an exception end the text; ``text`` is what was written."""

    def __init__(self, texts: _core.Texts) -> None:
        self._texts: _core.Texts | None = texts
        self._pieces: list[str] = []
        self._written = ""
        self._end: Text | None = None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        while not self._pieces:
            if self._texts is None:
                raise StopIteration
            try:
                more, pieces, ended = self._texts.step()
            except BaseException:
                self._texts = None
                raise
            self._take(pieces, ended)
            if not more:
                self._texts = None
        piece = self._pieces.pop(0)
        self._written += piece
        return piece

    def _take(self, pieces: list[tuple[int, str]], ended: list[Any]) -> None:
        self._pieces += [piece for _, piece in pieces if piece]
        for _, text, ids, reason, probabilities in ended:
            self._end = Text._of(text, ids, reason, probabilities)

    def close(self) -> None:
        """Ends the text where it is."""
        if self._texts is not None:
            texts, self._texts = self._texts, None
            self._take([], texts.cancel(0)[2])
        self._pieces.clear()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def text(self) -> Text:
        """What was written so far, and when it has ended, how."""
        return self._end or Text._of(self._written, [], "unfinished", [])


class Attention(Mapping[tuple[int, int], "NDArray[np.float32]"]):
    """What each token of a text attends to: ``attention[layer, head]`` is (T, T), a row for each
    query. Computed when asked for. A notebook shows all heads."""

    def __init__(self, model: Model, ids: list[int]) -> None:
        self._model = model
        self.ids = ids
        config = model.config
        self.layers, self.heads = int(config["n_layer"]), int(config["n_head"])
        encoding = model.encoding
        self.tokens = (
            [encoding.decode([i]) for i in ids] if encoding else [str(i) for i in ids]
        )

    def __getitem__(self, at: tuple[int, int]) -> NDArray[np.float32]:
        layer, head = at
        return self._model._core.attention(self.ids, layer, head)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((layer, head) for layer in range(self.layers) for head in range(self.heads))

    def __len__(self) -> int:
        return self.layers * self.heads

    def plot(self, layer: int | None = None, head: int | None = None) -> _show.Figure:
        """A figure of one head, of those of a layer, or of all."""
        wanted = [
            (i, h) for i, h in self if layer in (None, i) and head in (None, h)
        ]
        if not wanted:
            raise UsageError(
                f"layer {layer}, head {head}",
                f"there are {self.layers} layers of {self.heads} heads, from 0",
            )
        maps = [(f"layer {i}, head {h}", self[i, h]) for i, h in wanted]
        columns = 1 if head is not None else min(self.heads, 4)
        return _show.Figure(_core.heatmaps(maps, self.tokens, "attention", columns))

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()


class Parameters(Mapping[str, "NDArray[Any]"]):
    """Parameters by name, as arrays over the model's own memory: nothing is copied, and they
    cannot be written. bfloat16 comes as uint16 (view it by ml_dtypes or torch), blocks of
    quantised numbers as bytes."""

    def __init__(self, names: list[str], get: Any) -> None:
        self._names = names
        self._get = get

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        return cast("NDArray[Any]", self._get(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} parameters>"


class Model:
    """A model that was opened, by ``folio.load``. Any number of threads may use one; calls that
    compute wait for each other, all of folio's threads work for each, and Python's lock is free
    meanwhile."""

    def __init__(self, core: _core.Model, opened_by: tuple[Any, ...] | None = None) -> None:
        self._core = core
        self._opened_by = opened_by
        info = json.loads(core.info())
        self.config: dict[str, Any] = info["config"]
        """What the model is: sizes, and what its layers are made of."""
        self.parameter_count: int = info["parameters"]
        self.dtype: str = info["dtype"]
        """What matrices are kept as: "fp32", "bf16", "q8_0"."""
        self.path: str = info["path"]
        self.parameters = Parameters(info["tensors"], core.parameter)
        tokenizer = core.tokenizer()
        self.encoding: Encoding | None = (
            None if tokenizer is None else Encoding._of(tokenizer, os.path.basename(self.path))
        )

    @property
    def context(self) -> int:
        """The longest text in tokens that the model sees."""
        return self._core.context

    def __repr__(self) -> str:
        sizes = f"{self.config['n_layer']} layers, {self.config['n_embd']} channels"
        return f"<Model {self.path!r}: {self.parameter_count:,} parameters, {sizes}, {self.dtype}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._opened_by is None:
            raise TypeError("a model that is in memory alone cannot be pickled: save it first")
        return _reopen, self._opened_by

    # ---- Writing

    @overload
    def generate(self, prompt: Prompt = ..., *, n: None = ..., **options: Any) -> Text: ...
    @overload
    def generate(self, prompt: Prompt, *, n: int, **options: Any) -> list[Text]: ...
    @overload
    def generate(self, prompt: list[str], *, n: None = ..., **options: Any) -> list[Text]: ...
    @overload
    def generate(self, prompt: list[str], *, n: int, **options: Any) -> list[list[Text]]: ...
    def generate(
        self,
        prompt: Prompt | list[str] = "",
        *,
        n: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[str] | None = None,
        probabilities: bool = False,
        **options: Any,
    ) -> Text | list[Text] | list[list[Text]]:
        """Writes on from a prompt: a text, ids, or a conversation. Several texts, or ``n`` times
        the same, are written together, each as it would be alone. The same seed gives the same
        text. ``folio.settings("generate")`` lists all options. Ctrl-C ends it after the step that
        is being made."""
        values = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "stop": stop,
            **options,
        }
        many = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], str)
        prompts = cast("list[Prompt]", prompt) if many else [cast("Prompt", prompt)]
        times = 1 if n is None else n
        if times < 1:
            raise UsageError(f"n: {n}", "expected 1 or more")
        texts = _core.Texts(self._core, max(1, min(len(prompts) * times, 64)))
        named = _options.named("generate", values)
        for one in prompts:
            asked = self._ids(one)
            for _ in range(times):
                texts.add(asked, named, probabilities)
        written: dict[int, Text] = {}
        more = True
        while more:
            more, _, ended = texts.step()
            for number, text, ids, reason, chances in ended:
                written[number] = Text._of(text, ids, reason, chances)
        rows = [[written[i * times + k] for k in range(times)] for i in range(len(prompts))]
        if n is None:
            return [row[0] for row in rows] if many else rows[0][0]
        return rows if many else rows[0]

    def stream(self, prompt: Prompt = "", *, probabilities: bool = False, **options: Any) -> Stream:
        """The same piece by piece, whole characters only: ``for piece in model.stream("Once")``."""
        texts = _core.Texts(self._core, 1)
        texts.add(self._ids(prompt), _options.named("generate", options), probabilities)
        return Stream(texts)

    async def astream(self, prompt: Prompt = "", **options: Any) -> AsyncIterator[str]:
        """The same for asyncio, whose loop goes on meanwhile."""
        import asyncio

        stream = self.stream(prompt, **options)
        try:
            while (piece := await asyncio.to_thread(next, stream, None)) is not None:
                yield piece
        finally:
            stream.close()

    def chat(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Text:
        """The answer to a conversation, or to one message. Messages have "role" and "content", and
        what else the model's template looks at: "tool_calls", "reasoning_content". ``tools`` are
        those that the model may call, and ``chat_template_kwargs`` variables of the template, such
        as ``{"enable_thinking": False}``; what the template does not look at is an error."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        before = [{"role": "system", "content": system}] if system is not None else []
        asked = self._chat_ids([*before, *messages], tools, chat_template_kwargs)
        return cast("Text", self.generate(asked, **options))

    # ---- Looking inside

    def logits(self, text: Prompt, *, first: int = 0) -> NDArray[np.float32]:
        """Logits of the token behind each of those from ``first`` on: (T - first, V)."""
        return self._core.logits(self._ids(text), first)

    def score(self, text: Prompt, *, first: int = 1) -> NDArray[np.float64]:
        """ln of the probability that the model gives each token behind those before it, from the
        second on: (T - first,)."""
        return self._core.score(self._ids(text), first)

    def perplexity(self, text: Prompt) -> float:
        """How many tokens the model wavers between on average; of a text that fits its context."""
        return math.exp(-float(self.score(text).mean()))

    def embeddings(
        self, text: Prompt | list[str], *, pooling: str = "mean"
    ) -> NDArray[np.float32]:
        """The last layer's normed output: "mean" over the tokens, that of the "last" (C,), or of
        "all" (T, C). Of several texts a row each."""
        if isinstance(text, list) and text and isinstance(text[0], str):
            if pooling == "all":
                raise UsageError("pooling: 'all'", "texts differ in length", "ask for one at a time")
            return np.stack([self._core.embed(self._ids(t), pooling) for t in text])
        return self._core.embed(self._ids(cast("Prompt", text)), pooling)

    def attention(self, text: Prompt) -> Attention:
        """What each token attends to. For a model of float32: ``folio.load(x, dtype="fp32")``."""
        return Attention(self, list(self._ids(text)))

    def activations(self, text: Prompt, point: str, *, layer: int = 0) -> NDArray[np.float32]:
        """What the model computes at a point of a layer, "norm_1", "qkv", "heads", "attention",
        "middle", "norm_2", "up", "activated", "mlp", "output", or once, "embedded", "final": (T,
        its width). For a model of float32."""
        return self._core.inside(self._ids(text), point, layer)

    # ---- Files

    def save(
        self, path: str | os.PathLike[str], *, format: str = "hf", dtype: str = "fp32"
    ) -> None:
        """Writes the model and its tokenizer, as "hf", "gguf" or another format of ``folio
        convert``, with matrices of a dtype. For a model of float32."""
        self._core.save(os.fspath(path), format, dtype)

    def _ids(self, prompt: Prompt) -> Iterable[int]:
        if isinstance(prompt, str):
            try:
                return self._core.prompt(prompt)
            except UnicodeEncodeError:
                return self._core.prompt(prompt.encode("utf-8", "replace").decode())
        if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
            return self._chat_ids(cast("Sequence[Mapping[str, Any]]", prompt))
        return cast("Sequence[int]", prompt)

    def _chat_ids(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        conversation = {
            "messages": [dict(message) for message in messages],
            "tools": None if tools is None else list(tools),
            "chat_template_kwargs": None if variables is None else dict(variables),
        }
        return self._core.chat(json.dumps(conversation))


def load(
    source: str | os.PathLike[str] | bytes | Mapping[str, bytes] | Model | Run,
    *,
    dtype: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    adapter: str | os.PathLike[str] | None = None,
    chat_template: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Model:
    """Opens a model in any format that folio reads: a training run, a directory of Hugging Face's,
    a GGUF file; the bytes of a GGUF file, or those of files by their names. A file is mapped: it
    must stay as it is while the model is open. ``adapter`` is a directory of LoRA's to add, and
    ``chat_template_kwargs`` variables of the chat template for all conversations."""
    if isinstance(source, Model):
        return source
    options = {
        "dtype": dtype,
        "tokenizer": tokenizer,
        "adapter": adapter,
        "chat_template": chat_template,
        "chat_template_kwargs": None
        if chat_template_kwargs is None
        else json.dumps(dict(chat_template_kwargs)),
    }
    named = _options.named("open", options)
    if isinstance(source, bytes | bytearray | memoryview):
        return Model(_core.Model.open_files({"model.gguf": bytes(source)}, "model.gguf", named))
    if isinstance(source, Mapping):
        return Model(_core.Model.open_files({n: bytes(b) for n, b in source.items()}, "", named))
    path = os.fspath(getattr(source, "out", source))
    return _reopen(path, named)


def _reopen(path: str, named: list[tuple[str, str]]) -> Model:
    try:
        return Model(_core.Model.open(path, named), (path, named))
    except InputError as error:
        if not os.path.exists(path):
            raise NotThereError(error.message, error.cause, error.help) from None
        raise
