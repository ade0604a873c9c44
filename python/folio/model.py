"""A model: it writes, and shows what it computes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union, cast, overload

import numpy as np

from . import _check, _core, _options, _show
from ._errors import UsageError, called, there
from .encoding import Encoding, _without_surrogates
from .looking import Attention, Lens, Perplexity, Score

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._settings import GenerateOptions, OpenOptions
    from .training import Dataset, Run

__all__ = ["Model", "Stream", "Text", "load"]

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
        while True:
            with contextlib.suppress(IndexError):  # of none, also where another thread took it
                piece = self._pieces.pop(0)
                self._written += piece
                return piece
            texts = self._texts
            if texts is None:
                raise StopIteration
            try:
                more, pieces, ended = texts.step()
            except BaseException:
                self._texts = None
                raise
            self._take(pieces, ended)
            if not more:
                self._texts = None

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
    def generate(
        self, prompt: Prompt = ..., *, n: None = ..., probabilities: bool = ..., **options: Unpack[GenerateOptions]
    ) -> Text: ...
    @overload
    def generate(
        self, prompt: Prompt, *, n: int, probabilities: bool = ..., **options: Unpack[GenerateOptions]
    ) -> list[Text]: ...
    @overload
    def generate(
        self, prompt: list[str], *, n: None = ..., probabilities: bool = ..., **options: Unpack[GenerateOptions]
    ) -> list[Text]: ...
    @overload
    def generate(
        self, prompt: list[str], *, n: int, probabilities: bool = ..., **options: Unpack[GenerateOptions]
    ) -> list[list[Text]]: ...
    @_options.takes("generate")
    def generate(
        self,
        prompt: Prompt | list[str] = "",
        *,
        n: int | None = None,
        probabilities: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Text | list[Text] | list[list[Text]]:
        """Writes on from a prompt: a text, ids, or a conversation, which is answered as ``chat``
        does. Several texts, or ``n`` times the same, are written together, each as it would be
        alone. The same seed gives the same text. Ctrl-C ends it after the step that is being
        made."""
        many = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], str)
        prompts = cast("list[Prompt]", prompt) if many else [cast("Prompt", prompt)]
        times = _check.optional_integer("n", n, 1, 1 << 20) or 1
        asked = [self._ids(f"prompt[{i}]" if many else "prompt", one) for i, one in enumerate(prompts)]
        texts = _core.Texts(self._core, min(len(prompts) * times, 64))
        options = _for(prompt, options)
        for one in asked:
            for _ in range(times):
                _add(texts, one, options, probabilities)
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

    @_options.takes("generate")
    def stream(
        self, prompt: Prompt = "", *, probabilities: bool = False, **options: Unpack[GenerateOptions]
    ) -> Stream:
        """The same piece by piece, whole characters only: ``for piece in model.stream("Once")``."""
        asked = self._ids("prompt", prompt)
        texts = _core.Texts(self._core, 1)
        _add(texts, asked, _for(prompt, options), probabilities)
        return Stream(texts)

    @_options.takes("generate")
    async def astream(
        self, prompt: Prompt = "", *, probabilities: bool = False, **options: Unpack[GenerateOptions]
    ) -> AsyncIterator[str]:
        """The same for asyncio, whose loop goes on meanwhile."""
        import asyncio

        stream = self.stream(prompt, probabilities=probabilities, **options)
        try:
            while (piece := await asyncio.to_thread(next, stream, None)) is not None:
                yield piece
        finally:
            stream.close()

    @_options.takes("generate", defaults="chat")
    def chat(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        probabilities: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Text:
        """The answer to a conversation, or to one message. Messages have "role" and "content", and
        what else the model's template looks at: "tool_calls", "reasoning_content". ``tools`` are
        those that the model may call, and ``chat_template_kwargs`` variables of the template, such
        as ``{"enable_thinking": False}``; what the template does not look at is an error.

        Options that are not given are those of ``folio chat``: what the model's files suggest
        (``generation_config.json``), else ``temperature=0.3, top_k=40, top_p=0.9, min_p=0.05``;
        and 512 tokens at most. With ``defaults="plain"`` they are the usual ones below."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        _check.messages("messages", messages)
        before = [] if system is None else [{"role": "system", "content": _check.named("system", system)}]
        asked = self._chat_ids([*before, *messages], tools, chat_template_kwargs)
        return self.generate(asked, probabilities=probabilities, **_answering(options))

    # ---- Looking inside

    def logits(self, text: Prompt, *, first: int = 0) -> NDArray[np.float32]:
        """Logits of the token behind each of those from ``first`` on: (T - first, V)."""
        ids = self._ids("text", text)
        return self._core.logits(ids, _check.integer("first", first, 0, max(len(ids) - 1, 0)))

    def score(self, text: Prompt, *, first: int = 1, top: int = 5) -> Score:
        """How well the model foresees each token of a text, of any length, from its second on, or
        from ``first``; with ``top`` of the likeliest tokens at each place. A text that is longer
        than the context is seen in windows that begin every half of it."""
        ids = self._ids("text", text)
        _check.integer("first", first, 1, max(len(ids) - 1, 1))
        return Score(self, ids, first, _check.integer("top", top, 0, 10**6))

    def perplexity(self, text: Prompt) -> float:
        """How many tokens the model wavers between on average: ``score(text).perplexity``."""
        return self.score(text, top=0).perplexity

    def eval(
        self,
        data: str | os.PathLike[str] | Dataset | Sequence[str | os.PathLike[str]] | Iterable[str],
        *,
        context: int = 0,
        stride: int = 0,
        max_tokens: int = 0,
        field: str = "text",
        special: str = "raise",
        progress: bool | None = None,
    ) -> Perplexity:
        """The perplexity of texts of any length: the numbers of ``folio eval perplexity``.

        ``data`` is a file, a directory, several of them, a ``Dataset`` (whose held-out part is
        read), or an iterable of documents that is no list or tuple. Windows have ``context``
        tokens, the model's own with 0, and begin every ``stride``, with 0 half of that. No more
        than ``max_tokens`` of the texts are read, with 0 all. ``field`` is the member of JSON lines
        that is the text; ``special`` says what special tokens in a text are: "raise", "allow",
        "ordinary"."""
        _check.integer("context", context, 0, self.context)
        _check.integer("stride", stride, 0, context or self.context)
        if _check.integer("max_tokens", max_tokens, 0) == 1:
            raise UsageError("max_tokens: 1", "expected 2 or more, or 0 for all")
        _check.named("field", field)
        _check.choice("special", special, ("raise", "allow", "ordinary"))
        live = _show.Live(progress, making="measuring")
        with documents("data", data) as (paths, name), there(*paths):
            member = "text" if name else field
            rows = self._core.perplexity(
                paths, context, stride, max_tokens, member, special, live.progress
            )
        live.close()
        *texts, total = [Perplexity(name or row[0], *row[1:]) for row in rows]
        all_of = texts[0].name if len(texts) == 1 else f"{len(texts)} texts"
        return replace(total, name=all_of, texts=texts)

    def embeddings(
        self, text: Prompt | list[str], *, pooling: str = "mean"
    ) -> NDArray[np.float32]:
        """The last layer's normed output: "mean" over the tokens, that of the "last" (C,), or of
        "all" (T, C). Of several texts a row each."""
        _check.choice("pooling", pooling, ("mean", "last", "all"))
        if isinstance(text, list) and text and isinstance(text[0], str):
            if pooling == "all":
                raise UsageError("pooling: 'all'", "texts differ in length", "ask for one at a time")
            asked = [self._ids(f"text[{i}]", one) for i, one in enumerate(text)]
            return np.stack([self._core.embed(ids, pooling) for ids in asked])
        return self._core.embed(self._ids("text", cast("Prompt", text)), pooling)

    def attention(self, text: Prompt) -> Attention:
        """What each token attends to. For a model of float32: ``folio.load(x, dtype="fp32")``."""
        return Attention(self, self._ids("text", text))

    def lens(
        self, text: Prompt, *, positions: Sequence[int] | None = None, top: int = 5
    ) -> Lens:
        """What the model would predict after each of its blocks, as if it ended there: the logit
        lens, at the tokens in ``positions``, negative ones from the end; without them at all, of a
        long text the last 32. For a model of float32."""
        _check.integer("top", top, 1, 10**6)
        ids = self._ids("text", text)
        T = len(ids)
        if positions is None:
            chosen = list(range(max(0, T - 32), T))
        elif isinstance(positions, str | bytes | Mapping) or not _check.iterates(positions):
            raise _check.wrong("positions", positions, "a list of integers")
        else:
            _check.unmasked("positions", positions)
            wanted = enumerate(positions)
            found = [_check.integer(f"positions[{i}]", p, -T, T - 1) % T for i, p in wanted]
            chosen = list(dict.fromkeys(found))
        return Lens(self, ids, chosen, top)

    def activations(self, text: Prompt, point: str, *, layer: int = 0) -> NDArray[np.float32]:
        """What the model computes at a point of a layer, "norm_1", "qkv", "heads", "attention",
        "middle", "norm_2", "up", "activated", "mlp", "output", or once, "embedded", "final": (T,
        its width). For a model of float32."""
        _check.named("point", point)
        _check.integer("layer", layer, 0)
        return self._core.inside(self._ids("text", text), point, layer)

    # ---- Files

    def save(
        self, path: str | os.PathLike[str], *, format: str = "hf", dtype: str = "fp32"
    ) -> None:
        """Writes the model and its tokenizer, as "hf", "gguf" or another format of ``folio
        convert``, with matrices of a dtype. For a model of float32."""
        out = _check.path("path", path)
        with there(os.path.dirname(os.path.abspath(out))):
            self._core.save(out, _check.named("format", format), _check.named("dtype", dtype))

    def _ids(self, name: str, prompt: Prompt) -> list[int]:
        """The ids that a prompt is; raises an error of the parameter's for what is none."""
        if isinstance(prompt, str):
            try:
                return self._core.prompt(prompt)
            except UnicodeEncodeError:
                return self._core.prompt(_without_surrogates(prompt))
        if _is_conversation(prompt):
            _check.messages(name, prompt)
            return self._chat_ids(cast("Sequence[Mapping[str, Any]]", prompt))
        _check.unmasked(name, prompt)
        array = isinstance(prompt, np.ndarray) and prompt.ndim == 1 and prompt.dtype.kind in "iu"
        if not array and not isinstance(prompt, list | tuple):
            raise _check.not_ids(name, prompt, "a str, messages, or ")
        if not len(prompt):
            raise UsageError(f"{name}: no tokens", "expected one or more")
        ids = prompt.tolist() if isinstance(prompt, np.ndarray) else list(cast("Sequence[int]", prompt))
        return [_check.integer(f"{name}[{i}]", one, 0, 2**31 - 1) for i, one in enumerate(ids)]

    def _chat_ids(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        parts = [f'"messages": {_check.json_text("messages", list(messages), list, "a list of messages")}']
        if tools is not None:
            parts.append(f'"tools": {_check.json_text("tools", tools, Sequence, "a list of dicts")}')
        if variables is not None:
            text = _check.json_text("chat_template_kwargs", variables, Mapping, "a dict")
            parts.append(f'"chat_template_kwargs": {text}')
        return self._core.chat("{" + ", ".join(parts) + "}")


def _is_conversation(prompt: object) -> bool:
    return isinstance(prompt, Sequence) and any(isinstance(m, Mapping) for m in prompt[:1])


def _answering(options: GenerateOptions) -> GenerateOptions:
    """With the defaults of ``chat``, unless others are asked for."""
    return cast("GenerateOptions", {"defaults": "chat", **options})


def _for(prompt: object, options: GenerateOptions) -> GenerateOptions:
    return _answering(options) if _is_conversation(prompt) else options


def _add(texts: _core.Texts, ids: list[int], options: GenerateOptions, probabilities: bool) -> None:
    if not isinstance(probabilities, bool):
        raise _check.wrong("probabilities", probabilities, "True or False")
    texts.add(ids, _options.named("generate", options), probabilities)


@contextlib.contextmanager
def documents(name: str, data: object) -> Iterator[tuple[list[str], str]]:
    """The paths of data, and what to call it where it is documents of an iterable, which lie in a
    file meanwhile."""
    directory = getattr(data, "directory", None)
    if directory is not None:
        yield [_check.path(name, directory)], ""
        return
    if isinstance(data, str | os.PathLike | list | tuple):
        yield _check.paths(name, data), ""
        return
    if not _check.iterates(data) or isinstance(data, bytes | bytearray | Mapping | np.ndarray):
        raise _check.wrong(name, data, "a path, a list of paths, a Dataset, or an iterable of documents")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for i, text in enumerate(cast("Iterable[object]", data)):
            file.write(json.dumps({"text": _check.text(f"{name}[{i}]", text)}) + "\n")
        file.flush()
        if file.tell() == 0:
            raise UsageError(f"{name}: no documents", "expected one or more")
        with called(re.escape(file.name), name):
            yield [file.name], name


@_options.takes("open")
def load(
    source: str | os.PathLike[str] | bytes | Mapping[str, bytes] | Model | Run,
    *,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[OpenOptions],
) -> Model:
    """Opens a model in any format that folio reads: a training run, a directory of Hugging Face's,
    a GGUF file; the bytes of a GGUF file, or those of files by their names. A file is mapped: it
    must stay as it is while the model is open. ``chat_template_kwargs`` are variables of the chat
    template for all conversations."""
    if isinstance(source, Model):
        return source
    if chat_template_kwargs is not None:
        variables = _check.json_text("chat_template_kwargs", chat_template_kwargs, Mapping, "a dict")
        options = cast("OpenOptions", {**options, "chat_template_kwargs": variables})
    named = _options.named("open", options)
    if isinstance(source, bytes | bytearray | memoryview):
        with called(r"/memory:\d+/model.gguf", "source"):
            return Model(_core.Model.open_files({"model.gguf": bytes(source)}, "model.gguf", named))
    if isinstance(source, Mapping):
        files = _check.mapping("source", source, str, bytes | bytearray | memoryview, "a dict of names and bytes")
        contents = {_check.named("source", n): bytes(b) for n, b in files.items()}
        with called(r"/memory:\d+", "source"):
            return Model(_core.Model.open_files(contents, "", named))
    path = getattr(source, "out", source)
    if not isinstance(path, str | os.PathLike):
        raise _check.wrong("source", source, "a path, a Run, the bytes of a GGUF file, or a dict of files")
    return _reopen(_check.path("source", path), named)


def _reopen(path: str, named: list[tuple[str, str]]) -> Model:
    with there(path, options=named):
        return Model(_core.Model.open(path, named), (path, named))
