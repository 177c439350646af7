"""How far a build is: shown on terminals and in notebooks where Spark's own bar is."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from sessions import configured

from bsjoin import BatchTable
from bsjoin.build import progress
from bsjoin.build.progress import Progress
from bsjoin.build.run_writer import run_writer
from bsjoin.storage import Latest, RunInfo, StorageLocation, builds
from bsjoin.storage.ties import Tie


class Terminal(io.StringIO):
    """A terminal that keeps what it was sent."""

    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """The standard error of a notebook's kernel."""


Notebook.__module__ = "ipykernel.iostream"


def seen(text: str) -> list[str]:
    """The lines that were shown, one after another."""
    return re.findall(r"\[bsjoin[^\]\x1b]*\]", text)


def test_rows_are_counted_and_then_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = StorageLocation.of(tmp_path / "customers")
    build = builds.begin(location)
    out = Terminal()
    shown = Progress(build, out, notebook=False, name="bsjoin customers")

    def put(*names: str) -> None:
        for name in names:
            assert location.create(f"{build.folder}/{name}", b"x")

    assert shown.text() == "[bsjoin customers: 0 rows read]"
    put("000000-1-000000-1200000.run", "000001-2-000000-34.run", "000001-2-000001-5.unindexed.run")
    assert shown.text() == "[bsjoin customers: 1,200,039 rows read]"
    shown.show()
    shown.merging(1_200_034, 2, 2)
    put("0000-7.index.arrow", "0000-7.0.arrow", "0000-7.1.arrow", "0000-7.boxes.arrow")
    put("0001-8.index.arrow")
    text = shown.text()
    assert re.fullmatch(r"\[bsjoin customers: 1,200,034 rows, segments =+> +1 / 2\]", text)
    assert len(text) <= 80
    bar = text.removeprefix("[bsjoin customers: 1,200,034 rows, segments ").removesuffix(" 1 / 2]")
    assert bar.count("=") == len(bar) * 4 // 6
    put("0001-8.0.arrow", "0001-8.1.arrow", "0001-9.index.arrow", "0001-9.0.arrow")  # again
    assert shown.text().endswith("= 2 / 2]")
    shown.show()
    shown.clear()
    first, second, end = out.getvalue().split("\n")
    assert first == "\r\x1b[K[bsjoin customers: 1,200,039 rows read]"
    assert second == f"\x1b[1A\r\x1b[K{shown.text()}"
    assert end == "\x1b[1A\r\x1b[K"
    for width in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        shown.merging(1_200_034_000, 12_000, 2)
        put(f"{10_000 + width}-7.index.arrow", f"{10_000 + width}-7.0.arrow")
        put(f"{10_000 + width}-7.1.arrow")
        assert len(shown.text()) == min(width, 80)
    assert shown.text().endswith(" 5 / 12000]")
    build.abandon()


def test_rows_that_are_not_kept_were_read_too(tmp_path: Path) -> None:
    location = StorageLocation.of(tmp_path / "customers")
    with builds.begun(location) as build:
        rows = pa.record_batch({"h": [7, 7, 8], "at": [1, 2, 3]})
        latest = Latest(0, (Tie(0, descending=True),), 1)
        write = run_writer(build, pa.schema({"at": pa.int64()}), 1, None, latest)
        (info,) = write(iter([rows]))
        assert RunInfo.from_json(json.loads(info.column(0)[0].as_py())).rows == (2,)
        shown = Progress(build, Terminal(), notebook=False, name="bsjoin customers")
        assert shown.text() == "[bsjoin customers: 3 rows read]"


@pytest.mark.long
def test_a_build_shows_how_far_it_is_where_spark_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_AFTER_S", 0.01)
    monkeypatch.setattr(progress, "_LOCAL_S", 0.01)
    # Spark's own cannot be changed while a session runs.
    monkeypatch.setattr(progress, "_SETTING", "spark.bsjoin.shown")
    df = spark.range(200_000).selectExpr("id AS k", "concat('name ', id) AS name")

    def built(name: str | None, kind: type[io.StringIO] = Terminal) -> str:
        out, path = kind(), None if name is None else tmp_path / name
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", out)
            table = BatchTable.build(df, on="k", segment_bytes=1 << 20, path=path)
        assert table.stats().rows == 200_000
        return out.getvalue()

    with configured(spark, {"spark.bsjoin.shown": "true"}):
        texts = {kind: built(kind.__name__, kind) for kind in (Terminal, Notebook, io.StringIO)}
        assert seen(built(None))[0].startswith("[bsjoin: ")  # without a path, without a name
        found: list[str] = []
        background = threading.Thread(target=lambda: found.append(built("behind")))
        background.start()
        background.join()
    # A file, or a pipe; a thread behind; and where Spark shows nothing.
    assert texts.pop(io.StringIO) == found[0] == built("off") == ""
    for kind, text in texts.items():
        lines = seen(text)
        count = BatchTable.open(tmp_path / kind.__name__).stats().segments
        assert lines[0].startswith(f"[bsjoin {kind.__name__}: ")
        assert any(line.endswith(" rows read]") for line in lines)
        assert any(": 200,000 rows, segments " in line for line in lines)
        assert all(line.endswith((f" / {count}]", " rows read]")) for line in lines)
        assert ("\n" in text) == (kind is Terminal)
        assert text.endswith("\x1b[1A\r\x1b[K" if kind is Terminal else " \r")
