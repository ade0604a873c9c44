"""Arguments: each function returns what it was given, as what is expected, or raises a
``WrongTypeError`` or ``UsageError`` that names the parameter."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from ._errors import UsageError, WrongTypeError


# What systems take.
_LONGEST_PATH, _LONGEST_NAME = 4095, 255


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool | int | float) or (
        isinstance(value, str | bytes) and len(value) <= 40
    ):
        return repr(value)
    kind = type(value).__name__
    try:
        empty = isinstance(value, Collection) and not len(value)
    except TypeError:  # an array without a dimension
        empty = False
    return f"an empty {kind}" if empty else f"of type {kind}"


def wrong(name: str, value: object, expected: str, help: str = "") -> WrongTypeError:
    """The error for a value of another type."""
    return WrongTypeError(f"{name}: {_shown(value)}", f"expected {expected}", help)


def text(name: str, value: object, expected: str = "a str") -> str:
    """A text that folio.h takes: without half of a surrogate pair."""
    if not isinstance(value, str):
        raise wrong(name, value, expected)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}: half of a surrogate pair", f"at {error.start}") from None
    return value


def named(name: str, value: object, expected: str = "a str") -> str:
    """A text that ends in a zero on its way: it has none inside."""
    if "\0" in text(name, value, expected):
        raise UsageError(f"{name}: has a zero byte", f"expected {expected} without one")
    return str(value)


def path(name: str, value: object) -> str:
    """A path as a str."""
    if not isinstance(value, str | os.PathLike):
        raise wrong(name, value, "a path: a str or an os.PathLike")
    found = os.fspath(value)
    if not found:
        raise UsageError(f"{name}: empty", "expected a path")
    known = named(name, found, "a path")
    if len(known.encode()) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in known.split(os.sep)):
        raise UsageError(
            f"{name}: {known[:40]}... is too long",
            f"expected {_LONGEST_PATH} bytes at most, and {_LONGEST_NAME} of each name in it",
        )
    return known


def iterates(value: object) -> bool:
    """Whether it has items; an array without a dimension says so, and has none."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def paths(name: str, value: object) -> list[str]:
    """A path or several."""
    if isinstance(value, str | os.PathLike):
        return [path(name, value)]
    if not iterates(value) or isinstance(value, bytes | bytearray | Mapping):
        raise wrong(name, value, "a path or a list of paths")
    found = [path(f"{name}[{i}]", one) for i, one in enumerate(cast("Iterable[object]", value))]
    if not found:
        raise UsageError(f"{name}: empty", "expected a path or a list of paths")
    return found


def integer(name: str, value: object, low: int, high: int = 2**63 - 1) -> int:
    """An integer within bounds, of Python's or NumPy's."""
    expected = f"an integer of at least {low}" if high == 2**63 - 1 else f"an integer from {low} to {high}"
    if isinstance(value, bool):
        raise wrong(name, value, expected)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise wrong(name, value, expected) from None
    if not low <= number <= high:
        raise UsageError(f"{name}: {number}", f"expected {expected}")
    return number


def optional_integer(name: str, value: object, low: int, high: int = 2**63 - 1) -> int | None:
    """The same, or None."""
    return None if value is None else integer(name, value, low, high)


def choice(name: str, value: object, choices: Sequence[str]) -> str:
    """One of some texts."""
    expected = f"one of {', '.join(choices)}"
    if text(name, value, expected) not in choices:
        raise UsageError(f"{name}: {_shown(value)}", f"expected {expected}")
    return str(value)


def function(name: str, value: object) -> None:
    """A function or None."""
    if value is not None and not callable(value):
        raise wrong(name, value, "a function or None")


def not_ids(name: str, value: object, or_else: str = "") -> UsageError:
    """The error for what ``_core`` did not take for ids of tokens."""
    expected = f"{or_else}ids of tokens: a list, or an array of one dimension, of integers from 0 to {2**31 - 1}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for i, item in enumerate(value):
            try:
                integer(f"{name}[{i}]", item, 0, 2**31 - 1)
            except UsageError as error:
                return error
    return wrong(name, value, expected)


def unmasked(name: str, value: Any) -> None:
    """An array of which nothing is masked: a mask would be lost where numbers are read."""
    mask = getattr(value, "mask", None)
    if mask is not None and hasattr(value, "filled") and getattr(mask, "any", bool)():
        raise UsageError(
            f"{name}: an array of which some are masked",
            "expected one that is whole",
            f"say what is there: {name}.filled(...)",
        )


def messages(name: str, value: object) -> None:
    """The messages of a conversation: what else is in them the program reads."""
    expected = 'messages with "role" and "content"'
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        raise wrong(name, value, f"a list of {expected}")
    for i, message in enumerate(value):
        where = f"{name}[{i}]"
        if not isinstance(message, Mapping):
            raise wrong(where, message, f"one of {expected}")
        empty = any(message.get(key) for key in ("tool_calls", "function_call", "reasoning_content"))
        for key in ("role", "content"):
            if key not in message and not (key == "content" and empty):
                found = ", ".join(repr(k) for k in message) or "nothing"
                raise UsageError(f"{where}: no {key!r}", f"expected {expected}, found {found}")
        named(f"{where}['role']", message["role"])
        content = message.get("content")
        if not isinstance(content, str | list | tuple) and not (content is None and empty):
            raise wrong(f"{where}['content']", content, "a str or a list of parts, or None beside calls of tools")


def json_text(name: str, value: object, of: type, expected: str) -> str:
    """The text in JSON of a value that is of a type."""
    if not isinstance(value, of) or isinstance(value, str | bytes):
        raise wrong(name, value, expected)
    try:
        return json.dumps(value, default=dict, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {_shown(value)}", f"expected {expected} that JSON can hold") from error


def mapping(name: str, value: object, keys: type, values: Any, expected: str) -> dict[Any, Any]:
    """A dict of these types."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, expected)
    for key, of in value.items():
        if not isinstance(key, keys) or not isinstance(of, values) or isinstance(of, bool):
            raise wrong(f"{name}[{key!r}]", of, expected)
    return dict(value)
