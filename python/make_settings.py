"""Writes folio/_settings.pyi, the options of each kind as a TypedDict, from what the program itself says of them:
python/make_settings.py DIRECTORY_OF_CORE OUTPUT"""

from __future__ import annotations

import pathlib
import sys
import types
from typing import Optional


def of_type(found: object) -> str:
    text = found.__name__ if isinstance(found, type) else str(found)
    return text.replace("typing.", "").replace("collections.abc.", "").replace("NoneType", "None")


def main(core: str, output: str) -> None:
    # The package without what it imports: NumPy may not be here.
    package = types.ModuleType("folio")
    package.__path__ = [core, str(pathlib.Path(__file__).parent / "folio")]
    sys.modules["folio"] = package
    from folio import _options

    names = {
        "train": "TrainSettings",
        "generate": "GenerateOptions",
        "open": "OpenOptions",
        "prepare": "PrepareOptions",
        "tokenizer": "TokenizerOptions",
    }
    lines = [
        "import os",
        "from collections.abc import Sequence",
        "from typing import Literal, Optional, TypedDict, Union",
    ]
    for kind in _options.KINDS:
        lines += ["", f"class {names[kind]}(TypedDict, total=False):"]
        for keyword, name in _options.keywords(kind).items():
            if name in _options._PARAMETERS:
                continue
            option = _options.described(kind)[name]
            lines += [
                f"    {keyword}: {of_type(Optional[_options.type_of(option)])}",
                f"    {(option['help'] + '; usually ' + (option['value'] or 'none'))!r}",
            ]
    pathlib.Path(output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
