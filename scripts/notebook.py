"""Writes the tutorial of the documentation as a notebook, ``examples/tutorial.ipynb``.

    python scripts/notebook.py            # write it
    python scripts/notebook.py --check    # fail if what is there is not what would be written

Its text and its code are those of ``docs/tutorial.md``, so that there is one tutorial. What the
page shows as output is left to whoever runs the cells. Files go to a new folder for each run.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = _ROOT / "docs" / "tutorial.md"
NOTEBOOK = _ROOT / "examples" / "tutorial.ipynb"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)]+)\)")
_FOLDER = re.compile(r'"/tmp/shop/(\w+)"')
_FIRST = "from tempfile import mkdtemp\n\nfolder = mkdtemp()\n"


def cells(page: str) -> Iterator[tuple[str, str]]:
    r"""The kind and the text of each cell: of the page's text, and of its Python.

    >>> list(cells("# A\n\n```python\n1 + 1\n```\n\n```text\n2\n```\nB"))
    [('markdown', '# A'), ('code', '1 + 1'), ('markdown', 'B')]
    """
    end = 0
    for found in _FENCE.finditer(page):
        if found[1] not in ("python", "text"):
            continue
        yield from _text(page[end : found.start()])
        end = found.end()
        if found[1] == "python":
            yield "code", _FOLDER.sub(r'f"{folder}/\1"', found[2]).strip()
    yield from _text(page[end:])


def _text(text: str) -> Iterator[tuple[str, str]]:
    text = _LINK.sub(r"](../docs/\1)", text.strip())
    text = text.replace(
        "Delete the folder `/tmp/shop` to begin again.", "Run all cells again at will."
    )
    text = re.sub(r"Then type the code below.*?`\.", "Then run the cells.", text, flags=re.DOTALL)
    if text:
        yield "markdown", text


def written(page: str) -> str:
    """The notebook of a page, as it stands in its file."""
    every = [*cells(page)]
    every.insert(1, ("code", _FIRST.strip()))
    notebook = {
        "cells": [_cell(number, kind, text) for number, (kind, text) in enumerate(every)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return {**cell, "source": text.splitlines(keepends=True)}


def main() -> int:
    """Write the notebook, or compare; 1 if it is not as it would be written."""
    wanted = written(_PAGE.read_text("utf-8"))
    if "--check" not in sys.argv:
        NOTEBOOK.write_text(wanted, "utf-8")
        return 0
    if NOTEBOOK.read_text("utf-8") == wanted:
        return 0
    print(f"{NOTEBOOK} is not what scripts/notebook.py writes: run it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
