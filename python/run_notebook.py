"""Executes a notebook in an empty directory: python/run_notebook.py NOTEBOOK [EXECUTED [PAGE.html]]

Fails where a cell does. Writes the executed notebook, and as a page by nbconvert, where a path is given."""

from __future__ import annotations

import pathlib
import sys
import tempfile

import nbformat
from nbclient import NotebookClient


def main(source: str, executed: str = "", page: str = "") -> None:
    notebook = nbformat.read(source, as_version=4)
    with tempfile.TemporaryDirectory() as scratch:
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": scratch}}).execute()
    pages = [
        str(output.get("data", {}).get("text/html", ""))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    figures = sum("<svg" in page for page in pages)
    if figures < 4:
        sys.exit(f"{source}: there are {figures} figures, expected a curve, attention, scores and a lens")
    if executed:
        nbformat.write(notebook, executed)
    if page:
        from nbconvert import HTMLExporter

        pathlib.Path(page).write_text(HTMLExporter().from_notebook_node(notebook)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
