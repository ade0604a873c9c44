"""What goes wrong: each error says what was expected, what was found and what to do."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator


class Error(Exception):
    """Whatever folio refuses. ``cause`` says what was expected and found, ``help`` what to do;
    each may be empty."""

    def __init__(self, message: str, cause: str = "", help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.help = help

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str]]:
        return type(self), (self.message, self.cause, self.help)

    def __str__(self) -> str:
        text = f"{self.message}: {self.cause}" if self.cause else self.message
        return f"{text}\n  help: {self.help}" if self.help else text


class UsageError(Error, ValueError):
    """An argument or a setting."""


class WrongTypeError(UsageError, TypeError):
    """An argument of another type than the parameter's."""


class InputError(Error, ValueError):
    """A text, a file or a model."""


class NotThereError(InputError, FileNotFoundError):
    """A file or a model that is not there."""


class TokenError(InputError, KeyError):
    """A token that the encoding does not have."""


class RunError(Error, OSError):
    """Something failed while running: a full disk, no permission."""


class ResourceError(Error, MemoryError):
    """Not enough memory, or no such device."""


class DivergedError(Error, ArithmeticError):
    """Losses or logits that are not finite."""


class CancelledError(Error):
    """Somebody asked to stop."""


class InternalError(Error, RuntimeError):
    """A mistake in folio: please report it."""


_BY_STATUS: dict[int, type[Error]] = {
    1: RunError,
    2: UsageError,
    3: InputError,
    4: ResourceError,
    5: DivergedError,
    6: CancelledError,
    7: InternalError,
}


def _keywords(text: str) -> str:
    """Flags of the program are keyword arguments here; its commands are its own."""
    if "folio " in text:
        return text
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda flag: flag[1].replace("-", "_"), text)


def error_of(status: int, message: str, cause: str, help: str) -> Error:
    """The exception for a status of folio.h."""
    texts = (_keywords(text) for text in (message, cause, help))
    return _BY_STATUS.get(status, RunError)(*texts)


@contextlib.contextmanager
def there(*paths: str, options: Iterable[tuple[str, str]] = ()) -> Iterator[None]:
    """Makes of an error about one of these paths, where nothing is, a ``NotThereError``; and about
    an option that has the look of a path."""
    try:
        yield
    except (InputError, UsageError, RunError) as error:
        texts = [text for _, text in options if os.sep in text or os.path.splitext(text)[1]]
        known = texts if isinstance(error, UsageError) else [*paths, *texts]
        told = error.message + ": " + error.cause
        for path in known:
            word = re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w-])", told)
            if word and path != "-" and not os.path.exists(path):
                raise NotThereError(error.message, error.cause, error.help) from None
        raise


@contextlib.contextmanager
def called(pattern: str, name: str) -> Iterator[None]:
    """Names in errors what their messages have a place for that nobody else knows."""
    try:
        yield
    except Error as error:
        texts = (re.sub(pattern, name, text) for text in (error.message, error.cause, error.help))
        raise type(error)(*texts) from None
