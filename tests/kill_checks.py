"""Kills processes that change a table: between any two operations on files, and at any moment.

``python tests/kill_checks.py [--form text] [--every 1] [--first 0] [--batches 8]``: a child of
this process, which has started no thread, does some steps with a table. It is killed before an
operation, of which Python's audit events tell, or with a file half written: at the first one, then
in another folder at the next one, or one ``every`` later, and so on. Each time a version is there
with the rows of before or after a step, and the steps are done once when they are done again. Then
two processes apply ``batches`` to one table, of which one is killed again and again: nothing is
lost, nothing is applied twice. Prints for each form of table how many operations there are, about,
and how often the second process was killed.

The library's own functions run, ``BatchTable.apply`` first of all. Instead of Spark a list has the
rows.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from layer_samples import Change, Form, Row, Sample
from pyspark.sql import types as T  # noqa: N812

from bsjoin import BatchTable
from bsjoin import table as tables
from bsjoin.build import apply as applying
from bsjoin.build import storing
from bsjoin.build.steps import Step
from bsjoin.planner.columns import Names, schema_of
from bsjoin.spark.fingerprint import Identity
from bsjoin.storage import Manifest, SourceVersion, StorageLocation, builds, versions
from bsjoin.storage.layers.change_set import DELETE, UPSERT, ChangeSet

os.fsync = lambda _: None  # a process is killed, not the machine
# Nobody waits until a version is active.
versions.time = SimpleNamespace(sleep=lambda _: None)  # type: ignore[assignment]
FORMS = {form.key: form for form in (Form("text", "interval"), Form("direct", ""))}
_SOURCES = [SourceVersion("a table", number) for number in "12"]
_NEW = "w"  # a column that changes bring
_KILLS = 6


# -- the library, with lists in place of DataFrames ------------------------------------------------


@dataclass
class Listed:
    """Changes, or the rows of a source, as a DataFrame has them for what is called here."""

    sample: Sample
    changes: Sequence[Change] = ()
    schema: Any = None
    sparkSession: Any = None  # noqa: N815


def _collected(df: Any, _: Any, form: Manifest, *__: Any) -> tuple[ChangeSet, None]:
    found = df.sample.change_set(df.changes)
    if _NEW in form.columns:
        texts = [f"new {row['id']}" for _, row, _ in df.changes]
        wider = found.rows.append_column(_NEW, pa.array(texts, pa.string()))
        found = replace(found, rows=wider)
    return found, None


def _added(_: Any, before: Manifest, *__: Any) -> list[T.StructField]:
    return [] if _NEW in before.columns else [T.StructField(_NEW, T.StringType())]


def _at_once(_: Any, work: Callable[[Any], Any]) -> Any:
    return work(SimpleNamespace(check=lambda: None))


def _native(path: str, mode: str) -> Any:
    """Let Arrow's files be seen as Python's are."""
    sys.audit("open", path, mode, os.O_WRONLY)
    return _opened(path, mode)


_opened, pa.OSFile = pa.OSFile, _native
tables.table_side = lambda _: None
applying.change_set = _collected  # type: ignore[assignment]
applying.added_columns = _added
applying.names_of = lambda df, side: Names(df.sample.form.columns.names, side, False)
applying.interruptible = storing.interruptible = _at_once  # type: ignore[assignment]


def apply(found: Sample, changes: Sequence[Change], batch: tuple[str, int], **options: Any) -> None:
    """Apply a batch."""
    table = BatchTable.open(str(found.location), verify=False)
    given: Any = Listed(found, changes)
    table.apply(given, key="id", batch=batch, retain=None, **options)


def follow(found: Sample, changes: Sequence[Change]) -> None:
    """Take a step from one version of the source to the next one."""
    step = Step(*_SOURCES, began_us=0, key=("id",))
    given: Any = Listed(found, changes)
    applying.apply_changes(found.location, given, key="id", op=None, sequence=None, step=step)


def compact(found: Sample) -> None:
    """Compact a table."""
    BatchTable.open(str(found.location), verify=False).compact()


def refresh(found: Sample, rows: list[Row]) -> None:
    """Publish the rows of a source, as a refresh does once that is read."""
    before = versions.latest(found.location)
    storing.build = lambda _, begun, __: found.draft(rows, begun)  # type: ignore[assignment]
    source: Any = SimpleNamespace(
        followed=None,
        is_renewed=False,
        unchanged=lambda: Identity(None),
        mark=lambda *_: None,
        again=lambda: source,
    )
    df: Any = Listed(found, schema=schema_of(before))
    layout: Any = SimpleNamespace(columns=before.columns, nulls_equal=())
    storing._build(found.location, df, layout, before, source)


# -- one process, killed between two operations ----------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a table is, and of which form."""

    folder: Path
    form: Form

    def sample(self, seed: int = 7) -> Sample:
        """A table, and what its rows have to be; the same in each process."""
        location = StorageLocation.of(self.folder)
        return Sample(location, self.form, ("id",), False, random.Random(seed))


@dataclass
class Steps:
    """What is done with a table, and the rows that it has after each step.

    Args:
        sample: the table.
        changes: of the source that is followed; a batch; and one that brings a column.
        rows: at first, after the source's step, the first batch, the refresh, the second batch.
    """

    sample: Sample
    changes: list[list[Change]]
    rows: list[list[Row]]


def steps(place: Place) -> Steps:
    """The steps; the table is built by the first process."""
    found = place.sample()
    found.rows = [found.row() for _ in range(40)]
    if not versions.numbers(found.location):
        found.publish(replace(found.draft(found.rows), source=_SOURCES[0]))
    changes, rows = [], [found.rows]
    for number in range(3):
        if number == 2:
            found.rows = [*found.rows[5:], *(found.row() for _ in range(9))]
            rows.append(found.rows)
        changes.append(found.changes(12))
        found.model(changes[-1])
        rows.append(found.rows)
    return Steps(found, changes, rows)


def change(place: Place) -> None:
    """Do all steps that are not done."""
    found = steps(place)
    table = found.sample
    if _applied(table) < 2:
        follow(table, found.changes[0])
        apply(table, found.changes[1], ("one", 1))
        compact(table)
        refresh(table, found.rows[3])
    apply(table, found.changes[2], ("one", 2), merge_schema=True)
    compact(table)
    versions.vacuum(table.location, 1 << 60, 2)


def _applied(found: Sample) -> int:
    """The last batch that was applied."""
    changes = versions.latest(found.location).changes
    return 0 if changes is None else changes.last("one") or 0


def check(place: Place) -> None:
    """The newest version has the rows of before a step, or those of after it."""
    found = steps(place)
    table = found.sample
    manifest, last = versions.latest(table.location), _applied(table)
    if last == 0:
        assert _has(table, manifest, found.rows[_SOURCES.index(manifest.source)])
    else:
        assert manifest.source is None
        assert any(_has(table, manifest, rows) for rows in found.rows[2 * last :][:2])
    applied = 0 if manifest.changes is None else manifest.changes.count
    assert applied == last + (manifest.source != _SOURCES[0])
    assert (_NEW in manifest.columns) == (last == 2)
    if last == 2:
        _check_new_column(table, found, manifest)
    for number in versions.numbers(table.location):
        versions.verify(table.location, versions.load(table.location, number))


def _has(table: Sample, manifest: Manifest, rows: list[Row]) -> bool:
    try:
        table.check(manifest, rows)
    except AssertionError:
        return False
    return True


def _check_new_column(table: Sample, found: Steps, manifest: Manifest) -> None:
    """Rows that came with the column have a value, and no others."""
    opened = table.opened(manifest)
    place = manifest.compared + manifest.columns.index(_NEW)
    beside = manifest.compared + manifest.columns.index("id")
    came = {row["id"] for kind, row, _ in found.changes[2] if kind == UPSERT}
    for number, segment in enumerate(opened.segments):
        rows = opened.visible(number).nonzero()[0]
        ids, texts = (segment.take(at, rows).to_pylist() for at in (beside, place))
        for one, text in zip(ids, texts, strict=True):
            assert text == (f"new {one}" if one in came else None)


def check_swept(location: StorageLocation) -> None:
    """The files that the mark of a killed build names go with it, whatever their age."""
    marked = {mark.partition("-")[0] for mark in location.names("builds")}
    builds.sweep(location)
    folders = {folder.rpartition("/")[2] for folder in versions.data_folders(location)}
    assert not (marked & {*location.names("data")}) - folders


def check_nothing_left(location: StorageLocation) -> None:
    """No file of a build is left whose process was killed; of removed versions not after a day."""
    builds.vacuum(location, 1, 1 << 60)
    builds._UNKNOWN_AGE_US = builds._TEMPORARY_AGE_S = -1  # a day later, in this process
    builds.vacuum(location, 1, 1 << 60)
    assert not location.names("builds")
    assert not [path for path in Path(location.url).rglob(".*") if path.is_file()]
    folders = {folder.rpartition("/")[2] for folder in versions.data_folders(location)}
    assert {*location.names("data")} == folders


def in_child(work: Callable[[], object]) -> int:
    """Do something in a child; the number of its signal, or 0."""
    return ended(started(work))


def started(work: Callable[[], object]) -> int:
    """Begin to do something in a child; its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int:
    """Wait for the end of a child; the number of its signal, or 0."""
    status = os.waitpid(child, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def killed_after(operations: int, place: Place) -> None:
    """Do the steps; the process is killed at one of the operations."""
    left = operations

    def seen(event: str, given: tuple[Any, ...]) -> None:
        nonlocal left
        if event not in _CHANGING or left < 0:
            return
        path, folder = given[event == "os.link"], given[-1]
        if event in ("os.remove", "os.rmdir") and folder >= 0:  # in a tree that is removed
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        is_written = event == "open" and bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        if not str(path).startswith(f"{place.folder}/") or not _CHANGING[event](path, is_written):
            return
        for is_torn in range(1 + is_written):
            if left == 0:
                left = -1
                if is_torn:
                    Path(path).write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(seen)
    change(place)


# What changes a folder, and whether it does.
_CHANGING: dict[str, Callable[[str, bool], bool]] = {
    "open": lambda _, is_written: is_written,
    "os.link": lambda *_: True,
    "os.mkdir": lambda path, _: not os.path.exists(path),
    "os.remove": lambda path, _: os.path.lexists(path),
    "os.rename": lambda *_: True,
    "os.rmdir": lambda path, _: os.path.isdir(path),
}


# -- two processes ---------------------------------------------------------------------------------


def batches_of(form: Form, writer: int, many: int) -> list[list[Change]]:
    """The batches of a writer: rows of its own, of keys that the other writer has, too."""
    draw = random.Random(writer)
    found, there = [], []
    for number in range(many):
        batch = []
        for place in range(6):
            row = Place(Path(), form).sample(draw.randrange(1 << 30)).row()
            if place < 3 or not there:
                there.append(10_000 * (1 + writer) + len(there))
                row["id"], kind = there[-1], UPSERT
            else:
                row["id"], kind = draw.choice(there), draw.choice([UPSERT, DELETE])
            batch.append((kind, row | {"seq": number}, 10 * number + place))
        found.append(batch)
    return found


def write(place: Place, writer: int, many: int) -> None:
    """Apply the batches of a writer from the last one on that is there: a stream does so, too."""
    found = place.sample()
    changes = versions.latest(found.location).changes
    last = None if changes is None else changes.last(str(writer))
    for number, batch in enumerate(batches_of(place.form, writer, many)):
        if number >= (last or 0):
            apply(found, batch, (str(writer), number))
            if number % 3 == writer:
                compact(found)


def two_writers(place: Place, many: int) -> int:
    """Two processes write, and one is killed again and again; how often."""
    in_child(partial(steps, place))
    draw, killed = random.Random(3), 0
    other = started(partial(write, place, 0, many))
    for _ in range(_KILLS):
        child = started(partial(write, place, 1, many))
        time.sleep(draw.uniform(0.05, 0.6))
        os.kill(child, signal.SIGKILL)
        killed += ended(child) == signal.SIGKILL
    assert not in_child(partial(write, place, 1, many))
    assert not ended(other)

    def all_is_there() -> None:
        begun = steps(place)
        found, found.rows = begun.sample, begun.rows[0]
        for writer in range(2):
            for batch in batches_of(place.form, writer, many):
                found.model(batch)
        check_nothing_left(found.location)
        manifest = versions.latest(found.location)
        found.check(manifest, found.rows)
        assert manifest.changes.count == 2 * many
        assert dict(manifest.changes.batches) == {"0": many - 1, "1": many - 1}
        for number in versions.numbers(found.location):
            versions.verify(found.location, versions.load(found.location, number))

    in_child(all_is_there)
    return killed


def killed_everywhere(begun: Place, first: int, every: int) -> int:
    """Kill a process at one operation after another; how many there are, about."""
    in_child(partial(steps, begun))
    operations, died = first, int(signal.SIGKILL)
    while died:
        at = replace(begun, folder=begun.folder.with_name(f"{operations}"))
        shutil.copytree(begun.folder, at.folder)

        def again(at: Place = at) -> None:
            check(at)
            check_swept(at.sample().location)
            change(at)
            check(at)
            check_nothing_left(at.sample().location)

        died = in_child(partial(killed_after, operations, at))
        in_child(again)
        shutil.rmtree(at.folder)
        operations += every
    return operations - every


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", choices=FORMS, nargs="*", default=[*FORMS])
    for name, default in (("every", 1), ("first", 0), ("batches", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    for name in given.form:
        with tempfile.TemporaryDirectory(prefix="bsjoin-kills-") as folder:
            begun, two = (Place(Path(folder, one), FORMS[name]) for one in ("begun", "two"))
            operations = killed_everywhere(begun, given.first, given.every)
            print(operations, two_writers(two, given.batches), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
