"""Options by name, as folio.h takes them, from keyword arguments."""

from __future__ import annotations

import difflib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Optional, TypeVar, Union, cast

from . import _check, _core
from ._errors import UsageError

KINDS = ("train", "generate", "open", "prepare", "tokenizer")
# What is a parameter of its own of folio.train or folio.load, where it is more than text.
_PARAMETERS = ("train.init", "lora.rank", "chat_template_kwargs")
# Keywords of what may be set several times, where they are others.
_SEVERAL = {"special_token": "special_tokens"}


@cache
def described(kind: str) -> dict[str, dict[str, Any]]:
    """The options of a kind by their names."""
    return {option["name"]: option for option in json.loads(_core.describe(kind))}


@cache
def keywords(kind: str) -> dict[str, str]:
    """The names of the options by what they are called as a keyword: of ``train.max_steps`` it is
    ``max_steps``, and of what several sections have ``model_dropout``."""
    names = described(kind)
    last = [name.rpartition(".")[2] for name in names]
    shortest: dict[str, str] = {}
    for name in names:
        short = name.rpartition(".")[2]
        keyword = short if last.count(short) == 1 else name.replace(".", "_")
        shortest[_SEVERAL.get(keyword, keyword)] = name
    return shortest


def type_of(option: Mapping[str, Any]) -> Any:
    """The type of an option's values."""
    simple: dict[str, Any] = {
        "integer": int,
        "number": float,
        "text": Union[str, os.PathLike[str]],
        "texts": Union[str, Sequence[str]],
    }
    words = option["type"].split("|")
    if len(words) == 1 and words[0] in simple:
        return simple[words[0]]
    parts: list[Any] = [simple[words[0]]] if words[0] in simple else []
    if {"true", "false"} <= set(words):
        parts.append(bool)
    texts = tuple(w for w in words if w not in ("true", "false", "null", *simple))
    if texts:
        literal: Any = Literal
        parts.append(literal[texts])
    made: Any = Union[tuple(parts)]
    return Optional[made] if "null" in words else made


def value_of(option: Mapping[str, Any]) -> Any:
    """An option's usual value."""
    text, words = option["value"], option["type"].split("|")
    if option["type"] == "texts":
        return ()
    if text in ("true", "false") and text in words:
        return text == "true"
    if text == "null" and "null" in words:
        return None
    if words[0] in ("integer", "number"):
        return (int if words[0] == "integer" else float)(text)
    return text


_F = TypeVar("_F", bound=Callable[..., Any])


def takes(kind: str, **others: str) -> Callable[[_F], _F]:
    """For functions whose last parameter takes the options of a kind: puts them into the signature,
    so that ``help`` and completion have them. ``others`` are usual values that this function has
    instead."""

    def decorate(function: _F) -> _F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = {k: described(kind)[n] for k, n in keywords(kind).items() if n not in _PARAMETERS}
        options = {k: {**o, "value": others.get(k, o["value"])} for k, o in named.items()}
        more = [
            inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=value_of(o), annotation=type_of(o))
            for k, o in options.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        lines = "".join(f"\n    {k}: {o['help']} ({o['value'] or 'none'})" for k, o in options.items())
        known = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = f"{known}\n\nOptions, and their usual values:\n{lines[1:]}\n".lstrip()
        return function

    return decorate


def _text(name: str, value: object, option: Mapping[str, Any]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        return _check.path(name, value)
    if isinstance(value, str):
        return _check.named(name, value)
    # NumPy's numbers are none of Python's, but say what they are.
    if isinstance(value, int | float) or hasattr(value, "dtype") and not getattr(value, "shape", None):
        return str(value)
    raise _check.wrong(name, value, option["type"].replace("|", " or "))


def named(kind: str, values: Mapping[str, object]) -> list[tuple[str, str]]:
    """Options as folio.h takes them; those that are None are left as they are. Raises a
    UsageError with the nearest name for one that does not exist."""
    options: list[tuple[str, str]] = []
    known = keywords(kind)
    for keyword, value in values.items():
        name = keyword if keyword in described(kind) else known.get(keyword, keyword.replace("_", ".", 1))
        option = described(kind).get(name)
        if option is None:
            near = difflib.get_close_matches(keyword, known, n=1)
            raise UsageError(
                f"no option {keyword!r}",
                f"there are {len(known)} of {kind!r}",
                f"did you mean {near[0]}?" if near else f"folio.settings({kind!r}) lists them",
            )
        if value is None:
            continue
        if option["type"] == "texts":
            if not _check.iterates(value) or isinstance(value, bytes | bytearray | Mapping):
                raise _check.wrong(keyword, value, "a str or a list of them")
            several = [value] if isinstance(value, str) else cast("Iterable[object]", value)
            options += [(name, _check.named(keyword, text)) for text in several]
        else:
            options.append((name, _text(keyword, value, option)))
    return options


def settings(kind: str = "train") -> list[dict[str, Any]]:
    """What may be set of a kind, "train", "generate", "open", "prepare" or "tokenizer": name, type,
    usual value and what it is for."""
    return list(described(_check.choice("kind", kind, KINDS)).values())
