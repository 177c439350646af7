"""A table gets other columns while a query runs: added by every door, taken away by none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, rows

import bsjoin
import bsjoin.planner.uses
import bsjoin.storage.uses
from bsjoin import BatchTable, Full
from bsjoin._clock import now_us
from bsjoin.errors import DuplicateKeyError, TableMismatchError
from bsjoin.host.processes import ProcessId
from bsjoin.storage import StorageLocation
from bsjoin.storage.uses import Note, Uses, others

pytestmark = [pytest.mark.usefixtures("runtime", "soon_active"), pytest.mark.in_turns("runtime")]

DOORS: dict[str, Callable[[Path, DataFrame], Any]] = {
    "refresh": lambda path, df: BatchTable.open(path).refresh(df),
    "build": lambda path, df: BatchTable.build(df, on="k", path=path),
    "store": lambda path, df: bsjoin.join(
        df.sparkSession.range(2).toDF("k"), df, "k", cache=Full(store=path)
    ),
}


@pytest.fixture(autouse=True)
def _no_other_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bsjoin.planner.uses, "_noted", {})


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first version; the tests take copies."""
    path = tmp_path_factory.mktemp("built") / "table"
    BatchTable.build(changed(spark, 1), on="k", path=path)
    return path


@pytest.fixture
def path(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "table"))


def changed(spark: SparkSession, version: int, **columns: str) -> DataFrame:
    """The table, some of its columns made anew, left out (an empty text) or added."""
    known = {"k": "id", "v": f"int({version})", "w": "int(id)", "free": "'x'"}
    named = {**known, "many": "array(int(id))", **columns}
    return spark.range(3).selectExpr(
        *(f"{value} AS {name}" for name, value in named.items() if value)
    )


def running(feed: Feed, path: Path, how: str = "left") -> Any:
    joined = BatchTable.open(path).join(feed.stream, how=how, select=["v", "w", "many"])
    query = feed.start(joined)
    assert feed.turn(query, 1) == [(1, 1, 1, [1])]
    return query


HARMLESS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "added": lambda df: df.withColumn("new", F.col("k") * 10),
    "in another order": lambda df: df.withColumn("new", F.lit(7)).select("new", *df.columns[::-1]),
    "in another case": lambda df: df.withColumn("new", F.lit(7)).toDF(
        *(name.upper() for name in [*df.columns, "new"])
    ),
    "may be null, and commented": lambda df: df.selectExpr(
        "k", "v", "nullif(w, 0) AS w", "free", "array(w, nullif(w, 0)) AS many", "7 AS new"
    ).withMetadata("v", {"comment": "it"}),
}
TAKEN: dict[str, dict[str, str]] = {
    "gone": {"v": ""},
    "renamed": {"v": "", "value": "int(9)"},
    "wider": {"v": "bigint(9)"},
    "a text": {"w": "'9'"},
    "wider inside": {"many": "array(bigint(id))"},
}


def on_disk(path: Path) -> list[Path]:
    """What a table has on disk, without the notes of running queries, which these renew."""
    return sorted(one for one in path.rglob("*") if "readers" not in one.parts)


# How many changes are tried: the other doors lead to the same places.
@pytest.mark.parametrize(
    ("door", "some"),
    [
        ("refresh", 2),
        *(
            pytest.param(door, some, marks=pytest.mark.long)
            for door, some in (("refresh", None), ("build", 2), ("store", 1))
        ),
    ],
)
def test_a_running_query_keeps_the_columns_that_it_uses(
    spark: SparkSession, feed: Feed, path: Path, door: str, some: int | None
) -> None:
    query, before = running(feed, path), on_disk(path)
    for name, change in list(TAKEN.items())[:some]:
        with pytest.raises(TableMismatchError) as caught:
            DOORS[door](path, changed(spark, 9, **change))
        if door in ("build", "store"):
            assert f"running queries ({query.id}) use the columns ['many', 'v', 'w']" in str(
                caught.value
            ), name
        assert all(f"'{c}'" in str(caught.value) for c in change if c != "value"), name
    for change in ({"k": "int(id)"}, {"k": "", "key": "id"}):
        with pytest.raises(Exception, match=r"lacks the columns|for the keys|no column|family"):
            DOORS[door](path, changed(spark, 9, **change))
    assert on_disk(path) == before
    assert feed.turn(query, 1) == [(1, 1, 1, [1])]
    # And does not notice other changes.
    for version, (name, make) in enumerate(list(HARMLESS.items())[:some], 2):
        df = make(changed(spark, version)).withColumn("new", F.col("new").cast("long"))
        DOORS[door](path, df)
        table = BatchTable.open(path)
        given = [column.lower() for column in df.columns]
        kept = ["k", "v", "w", "free", "many", "new"]
        assert table.columns == (given if door == "build" else kept), name
        assert feed.turn(query, 1) == [(1, version, 1, [1, 1] if "null" in name else [1])]
        # Later calls bring what was added.
        found = rows(table.join(spark.range(1, 2).toDF("k"), select=["v", "new"]))
        assert found == [(1, version, 10 if name == "added" else 7)], name


def test_what_no_running_query_uses_goes_where_a_call_says_so(
    spark: SparkSession, feed: Feed, path: Path
) -> None:
    query = running(feed, path)
    narrow = changed(spark, 2, free="")
    with pytest.raises(TableMismatchError, match=r"lacks the columns \['free'\]"):
        BatchTable.open(path).refresh(narrow)
    BatchTable.build(narrow, on="k", path=path)
    assert feed.turn(query, 1) == [(1, 2, 1, [1])]
    BatchTable.build(changed(spark, 3, free="int(5)"), on="k", path=path)  # in another type
    assert feed.turn(query, 1) == [(1, 3, 1, [1])]
    # A case-sensitive session adds a column of another case, which does not stand for it.
    with configured(spark, {"spark.sql.caseSensitive": "true"}):
        df = changed(spark, 4, free="int(5)").withColumn("V", F.lit(5))
        BatchTable.open(path).refresh(df)
        assert BatchTable.open(path).columns == ["k", "v", "w", "free", "many", "V"]
        with pytest.raises(TableMismatchError, match="lacks"):
            BatchTable.build(changed(spark, 5, v="", V="5"), on="k", path=path)
    assert feed.turn(query, 1) == [(1, 4, 1, [1])]
    query.stop()
    # Nobody runs: the call decides.
    table = BatchTable.build(changed(spark, 6, v="", w="'w'"), on="k", path=path)
    assert table.columns == ["k", "w", "free", "many"]


@pytest.mark.long
def test_range_columns_never_change_and_are_found_in_another_case(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    path, when = tmp_path / "ranges", bsjoin.Band("k", "p", before=0, after=0)

    def table(*columns: str) -> DataFrame:
        return spark.range(3).selectExpr("id % 1 AS g", *columns)

    BatchTable.build(table("id AS p", "1 AS v"), on="g", when=when, path=path)
    stream = feed.stream.selectExpr("k", "0L AS g")
    query = feed.run(BatchTable.open(path).join(stream, how="left", select=["v", "p"]), 1)
    for columns in (["1 AS v"], ["int(id) AS p", "1 AS v"]):
        for door in (
            lambda df: BatchTable.open(path).refresh(df),
            lambda df: BatchTable.build(df, on="g", when=when, path=path),
        ):
            with pytest.raises(bsjoin.BSJoinError, match=r"lacks the columns|ranges of|column"):
                door(table(*columns))
    other = bsjoin.Band("k", "P", before=0, after=0)
    spelled = table("id AS P", "2 AS v", "3 AS new")
    BatchTable.build(spelled, on="g", when=other, path=path)
    assert feed.turn(query, 1) == [(1, 0, 2, 1)]
    probes = spark.range(1, 2).selectExpr("id AS k", "id - 1 AS g")
    joined = bsjoin.join(probes, spelled, "g", when=other, cache=Full(store=path))
    assert joined.columns == ["k", "g", "P", "v", "new"]
    assert rows(joined) == [(1, 0, 1, 2, 3)]


@pytest.mark.long
def test_a_promise_of_uniqueness_that_a_query_relies_on_stays(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    path = tmp_path / "unique"
    one = spark.range(3).selectExpr("id AS k", "1 AS v")
    table = BatchTable.build(one, on="k", path=path, unique=True)
    query = feed.run(table.join(feed.stream, select=[]), 1)
    with pytest.raises(DuplicateKeyError, match="running query was planned"):
        BatchTable.build(one.union(one), on="k", path=path)
    BatchTable.build(one.where("k < 2"), on="k", path=path)  # the promise alone may go
    assert feed.turn(query, 1) == [(1,)]


@pytest.mark.long
def test_a_replay_of_an_older_version_has_nulls_in_what_was_added(
    spark: SparkSession, feed: Feed, path: Path
) -> None:
    def start() -> Any:
        return feed.start(BatchTable.open(path).join(feed.stream, how="left"))

    query = start()
    feed.turn(query, 1)
    query.stop()
    BatchTable.open(path).refresh(
        changed(spark, 2, new="id * 10", text="'t'", list="array(id)", exact="decimal(1.5)")
    )
    number = feed.forget_last_commit()
    query = start()
    assert feed.turn(query, 1)[0][:7] == (1, 2, 1, "x", [1], 10, "t")
    assert feed.results[number] == [(1, 1, 1, "x", [1], None, None, None, None)]
    query.stop()
    # One of another type is an error that says what to do.
    BatchTable.build(changed(spark, 3, v="'text'"), on="k", path=path)
    feed.forget_last_commit()
    query = feed.start(BatchTable.open(path).join(feed.stream, select=["v"]))
    with pytest.raises(Exception, match="start the query from a new checkpoint"):
        query.processAllAvailable()


@pytest.mark.long
def test_micro_batches_and_cycles_keep_their_columns(
    spark: SparkSession, feed: Feed, path: Path
) -> None:
    seen: dict[str, list[Any]] = {"plain": [], "cycles": []}
    steered = bsjoin.cycles(
        BatchTable.open(path), "k", sink=lambda df, _: seen["cycles"].append(rows(df))
    )

    def call(batch: DataFrame, number: int) -> None:
        seen["plain"].append(rows(BatchTable.open(path).join(batch, select=["v"])))
        steered(batch, number)

    query = feed.call(call)
    feed.turn(query, 1)
    for column in ("v", "free"):
        with pytest.raises(TableMismatchError, match="use the columns"):
            BatchTable.build(changed(spark, 9, **{column: ""}), on="k", path=path)
    BatchTable.open(path).refresh(changed(spark, 2, new="id"))
    feed.turn(query, 1)
    assert seen["plain"] == [[(1, 1)], [(1, 2)]]
    # The columns of a cycle are those of the first one.
    assert seen["cycles"] == [[(1, 1, 1, "x", [1])], [(1, 2, 1, "x", [1])]]


def test_which_notes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = StorageLocation.of(tmp_path)
    uses = Uses(frozenset({"v"}), unique=True)
    content = uses.to_bytes()
    now, old = now_us(), now_us() - 3_600_000_000
    here, elsewhere = ProcessId.of(os.getpid()), ProcessId(1, "1", "1", "another")
    for number, process in enumerate((here, elsewhere, "0")):
        for written, counts in ((now, True), (old, False)):
            location.create(f"readers/{number:032x}-{process}-{written}", content)
            assert others(location, []) == (uses if counts else Uses()), number
            assert bool(location.names("readers")) == counts, number
            location.remove("readers")
    location.create(f"readers/{7:032x}-{here}-{now}", content)
    assert others(location, [f"{7:032x}"]) == Uses()
    for hostile in (b"{", b"[]", b'{"columns": [1], "unique": true}', b"[" * 100_000):
        location.remove("readers")
        location.create(f"readers/{8:032x}-{here}-{now}", hostile)
        assert others(location, []) == Uses()
    # One that is listed and not there takes nothing from the others.
    (tmp_path / "readers" / f"{6:032x}-{here}-{now}").symlink_to(tmp_path / "gone")
    location.create(f"readers/{7:032x}-{here}-{now}", content)
    assert others(location, []) == uses
    # A note is written anew under one name.
    location.remove("readers")
    note = Note(location, ends_with_process=True)
    for number in range(3):
        note.write(Uses(frozenset({f"c{number}"})))
    assert len(location.names("readers")) == 1
    assert others(location, []).columns == {"c2"}
    # Also after the clock was set back.
    assert not note.is_due
    later_s = time.monotonic() + 301
    monkeypatch.setattr("bsjoin.storage.uses.now_us", lambda: old)
    monkeypatch.setattr("bsjoin.storage.uses.time.monotonic", lambda: later_s)
    assert note.is_due


def test_the_queries_of_another_application_count_as_long_as_it_lives(
    spark: SparkSession, path: Path
) -> None:
    location, uses = StorageLocation.of(path), Uses(frozenset({"v"})).to_bytes()
    note = f"readers/{1:032x}-{ProcessId.of(os.getppid())}-{now_us()}"
    location.create(note, uses)
    with pytest.raises(TableMismatchError, match=r"running queries use the columns \['v'\]"):
        BatchTable.build(changed(spark, 9, v=""), on="k", path=path)
    BatchTable.build(changed(spark, 2, w=""), on="k", path=path)
    location.remove(note)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        dead = ProcessId.of(ended.pid)
    location.create(f"readers/{1:032x}-{dead}-{now_us()}", uses)
    # What a hostile note says runs no code, and what is not there is kept from nobody.
    hostile = json.dumps({"type": "udt", "pyClass": "of_the_note.Type", "sqlType": "integer"})
    for number, columns in enumerate(({"v": hostile}, ["gone", hostile])):
        content = json.dumps({"columns": columns, "unique": False}).encode()
        location.create(f"readers/{number + 2:032x}-0-{now_us()}", content)
    BatchTable.build(changed(spark, 3, v=""), on="k", path=path)


def test_a_table_that_is_removed_does_not_come_back_by_its_note(feed: Feed, path: Path) -> None:
    other = Path(shutil.copytree(path, path.with_name("other")))
    for folder in (path, other):
        BatchTable.open(folder).join(feed.stream, select=["v"])
    (before,) = (other / "readers").iterdir()
    shutil.rmtree(path)
    bsjoin.planner.uses._write_anew()
    assert not path.exists()
    assert list(bsjoin.planner.uses._noted) == [str(other)]
    (after,) = (other / "readers").iterdir()
    assert after != before


def test_a_table_that_cannot_be_written_to_can_be_joined(
    spark: SparkSession, feed: Feed, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(location: StorageLocation, name: str, *_: object) -> bool:
        raise bsjoin.errors.StoreAccessError(f"cannot write {name!r}")

    with monkeypatch.context() as patched:
        patched.setattr(StorageLocation, "create", refused)
        query = running(feed, path)
    assert feed.turn(query, 1) == [(1, 1, 1, [1])]
    # This application knows its own queries all the same.
    with pytest.raises(TableMismatchError, match=rf"running queries \({query.id}\) use"):
        BatchTable.build(changed(spark, 9, v=""), on="k", path=path)
