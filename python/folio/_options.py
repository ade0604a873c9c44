"""Options by name, as folio.h takes them, from keyword arguments."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from . import _core
from ._errors import UsageError


@cache
def described(kind: str) -> dict[str, dict[str, Any]]:
    """The options of a kind by their names."""
    return {option["name"]: option for option in json.loads(_core.describe(kind))}


@cache
def _by_keyword(kind: str) -> dict[str, str]:
    """Options by what they are called as a keyword: ``train.max_steps`` is ``max_steps``, and
    ``train_max_steps`` too; what several sections have is only the latter."""
    names = described(kind)
    keywords = {name.replace(".", "_"): name for name in names}
    last = [name.rpartition(".")[2] for name in names]
    for name in names:
        short = name.rpartition(".")[2]
        if last.count(short) == 1:
            keywords.setdefault(short, name)
    return keywords


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def named(kind: str, values: Mapping[str, object]) -> list[tuple[str, str]]:
    """Options as folio.h takes them; those that are None are left as they are. Raises a
    UsageError with the nearest name for one that does not exist."""
    keywords = _by_keyword(kind)
    options: list[tuple[str, str]] = []
    for keyword, value in values.items():
        if value is None:
            continue
        repeated = {"generate": ("stop", "stop"), "tokenizer": ("special_tokens", "special_token")}
        if keyword == repeated.get(kind, ("", ""))[0]:
            texts = [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]
            options += [(repeated[kind][1], text) for text in texts]
            continue
        name = keyword if keyword in described(kind) else keywords.get(keyword)
        if name is None:
            near = difflib.get_close_matches(keyword, keywords, n=1)
            raise UsageError(
                f"no option {keyword!r}",
                f"there are {len(keywords)} of {kind!r}",
                f"did you mean {near[0]}?" if near else f"folio.settings({kind!r}) lists them",
            )
        options.append((name, _text(value)))
    return options


def settings(kind: str = "train") -> list[dict[str, Any]]:
    """What may be set of a kind, "train", "generate", "open", "prepare" or "tokenizer": name, type,
    usual value and what it is for."""
    return list(described(kind).values())
