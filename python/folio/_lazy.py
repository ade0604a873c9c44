"""Members that are computed once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


class lazy(functools.cached_property[_T]):
    """A ``cached_property`` without the lock that it has before Python 3.12: where a thread of the parent process held
    it, a child of fork would wait for ever. Two threads may both compute; either result counts."""

    def __init__(self, function: Callable[[Any], _T]) -> None:
        super().__init__(function)
        self.lock = contextlib.nullcontext()
