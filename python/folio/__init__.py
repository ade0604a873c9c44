"""folio trains and runs GPT models: text to tokens, tokens to a model, a model to text."""

from __future__ import annotations

from . import _check, _core
from ._errors import (
    CancelledError,
    DivergedError,
    Error,
    InputError,
    InternalError,
    NotThereError,
    ResourceError,
    RunError,
    TokenError,
    UsageError,
    WrongTypeError,
)
from .encoding import (
    Encoding,
    encoding_for_model,
    encoding_name_for_model,
    get_encoding,
    list_encoding_names,
)
from ._options import settings
from .looking import Attention, Lens, LensCell, Perplexity, Score
from .model import Model, Stream, Text, load
from .training import (
    Dataset,
    Evaluation,
    Run,
    Step,
    Trainer,
    prepare,
    stories,
    train,
    train_tokenizer,
)

__all__ = [
    "Attention",
    "CancelledError",
    "Dataset",
    "DivergedError",
    "Encoding",
    "Error",
    "Evaluation",
    "InputError",
    "InternalError",
    "Lens",
    "LensCell",
    "Model",
    "NotThereError",
    "Perplexity",
    "ResourceError",
    "Run",
    "RunError",
    "Score",
    "Step",
    "Stream",
    "Text",
    "TokenError",
    "Trainer",
    "UsageError",
    "WrongTypeError",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
    "load",
    "prepare",
    "set_threads",
    "settings",
    "stories",
    "train",
    "train_tokenizer",
]
__version__: str = _core.version()


def set_threads(threads: int) -> None:
    """The threads of all computing, at first as many as there are processor cores. No result
    depends on it. Calls that other threads are making keep the number that they began with."""
    _core.set_threads(_check.integer("threads", threads, 1, 4096))
