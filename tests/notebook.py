"""Executes docs/walk.ipynb; `python tests/notebook.py` also stores the outputs of its cells."""

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

WALK = Path(__file__).resolve().parent.parent / "docs/walk.ipynb"
NOISE = re.compile(r"^(normalizer\.cc|INFO:tensorflow:).*\n?", re.M)
"""Start-up messages of libraries."""


def executed(folder: Path, updates: int | None = None) -> nbformat.NotebookNode:
    """Executes the notebook in a folder and returns it with outputs; `updates` overrides its training updates."""
    book = nbformat.read(WALK, as_version=4)
    for cell in book.cells:
        if updates is not None:
            cell.source = re.sub(r"^UPDATES = \d+$", f"UPDATES = {updates}", cell.source, flags=re.M)
    NotebookClient(book, timeout=None, resources={"metadata": {"path": str(folder)}}, record_timing=False).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_without_noise, cell.outputs) if output.get("text") != ""]
    return book


def _without_noise(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    if "text" in output:
        output.text = NOISE.sub("", output.text)
    return output


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(WALK.parent.parent))
    with tempfile.TemporaryDirectory() as scratch:
        nbformat.write(executed(Path(scratch), *map(int, sys.argv[1:])), WALK)
