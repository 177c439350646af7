"""How far a long build is, in the manner of Spark's own progress bar.

Spark's bar has the tasks of a stage. This one has the whole: rows read, then segments written, of
how many. The driver lists the files of the build for that, so that it needs nothing of the tasks,
and is the same on Spark Connect. It is shown where Spark's is: on a terminal, and in notebooks,
unless ``spark.ui.showConsoleProgress`` is off.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from pyspark.sql import SparkSession

from bsjoin.errors import StoreError
from bsjoin.spark.interrupts import is_waited_for
from bsjoin.storage import Build
from bsjoin.storage.temporary import is_temporary

_SETTING = "spark.ui.showConsoleProgress"
_AFTER_S = 2.0
_LOCAL_S, _REMOTE_S = 0.5, 5.0
_WIDTH = 80
_RUN_ROWS = re.compile(r"\d+-\d+-\d+-(\d+)(?:\.unindexed)?\.run")
_COLUMN = re.compile(r"(u?\d{4,})(?:-\d+)?\.(?:index|\d+)\.arrow")


class Progress:
    """The progress of one build."""

    def __init__(self, build: Build, out: TextIO, *, notebook: bool, name: str):
        self._build, self._out, self._notebook = build, out, notebook
        self._name = name
        self._files = self._segments = self._rows = 0
        self._lines = 0

    def merging(self, rows: int, segments: int, columns: int) -> None:
        """All rows are read, and become segments of an index and so many columns."""
        # The thread that shows it divides by both: it looks at the segments first.
        self._rows, self._files, self._segments = rows, 1 + columns, segments

    def text(self) -> str:
        """One line, of any terminal."""
        limit = min(_WIDTH, shutil.get_terminal_size().columns)
        names = self._build.location.names(self._build.folder)
        if not self._segments:
            rows = sum(int(found[1]) for found in map(_RUN_ROWS.fullmatch, names) if found)
            return f"[{self._name}: {rows:,} rows read]"[:limit]
        of_segments: dict[str, int] = {}
        for found in filter(None, map(_COLUMN.fullmatch, names)):
            of_segments[found[1]] = of_segments.get(found[1], 0) + 1
        written = sum(min(count, self._files) for count in of_segments.values())
        whole = sum(count >= self._files for count in of_segments.values())
        head = f"[{self._name}: {self._rows:,} rows, segments "
        tail = f" {min(whole, self._segments)} / {self._segments}]"
        width = max(10, limit - len(head) - len(tail))
        done = min(width, width * written // (self._segments * self._files))
        bar = "=" * done + ">" * (done < width)
        return f"{head}{bar:<{width}}{tail}"[:limit]

    def show(self) -> None:
        """Show the line in the place of the one before; on a terminal above Spark's own bar."""
        text = self.text()
        if self._notebook:
            self._out.write(f"\r{text}")
        else:
            up = "\x1b[1A" if self._lines else ""
            self._out.write(f"{up}\r\x1b[K{text}\n")
        self._lines = 1
        self._out.flush()

    def clear(self) -> None:
        """Leave nothing."""
        if self._lines:
            text = "\r" + " " * _WIDTH + "\r" if self._notebook else "\x1b[1A\r\x1b[K"
            self._out.write(text)
            self._out.flush()


@contextlib.contextmanager
def shown(spark: SparkSession, build: Build) -> Iterator[Progress]:
    """Show the progress of a build while it runs, if it takes long and somebody looks."""
    out = sys.stderr
    notebook = type(out).__module__.partition(".")[0] == "ipykernel"
    name = "bsjoin" if is_temporary(build.location) else f"bsjoin {_last(str(build.location))}"
    progress = Progress(build, out, notebook=notebook, name=name)
    if not (is_waited_for() and _is_wanted(spark, out, notebook=notebook)):
        yield progress
        return
    ended = threading.Event()

    def run() -> None:
        wait_s = _AFTER_S
        while not ended.wait(wait_s):
            with contextlib.suppress(OSError, StoreError):  # which the build itself tells
                progress.show()
            wait_s = _LOCAL_S if build.location.is_local else _REMOTE_S

    thread = threading.Thread(target=run, name="bsjoin-progress", daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        ended.set()
        thread.join()
        with contextlib.suppress(OSError):
            progress.clear()


def _is_wanted(spark: SparkSession, out: TextIO, *, notebook: bool) -> bool:
    if str(spark.conf.get(_SETTING, "false")).lower() != "true":
        return False
    is_terminal = out is not None and out.isatty() and os.environ.get("TERM") != "dumb"
    return notebook or is_terminal


def _last(path: str) -> str:
    """The last part of a path or URL, cut where it is long."""
    name = re.split(r"[?#]", path)[0].rstrip("/").rpartition("/")[2]
    return name if len(name) <= 24 else f"{name[:23]}…"
