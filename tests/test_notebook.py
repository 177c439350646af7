"""The tutorial as a notebook: it is that of the documentation, and its cells run."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import notebook

sys.path.pop(0)


def test_the_notebook_is_the_page() -> None:
    page = notebook._PAGE.read_text("utf-8")
    there = notebook.NOTEBOOK.read_text("utf-8")
    assert there == notebook.written(page), "run `python scripts/notebook.py`"
    assert "/tmp/shop" not in there
    assert not any(cell.get("outputs") for cell in json.loads(there)["cells"])


def test_the_cells_of_the_notebook_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for number, cell in enumerate(json.loads(notebook.NOTEBOOK.read_text("utf-8"))["cells"]):
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), f"cell {number}", "exec")
                exec(code, names)
    assert "|     103|          4|Dora|Turku|" in printed.getvalue()
