"""What several tests use: published vocabularies where they are, a model that was trained for a moment."""

from __future__ import annotations

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _link_vocabularies(home: pathlib.Path) -> None:
    """Puts the published vocabularies that lie beside the checkout where folio looks for them."""
    data = pathlib.Path(os.environ.get("FOLIO_TEST_DATA", ROOT / ".." / "shared" / "data"))
    for path in [*data.glob("tiktoken/*.tiktoken"), *data.glob("gpt2/*")]:
        name = path.stem if path.suffix == ".tiktoken" else "gpt2"
        (home / "tokenizers" / name).mkdir(parents=True, exist_ok=True)
        (home / "tokenizers" / name / path.name).symlink_to(path.resolve())


@pytest.fixture(scope="session", autouse=True)
def folio_home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    home = tmp_path_factory.mktemp("home")
    _link_vocabularies(home)
    os.environ["FOLIO_HOME"] = str(home)
    return home


@pytest.fixture(scope="session")
def published(folio_home: pathlib.Path) -> None:
    """For tests that need published vocabularies."""
    if not (folio_home / "tokenizers" / "gpt2").is_dir():
        pytest.skip("no published vocabularies here: set FOLIO_TEST_DATA")
