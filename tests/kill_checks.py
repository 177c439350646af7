"""Kills processes that change a table: between any two operations on files, and at any moment.

``python tests/kill_checks.py FOLDER [EVERY] [BATCHES] [FIRST]``: of the operations every one, or
every third, say, from the first one on, or a later one; children of this process, which has started
no thread, are killed later each time; after each a version is there, with the rows of before or
after a step, and the steps are done once when they are done again. Then two processes apply so many
batches to one table, 8 by default, of which one is killed again and again: nothing is lost, nothing
is applied twice. Prints how many operations there are, about, and how often the second process was
killed.

The library's own functions run, ``BatchTable.apply`` first of all. Instead of Spark a list has the
rows.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from layer_samples import Form, Row, Sample
from pyspark.sql import types as T  # noqa: N812

from bsjoin import BatchTable
from bsjoin import table as tables
from bsjoin.build import apply as applying
from bsjoin.build import storing
from bsjoin.planner.columns import Names, schema_of
from bsjoin.spark.fingerprint import Identity
from bsjoin.storage import Manifest, StorageLocation, builds, versions
from bsjoin.storage.layers.change_set import DELETE, UPSERT, ChangeSet

os.fsync = lambda _: None  # a process is killed, not the machine
_OPERATIONS = ("create", "remove", "sync", "_writing", "make", "remove_empty")
_FORM = Form("text", "interval")
_NEW = "w"  # a column that changes bring
_KILLS = 6

Change = tuple[int, Row, int]


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


def sample(folder: Path, seed: int = 7) -> Sample:
    """A table, and what its rows have to be; the same in each process."""
    return Sample(StorageLocation.of(folder), _FORM, ("id",), False, random.Random(seed))


@dataclass
class Steps:
    """What is done with a table, and the rows that it has after each step.

    Args:
        sample: the table.
        one: the first batch of changes.
        two: the second one, which brings a column.
        rows: at first, after the first batch, after the refresh, after the second batch.
    """

    sample: Sample
    one: list[Change]
    two: list[Change]
    rows: list[list[Row]]


def steps(folder: Path) -> Steps:
    """The steps; the table is built by the first process."""
    found = sample(folder)
    rows = [[found.row() for _ in range(40)]]
    if not versions.numbers(found.location):
        found.build(rows[0])
    found.rows = rows[0]
    one = found.changes(12)
    found.model(one)
    rows.append(found.rows)
    found.rows = [*found.rows[5:], *(found.row() for _ in range(9))]
    rows.append(found.rows)
    two = found.changes(12)
    found.model(two)
    rows.append(found.rows)
    return Steps(found, one, two, rows)


def change(folder: Path) -> None:
    """Do all steps that are not done."""
    found = steps(folder)
    table = found.sample
    if _applied(table) < 2:
        apply(table, found.one, ("one", 1))
        compact(table)
        refresh(table, found.rows[2])
    apply(table, found.two, ("one", 2), merge_schema=True)
    compact(table)
    versions.vacuum(table.location, 1 << 60, 2)


def _applied(found: Sample) -> int:
    """The last batch that was applied."""
    changes = versions.latest(found.location).changes
    return 0 if changes is None else changes.last("one") or 0


def check(folder: Path) -> None:
    """The newest version has the rows of before a step, or those of after it."""
    found = steps(folder)
    table = found.sample
    manifest, last = versions.latest(table.location), _applied(table)
    allowed = {0: [0], 1: [1, 2], 2: [3]}[last]
    assert any(_has(table, manifest, found.rows[number]) for number in allowed)
    assert last == (0 if manifest.changes is None else manifest.changes.count)
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
    came = {row["id"] for kind, row, _ in found.two if kind == UPSERT}
    for number, segment in enumerate(opened.segments):
        rows = opened.visible(number).nonzero()[0]
        ids, texts = (segment.take(at, rows).to_pylist() for at in (beside, place))
        for one, text in zip(ids, texts, strict=True):
            assert text == (f"new {one}" if one in came else None)


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


def killed_after(operations: int, folder: Path) -> None:
    """Do the steps; the process is killed before one of the operations."""
    left = [operations]

    def counting(name: str) -> None:
        original = getattr(StorageLocation, name)

        def counted(*args: Any, **options: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return original(*args, **options)

        setattr(StorageLocation, name, counted)

    for name in _OPERATIONS:
        counting(name)
    change(folder)


# -- two processes ---------------------------------------------------------------------------------


def batches_of(writer: int, many: int) -> list[list[Change]]:
    """The batches of a writer: rows of its own, of keys that the other writer has, too."""
    draw = random.Random(writer)
    found, there = [], []
    for number in range(many):
        batch = []
        for place in range(6):
            row = sample(Path(), draw.randrange(1 << 30)).row()
            if place < 3 or not there:
                there.append(10_000 * (1 + writer) + len(there))
                row["id"], kind = there[-1], UPSERT
            else:
                row["id"], kind = draw.choice(there), draw.choice([UPSERT, DELETE])
            batch.append((kind, row | {"seq": number}, 10 * number + place))
        found.append(batch)
    return found


def write(folder: Path, writer: int, many: int) -> None:
    """Apply the batches of a writer from the last one on that is there: a stream does so, too."""
    found = sample(folder)
    changes = versions.latest(found.location).changes
    last = None if changes is None else changes.last(str(writer))
    for number, batch in enumerate(batches_of(writer, many)):
        if number >= (last or 0):
            apply(found, batch, (str(writer), number))
            if number % 3 == writer:
                compact(found)


def two_writers(folder: Path, many: int) -> int:
    """Two processes write, and one is killed again and again; how often."""
    in_child(partial(steps, folder))
    draw, killed = random.Random(3), 0
    other = started(partial(write, folder, 0, many))
    for _ in range(_KILLS):
        child = started(partial(write, folder, 1, many))
        time.sleep(draw.uniform(0.05, 0.6))
        os.kill(child, signal.SIGKILL)
        killed += ended(child) == signal.SIGKILL
    assert not in_child(partial(write, folder, 1, many))
    assert not ended(other)

    def all_is_there() -> None:
        begun = steps(folder)
        found, found.rows = begun.sample, begun.rows[0]
        for writer in range(2):
            for batch in batches_of(writer, many):
                found.model(batch)
        builds.vacuum(found.location, 1, 1 << 60)
        assert not found.location.names("builds")
        assert {*found.location.names("data")} == {
            folder.rpartition("/")[2] for folder in versions.data_folders(found.location)
        }
        manifest = versions.latest(found.location)
        found.check(manifest, found.rows)
        assert manifest.changes is not None
        assert manifest.changes.count == 2 * many
        assert dict(manifest.changes.batches) == {"0": many - 1, "1": many - 1}
        for number in versions.numbers(found.location):
            versions.verify(found.location, versions.load(found.location, number))

    in_child(all_is_there)
    return killed


def main(folder: Path, every: int, batches: int, first: int) -> int:
    operations, died = first, 9
    while died:
        at = folder / f"{operations}"

        def again(at: Path = at) -> None:
            change(at)
            check(at)

        in_child(partial(steps, at))
        died = in_child(partial(killed_after, operations, at))
        in_child(partial(check, at))
        in_child(again)
        operations += every
    print(operations - every, two_writers(folder / "two", batches))
    return 0


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[2:]]
    sys.exit(main(Path(sys.argv[1]), *[*given, *(1, 8, 0)[len(given) :]]))
