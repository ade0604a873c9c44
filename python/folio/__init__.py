"""folio trains and runs GPT models: text to tokens, tokens to a model, a model to text."""

from __future__ import annotations

from . import _core
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
)
from .encoding import (
    Encoding,
    encoding_for_model,
    encoding_name_for_model,
    get_encoding,
    list_encoding_names,
)
from ._options import settings
from .model import Attention, Model, Stream, Text, load
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
    "Model",
    "NotThereError",
    "ResourceError",
    "Run",
    "RunError",
    "Step",
    "Stream",
    "Text",
    "TokenError",
    "Trainer",
    "UsageError",
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
set_threads = _core.set_threads
