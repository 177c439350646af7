"""The tutorial as a notebook: it is that of the documentation. ``test_documentation`` runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import notebook

sys.path.pop(0)


def test_the_notebook_is_the_page() -> None:
    page = notebook._PAGE.read_text("utf-8")
    there = notebook.NOTEBOOK.read_text("utf-8")
    assert there == notebook.written(page), "run `python scripts/notebook.py`"
    assert "/tmp/shop" not in there
    assert not any(cell.get("outputs") for cell in json.loads(there)["cells"])
