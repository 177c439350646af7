"""Holds the reader of ``format.md`` against the rows that Spark's own join finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from golden_tables import KINDS
from page_reader import PageReader


def check_by_the_page(folder: Path, lines: list[str]) -> None:
    """Find the rows of each probe by the page, and compare their numbers with a left join's."""
    reader = PageReader(folder)
    keys = reader.manifest["keys"]
    found: dict[tuple[str, ...], list[int]] = {}
    for line in lines:
        cells = dict(cell.split("=", 1) for cell in line.split("|"))
        probe = tuple(cells.get(name, "") for name in (*(key for key, _ in keys), "p", "x"))
        n = cells["n"]
        if cells["row"] != "-":
            found.setdefault((n, *probe), []).append(int(cells["row"]))
        else:
            found.setdefault((n, *probe), [])
    for (_, *probe), rows in found.items():
        key = [parsed(t, text) for (_, t), text in zip(keys, probe, strict=False)]
        ranged = reader.manifest.get("ranged") or {"types": [""]}
        points = [parsed(ranged["types"][0], text) for text in probe[len(keys) :] if text]
        assert sorted(reader.find(key, points, "row")) == sorted(rows), (folder.name, probe)
    stored = sum(segment["rows"] for segment in reader.manifest["segments"])
    stored = reader.manifest.get("live", [stored])[0]
    apart = reader.unindexed("row")
    assert stored + len(apart) == KINDS[folder.name].many
    assert not {*apart} & {row for rows in found.values() for row in rows}


def parsed(dtype: str, text: str) -> Any:
    """A value as the page's reader takes it, of its text in Spark."""
    if dtype == "double":
        return float(text)
    if dtype.startswith("decimal"):
        return int(text.replace(".", ""))  # Spark shows all digits behind the point
    if dtype == "string":
        return text.encode()
    if dtype == "binary":
        return bytes.fromhex(text)
    if dtype == "boolean":
        return int(text == "true")
    if dtype == "date":
        return int(np.datetime64(text, "D").astype(np.int64))
    if dtype == "timestamp":
        return int(np.datetime64(text.replace(" ", "T"), "us").astype(np.int64))
    return int(text)
