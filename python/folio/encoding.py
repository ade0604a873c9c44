"""Text to tokens and back: a drop-in for tiktoken's ``Encoding``, with every member of it."""

from __future__ import annotations

import json
import operator
import os
import threading
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal

from . import _check, _core
from ._errors import InputError, TokenError, UsageError, there
from ._lazy import lazy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
]

Specials = Literal["all"] | Collection[str]


class Encoding:
    """Text to tokens and back.

    Made as tiktoken's is, by ``get_encoding``, or from a file or directory by ``Encoding.open``.
    Never changes, so that any number of threads may use one; works on all processor cores without
    Python's lock; may be pickled, and used in a forked process.
    """

    name: str
    max_token_value: int

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        """A vocabulary whose tokens are merged by rank. ``pat_str`` is one of the patterns that
        published encodings have. Where ``explicit_n_vocab`` is given, the ids must be so many,
        without a gap."""
        ranks_of = "a dict of bytes and their ranks"
        specials_of = "a dict of texts and their ids"
        _check.named("name", name)
        _check.named("pat_str", pat_str)
        _check.mapping("mergeable_ranks", mergeable_ranks, bytes, int, ranks_of)
        _check.mapping("special_tokens", special_tokens, str, int, specials_of)
        for title, ids in (("mergeable_ranks", mergeable_ranks), ("special_tokens", special_tokens)):
            for key, i in ids.items():
                _check.integer(f"{title}[{key!r}]", i, 0, 2**31 - 1)
        for special in special_tokens:
            _check.text("special_tokens", special)
        if _check.optional_integer("explicit_n_vocab", explicit_n_vocab, 1) is not None:
            found = len(mergeable_ranks) + len(special_tokens)
            last = max([*mergeable_ranks.values(), *special_tokens.values()], default=-1)
            if found != explicit_n_vocab or last != explicit_n_vocab - 1:
                raise UsageError(
                    f"explicit_n_vocab: {explicit_n_vocab}",
                    f"there are {found} tokens, the last of id {last}",
                )
        core = _core.Tokenizer.from_ranks(name, pat_str, mergeable_ranks, special_tokens)
        self._begin(core, name)
        self._made_of = (pat_str, mergeable_ranks, special_tokens)

    @classmethod
    def _of(cls, core: _core.Tokenizer, name: str) -> Encoding:
        encoding = cls.__new__(cls)
        encoding._begin(core, name)
        return encoding

    def _begin(self, core: _core.Tokenizer, name: str) -> None:
        info = json.loads(core.info())
        self._core = core
        self.name = name
        self.max_token_value = info["vocab_size"] - 1
        self._end_of_text: int | None = info["end_of_text"]
        self._special_tokens: dict[str, int] = {t["text"]: t["id"] for t in info["special_tokens"]}
        self._special_values = frozenset(self._special_tokens.values())

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Encoding:
        """The tokenizer in a directory or a file: ``tokenizer.json``, ``vocab.json`` and
        ``merges.txt``, a ``.tiktoken`` file, a GGUF file, a training run."""
        spec = _check.path("path", path)
        if os.sep not in spec and os.path.exists(spec):
            spec = os.path.join(".", spec)
        with there(spec):
            return cls._of(_core.Tokenizer.open(spec), os.path.basename(os.path.normpath(spec)))

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes ``tokenizer.json`` and what belongs to it into a directory, which is made if it
        is not there: what Hugging Face's libraries open with the same ids."""
        out = _check.path("directory", directory)
        os.makedirs(out, exist_ok=True)
        self._core.save(out)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # ---- Encoding

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of a text, in which special tokens are text as any other."""
        try:
            return self._core.encode(text, [], False)
        except (UnicodeEncodeError, TypeError):
            return self._core.encode(_without_surrogates(text), [], False)

    def encode(
        self,
        text: str,
        *,
        allowed_special: Specials = frozenset(),
        disallowed_special: Specials = "all",
    ) -> list[int]:
        """The ids of a text. The texts of special tokens become the tokens where they are allowed;
        those that are disallowed, as all others are at first, make it a ValueError; what is left
        is text as any other."""
        allowed, others = self._rule(text, allowed_special, disallowed_special)
        try:
            return self._core.encode(text, allowed, others)
        except (UnicodeEncodeError, TypeError):
            return self._core.encode(_without_surrogates(text), allowed, others)

    def encode_to_numpy(
        self,
        text: str,
        *,
        allowed_special: Specials = frozenset(),
        disallowed_special: Specials = "all",
    ) -> NDArray[np.uint32]:
        """The same as an array, without an object for each id: fit for long texts."""
        allowed, others = self._rule(text, allowed_special, disallowed_special)
        try:
            return self._core.encode_to_numpy(text, allowed, others)
        except (UnicodeEncodeError, TypeError):
            return self._core.encode_to_numpy(_without_surrogates(text), allowed, others)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """``encode_ordinary`` of each text, on folio's threads; ``num_threads`` means nothing."""
        texts = _texts(text)
        try:
            return self._core.encode_batch(texts)
        except UnicodeEncodeError:
            return self._core.encode_batch([_without_surrogates(t) for t in texts])

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Specials = frozenset(),
        disallowed_special: Specials = "all",
    ) -> list[list[int]]:
        """``encode`` of each text, on folio's threads; ``num_threads`` means nothing."""
        texts = _texts(text)
        self._rule("", allowed_special, disallowed_special)
        specials = self._special_tokens
        named = disallowed_special if not isinstance(disallowed_special, str) else ()
        if any(s in t for t in texts for s in (*specials, *named)):
            return [
                self.encode(
                    t, allowed_special=allowed_special, disallowed_special=disallowed_special
                )
                for t in texts
            ]
        return self.encode_ordinary_batch(texts)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of the token with this text, special or not; KeyError if there is none."""
        if isinstance(text_or_bytes, str):
            special = self._special_tokens.get(text_or_bytes)
            if special is not None:
                return special
            text_or_bytes = _without_surrogates(text_or_bytes).encode("utf-8")
        if not isinstance(text_or_bytes, bytes):
            raise _check.wrong("text_or_bytes", text_or_bytes, "a str or bytes")
        found = self._ids.get(text_or_bytes)
        if found is None:
            raise TokenError(f"no token {text_or_bytes!r}", f"{self.name} has none of these bytes")
        return found

    def encode_with_unstable(
        self,
        text: str,
        *,
        allowed_special: Specials = frozenset(),
        disallowed_special: Specials = "all",
    ) -> tuple[list[int], list[list[int]]]:
        """The ids of a text that may go on: those that stay as they are, and the sequences of ids
        that the rest may turn out to be, up to the token that reaches beyond the text."""
        ids = self.encode(
            text, allowed_special=allowed_special, disallowed_special=disallowed_special
        )
        last = self._last_piece(ids)
        stable, rest = ids[: len(ids) - last], self.decode_bytes(ids[len(ids) - last :])
        if not rest:
            return stable, []
        found: set[tuple[int, ...]] = {(i,) for token, i in self._mergeable_ranks.items() if token.startswith(rest)}
        for begin in range(1, len(rest)):
            for token in self._mergeable_ranks:
                if token.startswith(rest[begin:]):
                    found.add(self._covering(rest[:begin] + token, len(rest)))
        # White space at the end may be split otherwise when something follows it.
        shown = rest.decode("utf-8", errors="ignore")
        if shown[-1:].isspace() and rest.endswith(shown[-1].encode()):
            cut = len(rest) - len(shown[-1].encode())
            if cut > 0:
                pieces = (rest[:cut], rest[cut:])
                found.add(tuple(i for p in pieces for i in self._encode_single_piece(p)))
        return stable, [list(ids) for ids in found]

    def count(self, text: str) -> int:
        """How many ids ``encode_ordinary`` gives, without making them."""
        try:
            return self._core.count(text)
        except (UnicodeEncodeError, TypeError):
            return self._core.count(_without_surrogates(text))

    # ---- Decoding

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        """The text of ids. Where their bytes are no UTF-8, ``errors`` says what becomes of them."""
        return self.decode_bytes(tokens).decode("utf-8", errors=_check.named("errors", errors))

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """The bytes of ids; KeyError if one is no token."""
        return self._decoded("tokens", tokens)

    def _decoded(self, name: str, tokens: Iterable[int]) -> bytes:
        if isinstance(tokens, str | bytes | bytearray):
            raise _check.not_ids(name, tokens)
        _check.unmasked(name, tokens)
        try:
            return self._core.decode(tokens)
        except InputError as error:
            raise TokenError(error.message, error.cause, error.help) from None
        except OverflowError:
            raise TokenError(f"{name}: one is no token", f"expected 0 to {self.max_token_value}") from None
        except (TypeError, ValueError):
            raise _check.not_ids(name, tokens) from None

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one id; KeyError if it is no token."""
        return self._token("token", token)

    def _token(self, name: str, token: int) -> bytes:
        if not 0 <= _id(name, token) <= self.max_token_value:
            raise TokenError(f"no token {token}", f"expected 0 to {self.max_token_value}")
        try:
            return self._core.token(int(token))
        except InputError as error:
            raise TokenError(error.message, error.cause, error.help) from None

    def decode_tokens_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each id by itself."""
        ids = enumerate(_several("tokens", tokens, "ids"))
        return [self._token(f"tokens[{i}]", token) for i, token in ids]

    def decode_with_offsets(self, tokens: Iterable[int]) -> tuple[str, list[int]]:
        """The text of ids, which must be UTF-8, and where each begins in it, in characters. A token
        that begins inside a character has that character's place."""
        offsets: list[int] = []
        characters = 0
        parts = self.decode_tokens_bytes(tokens)
        for part in parts:
            begins = sum(byte & 0xC0 != 0x80 for byte in part)
            inside = part[0] & 0xC0 == 0x80
            offsets.append(max(0, characters - inside))
            characters += begins
        return b"".join(parts).decode("utf-8"), offsets

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, errors: str = "replace", num_threads: int = 8
    ) -> list[str]:
        """``decode`` of each; ``num_threads`` means nothing."""
        _check.named("errors", errors)
        return [text.decode("utf-8", errors) for text in self.decode_bytes_batch(batch)]

    def decode_bytes_batch(
        self, batch: Iterable[Iterable[int]], *, num_threads: int = 8
    ) -> list[bytes]:
        """``decode_bytes`` of each; ``num_threads`` means nothing."""
        lists = enumerate(_several("batch", batch, "lists of ids"))
        return [self._decoded(f"batch[{i}]", tokens) for i, tokens in lists]

    # ---- What there is

    def token_byte_values(self) -> list[bytes]:
        """The bytes of all tokens but the special ones, in order of their bytes."""
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The token that stands between texts; KeyError where there is none."""
        if self._end_of_text is None:
            raise TokenError(f"{self.name} has no end of text")
        return self._end_of_text

    @lazy
    def special_tokens_set(self) -> set[str]:
        """The texts of the special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether an id is that of a special token."""
        return _id("token", token) in self._special_values

    @property
    def n_vocab(self) -> int:
        """How many ids there are, with those that are not used."""
        return self.max_token_value + 1

    # ---- What tiktoken has under these names, and programs use

    @lazy
    def _ids(self) -> dict[bytes, int]:
        return {token: i for i, token in enumerate(self._core.tokens()) if token is not None}

    @lazy
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return {t: i for t, i in self._ids.items() if i not in self._special_values}

    @property
    def _pat_str(self) -> str:
        return self._core.pattern()

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """The ids of a text that is not split before it is merged."""
        piece = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        ranks = self._mergeable_ranks
        if piece in ranks:
            return [ranks[piece]]
        parts = [piece[i : i + 1] for i in range(len(piece))]
        none = len(self._ids) + self.n_vocab
        while len(parts) > 1:
            pairs = [ranks.get(a + b, none) for a, b in zip(parts, parts[1:], strict=False)]
            lowest = min(pairs)
            if lowest == none:
                break
            at = pairs.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [ranks[part] for part in parts]

    def _encode_only_native_bpe(self, text: str) -> list[int]:
        return self.encode_ordinary(text)

    def _encode_bytes(self, text: bytes) -> list[int]:
        """The ids of bytes, which need not be UTF-8."""
        try:
            return self.encode_ordinary(text.decode("utf-8"))
        except UnicodeDecodeError as error:
            ids = self.encode_ordinary(text[: error.start].decode("utf-8"))
            last = self._last_piece(ids)
            rest = self.decode_bytes(ids[len(ids) - last :]) + text[error.start :]
            return ids[: len(ids) - last] + self._encode_single_piece(rest)

    def _last_piece(self, ids: list[int]) -> int:
        """How many of the ids of a text may change when it goes on: those of its last piece, and
        all white space before them where they begin with such."""
        specials = [i for i, token in enumerate(ids) if token in self._special_values]
        begin = specials[-1] + 1 if specials else 0
        pieces = self._core.split(self.decode(ids[begin:]))
        if not pieces:
            return 0
        count = len(self._encode_single_piece(pieces[-1]))
        blank = [not self.decode_bytes([i]).strip(b" \n\t") for i in ids]
        while blank[-count] and count < len(ids) and blank[-count - 1]:
            count += 1
        return count

    def _covering(self, possible: bytes, length: int) -> tuple[int, ...]:
        try:
            ids = self.encode_ordinary(possible.decode("utf-8"))
        except UnicodeDecodeError:
            ids = self._encode_single_piece(possible)
        covered: list[int] = []
        while sum(len(self._core.token(i)) for i in covered) < length:
            covered.append(ids[len(covered)])
        return tuple(covered)

    def _rule(
        self, text: str, allowed: Specials, disallowed: Specials
    ) -> tuple[list[str] | None, bool]:
        """What the core is to do with special tokens: those that become tokens (None for all), and
        whether others are an error. Raises for what only this text tells."""
        for name, given in (("allowed_special", allowed), ("disallowed_special", disallowed)):
            several = isinstance(given, frozenset | set | list | tuple)
            known = all(isinstance(s, str) for s in given) if several else isinstance(given, str) and given == "all"
            if not known:
                raise _check.wrong(name, given, '"all" or a set of texts')
        if disallowed == "all":
            if not allowed:
                return [], True
            if allowed == "all":
                return None, False
            return [s for s in allowed if s in self._special_tokens], True
        named = self.special_tokens_set if allowed == "all" else set(allowed)
        for special in set(disallowed) - named:
            if special in text:
                raise UsageError(
                    f"text: {special!r} is not allowed in it",
                    "the text may come from somebody who means something else by it",
                    f"allow it: allowed_special={{{special!r}}}, or let it be text: "
                    "disallowed_special=()",
                )
        if allowed == "all":
            return None, False
        return [s for s in named if s in self._special_tokens], False

    # ---- Pickling

    def __reduce__(self) -> tuple[Any, ...]:
        if _OPENED.get(self.name) is self:
            return get_encoding, (self.name,)
        return _unpickle, (type(self), self.name, self._core.file_contents())


def _unpickle(cls: type[Encoding], name: str, contents: str) -> Encoding:
    return cls._of(_core.Tokenizer.from_contents(contents), name)


def _without_surrogates(text: str) -> str:
    """Two halves of a surrogate pair become the character, one alone U+FFFD."""
    if not isinstance(text, str):
        raise _check.wrong("text", text, "a str")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _id(name: str, token: object) -> int:
    try:
        return operator.index(token)  # type: ignore[arg-type]
    except TypeError:
        raise _check.wrong(name, token, "the id of a token: an integer") from None


def _texts(texts: object) -> list[str]:
    """A list of texts, each a str."""
    found = _several("text", texts, "str")
    for i, text in enumerate(found):
        if not isinstance(text, str):
            raise _check.wrong(f"text[{i}]", text, "a str")
    return found


def _several(name: str, values: Any, of: str) -> list[Any]:
    if isinstance(values, str | bytes) or not _check.iterates(values):
        raise _check.wrong(name, values, f"a list of {of}")
    _check.unmasked(name, values)
    return list(values)


# ---- Published encodings

_NAMES = _core.encoding_names()
_OPENED: dict[str, Encoding] = {}
_LOCK = threading.RLock()


def _forked() -> None:
    """In a child process nobody holds it: threads of the parent are not there."""
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_forked)


def list_encoding_names() -> list[str]:
    """The names that ``get_encoding`` takes."""
    return list(_NAMES)


def get_encoding(name: str) -> Encoding:
    """The encoding that OpenAI published under this name. Its files are fetched once, by
    ``python -m folio tokenizer fetch NAME``; nothing is fetched here. A path is what
    ``Encoding.open`` takes."""
    _check.named("name", name)
    with _LOCK, there(name):
        found = _OPENED.get(name)
        if found is None:
            if name not in _NAMES:
                raise UsageError(
                    f"no encoding {name!r}",
                    f"it is none of {', '.join(_NAMES)}",
                    "open a file or directory by folio.Encoding.open",
                )
            found = Encoding._of(_core.Tokenizer.open(name), name)
            _OPENED[name] = found
        return found


# Which models have which encoding: names, and beginnings of names.
_MODELS = {
    "o200k_harmony": ("", "gpt-oss-*"),
    "o200k_base": ("o1 o3 o4-mini gpt-4.1 gpt-4o gpt-5", "o1-* o3-* o4-mini-* gpt-5* gpt-4.5-* gpt-4.1-* chatgpt-4o-* gpt-4o-* ft:gpt-4o*"),
    "cl100k_base": (
        "gpt-4 gpt-3.5-turbo gpt-3.5 gpt-35-turbo davinci-002 babbage-002 text-embedding-ada-002 "
        "text-embedding-3-small text-embedding-3-large",
        "gpt-4-* gpt-3.5-turbo-* gpt-35-turbo-* ft:gpt-4* ft:gpt-3.5-turbo* ft:davinci-002* "
        "ft:babbage-002*",
    ),
    "p50k_base": (
        "text-davinci-003 text-davinci-002 code-davinci-002 code-davinci-001 code-cushman-002 "
        "code-cushman-001 davinci-codex cushman-codex",
        "",
    ),
    "p50k_edit": ("text-davinci-edit-001 code-davinci-edit-001", ""),
    "r50k_base": (
        "text-davinci-001 text-curie-001 text-babbage-001 text-ada-001 davinci curie babbage ada "
        "text-similarity-davinci-001 text-similarity-curie-001 text-similarity-babbage-001 "
        "text-similarity-ada-001 text-search-davinci-doc-001 text-search-curie-doc-001 "
        "text-search-babbage-doc-001 text-search-ada-doc-001 code-search-babbage-code-001 "
        "code-search-ada-code-001",
        "",
    ),
    "gpt2": ("gpt2 gpt-2", ""),
}


def encoding_name_for_model(model_name: str) -> str:
    """The name of the encoding of one of OpenAI's models; KeyError where that is not known."""
    _check.text("model_name", model_name)
    for encoding, (names, _) in _MODELS.items():
        if model_name in names.split():
            return encoding
    for encoding, (_, beginnings) in _MODELS.items():
        if any(model_name.startswith(b[:-1]) for b in beginnings.split()):
            return encoding
    raise TokenError(
        f"no encoding is known for the model {model_name!r}",
        help="name the encoding: folio.get_encoding",
    )


def encoding_for_model(model_name: str) -> Encoding:
    """The encoding of one of OpenAI's models; KeyError where that is not known."""
    return get_encoding(encoding_name_for_model(model_name))
