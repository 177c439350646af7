"""A store that cannot be used is an error at the call, and nothing half-built stays behind."""

from __future__ import annotations

import errno
import json
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from damaged_tables import index_cells, poke
from oracle import settings as spark_settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, files, soon

import bsjoin
from bsjoin import BatchTable, Full, Stats
from bsjoin.build import run_writer as run_writer_module
from bsjoin.errors import (
    DamagedTableError,
    DuplicateKeyError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    TableMismatchError,
    TableNotFoundError,
)
from bsjoin.storage import RunInfo, SegmentInfo, StorageLocation


@pytest.fixture
def stream(spark: SparkSession) -> DataFrame:
    return spark.range(3).withColumnRenamed("id", "k")


@pytest.fixture(scope="module")
def a_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored table; the tests only read it."""
    path = tmp_path_factory.mktemp("store") / "people"
    people = spark.range(10).selectExpr("id AS k", "concat('name ', id) AS name")
    BatchTable.build(people, on="k", path=path, fingerprint="one")
    return path


@pytest.fixture
def a_copy(a_table: Path, tmp_path: Path) -> Path:
    """A copy of the stored table, to be damaged."""
    return Path(shutil.copytree(a_table, tmp_path / "copy"))


def test_a_folder_without_a_table_cannot_be_opened(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes", tmp_path / "nowhere"):
        with pytest.raises(TableNotFoundError) as error:
            BatchTable.open(path)
        assert str(path) in str(error.value)
        assert "BatchTable.build" in str(error.value)
    assert not (tmp_path / "nowhere").exists()


def test_a_file_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError) as error:
        BatchTable.open(tmp_path / "file")
    assert "must be a folder" in str(error.value)


def test_a_table_of_another_format_is_neither_opened_nor_built_over(
    people: DataFrame, a_copy: Path
) -> None:
    manifest = a_copy / "versions" / "00000001.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    before = files(a_copy)
    for call in (
        lambda: BatchTable.open(a_copy),
        lambda: BatchTable.build(people, on="k", path=a_copy),
    ):
        with pytest.raises(TableNotFoundError, match=r"format 99.*reads format 1"):
            call()
    assert files(a_copy) == before


def test_a_table_whose_folder_has_gone_says_so(stream: DataFrame, a_copy: Path) -> None:
    table = BatchTable.open(a_copy)
    shutil.rmtree(a_copy)
    for call in (
        lambda: table.version,
        lambda: table.keys,
        table.stats,
        lambda: table.join(stream),
        lambda: table.refresh(stream),
    ):
        with pytest.raises(TableNotFoundError):
            call()
    assert str(a_copy) in repr(table)


@pytest.mark.parametrize(
    ("sql", "on", "wanted"),
    [
        ("id AS k, cast(id AS int) AS other", "other", "other (integer)"),
        ("cast(id AS int) AS k", "k", "k (integer)"),
        ("id AS k, id AS other", ["k", "other"], "k (long), other (long)"),
    ],
)
def test_a_path_that_holds_a_table_of_other_keys_is_not_built_over(
    spark: SparkSession, a_table: Path, sql: str, on: Any, wanted: str
) -> None:
    table = spark.sql(f"SELECT {sql} FROM range(3)")
    before = files(a_table)
    with pytest.raises(TableMismatchError) as error:
        BatchTable.build(table, on=on, path=a_table)
    assert str(a_table) in str(error.value)
    assert "k (long)" in str(error.value)
    assert wanted in str(error.value)
    with pytest.raises(TableMismatchError):
        bsjoin.join(table, table, on=on, cache=Full(store=a_table))
    assert files(a_table) == before


def test_a_cycle_refuses_another_table_at_its_path(
    people: DataFrame, stream: DataFrame, a_copy: Path
) -> None:
    steered = bsjoin.cycles(
        people,
        "k",
        sink=lambda rows, _: rows.collect(),
        cache=Full(store=a_copy, fingerprint="one"),
    )
    steered(stream, 0)
    BatchTable.build(people.select("k"), on="k", path=a_copy)
    with pytest.raises(TableMismatchError, match="has no column 'name', which this join brings"):
        steered(stream, 1)
    shutil.rmtree(a_copy)
    BatchTable.build(people, on="name", path=a_copy)
    with pytest.raises(TableMismatchError, match=r"the keys name \(string\), not for k \(long\)"):
        steered(stream, 2)


@pytest.mark.parametrize("on", ["name", ["k", "name"], {"k": "name"}])
def test_a_table_is_joined_on_its_own_keys_only(people: DataFrame, a_table: Path, on: Any) -> None:
    table = BatchTable.open(a_table)
    with pytest.raises(TableMismatchError) as error:
        table.join(people, on)
    assert "['k']" in str(error.value)
    assert "'name'" in str(error.value)


def test_the_error_for_a_stream_without_the_tables_key_names_it(
    spark: SparkSession, a_table: Path
) -> None:
    with pytest.raises(bsjoin.errors.ColumnError, match="the stream has no column 'k'"):
        bsjoin.join(spark.range(3), BatchTable.open(a_table))


def test_a_built_table_takes_no_cache_option(stream: DataFrame, a_table: Path) -> None:
    with pytest.raises(bsjoin.errors.ArgumentError, match="already built"):
        bsjoin.join(stream, BatchTable.open(a_table), cache=Full())


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("id AS k", "lacks the columns ['name']"),
        ("id AS key, 'x' AS name", "lacks the columns ['k']"),
        ("id AS k, 1 AS name", "'name' is int in the new table and string"),
        ("cast(id AS int) AS k, 'x' AS name", "k (integer)"),
        ("id AS k, 'x' AS name, 'y' AS name", "2 columns called 'name'"),
    ],
)
def test_a_refresh_with_other_columns_is_refused(
    spark: SparkSession, a_table: Path, sql: str, says: str
) -> None:
    before = files(a_table)
    with pytest.raises((TableMismatchError, bsjoin.errors.ColumnError), match=re.escape(says)):
        BatchTable.open(a_table).refresh(spark.sql(f"SELECT {sql} FROM range(3)"))
    assert files(a_table) == before


def damage(path: Path, kind: str) -> None:
    content = bytearray(path.read_bytes())
    if kind == "flip":
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.unlink()


@pytest.mark.parametrize("kind", ["flip", "cut", "remove"])
@pytest.mark.parametrize("ending", ["index.arrow", "1.arrow"])
def test_a_damaged_table_is_found_when_it_is_opened_and_the_file_named(
    a_copy: Path, kind: str, ending: str
) -> None:
    (victim,) = a_copy.glob(f"data/*/*.{ending}")
    table = BatchTable.open(a_copy)
    damage(victim, kind)
    name = victim.relative_to(a_copy).as_posix()
    for call in (
        lambda: BatchTable.open(a_copy),
        table.verify,
    ):
        with pytest.raises(DamagedTableError) as error:
            call()
        assert repr(name) in str(error.value)
        assert str(a_copy) in str(error.value)
        assert "Build the table again" in str(error.value)
    assert BatchTable.open(a_copy, verify=False).stats().rows == 10


@pytest.mark.parametrize("file", ["index", "column"])
def test_a_file_that_is_damaged_and_signed_is_an_error_in_the_worker_and_when_it_is_verified(
    stream: DataFrame, a_copy: Path, file: str
) -> None:
    if file == "index":

        def shortened(cells: dict[str, Any]) -> None:
            cells["hashes"][0] = cells["hashes"][1] + 1

        name, says = index_cells(a_copy, shortened), "the hashes fall at row 1"
    else:
        name, says = poke(a_copy, 1, 1, 10, 1 << 30), "Offset invariant failure"
    with pytest.raises(DamagedTableError, match=says) as error:
        BatchTable.open(a_copy)
    assert name in str(error.value)
    table = BatchTable.open(a_copy, verify=False)
    with pytest.raises(DamagedTableError, match=says):
        table.verify()
    # The JVM checks what it reads while it reads: tests/jvm/.
    with spark_settings(stream.sparkSession, spark__bsjoin__runtime="python"):
        joined = table.join(stream)
    with pytest.raises(PySparkException) as failed:
        joined.collect()
    for part in ("DamagedTableError", repr(name), repr(str(a_copy)), says, "build the table again"):
        assert part in str(failed.value)


def index_of(folder: Path) -> Path:
    (path,) = folder.glob("data/*/*.index.arrow")
    return path


def column_of(folder: Path) -> Path:
    (path,) = folder.glob("data/*/*.1.arrow")
    return path


def manifest_of(folder: Path) -> Path:
    return folder / "versions" / "00000001.json"


def become_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("mine")


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


MISSING = ("DamagedTableError: the file 'data/", "is missing;", "Build the table again")
GONE = ("VersionNotFoundError: version 1 of", "not there (any more); there are []", "plan it again")
NO_FOLDER = ("StoreAccessError: cannot read '", "Not a directory", "permission to read")
NO_FILE = ("StoreAccessError: cannot read '", "Is a directory", "permission to read")


@pytest.mark.parametrize(
    ("break_", "says"),
    [
        (lambda table: index_of(table).unlink(), MISSING),
        (lambda table: column_of(table).unlink(), MISSING),
        (lambda table: manifest_of(table).unlink(), GONE),
        (lambda table: shutil.rmtree(table), GONE),
        (lambda table: become_a_file(table / "data"), NO_FOLDER),
        (lambda table: become_a_folder(index_of(table)), NO_FILE),
        (lambda table: become_a_folder(manifest_of(table)), NO_FILE),
        (lambda table: become_a_loop(index_of(table)), (NO_FILE[0], "Too many levels", NO_FILE[2])),
    ],
    ids=[
        *("no index", "no column", "no manifest", "no table"),
        *("data is a file", "index is a folder", "manifest is a folder"),
        "index is a loop",
    ],
)
def test_what_is_missing_or_cannot_be_read_is_the_same_error_in_both_runtimes(
    runtime: str,
    stream: DataFrame,
    a_copy: Path,
    break_: Callable[[Path], None],
    says: Sequence[str],
) -> None:
    joined = BatchTable.open(a_copy).join(stream)
    break_(a_copy)
    with pytest.raises((PySparkException, StoreError, Py4JJavaError)) as failed:
        joined.collect()
    for part in (*says, repr(str(a_copy))):
        assert part in str(failed.value)


def test_a_folder_of_versions_that_cannot_be_listed_fails_a_stream_of_either_runtime(
    runtime: str, feed: Feed, a_copy: Path
) -> None:
    feed.add(1)
    query = feed.start(BatchTable.open(a_copy).join(feed.stream))
    query.processAllAvailable()
    become_a_file(a_copy / "versions")
    feed.add(2)
    with pytest.raises(PySparkException, match=r"StoreAccessError: cannot list.*Not a directory"):
        query.processAllAvailable()


@pytest.mark.parametrize(
    "fingerprint", [None, "two", "one"], ids=["unknown", "changed", "unchanged"]
)
def test_building_a_damaged_table_again_repairs_it(
    people: DataFrame, stream: DataFrame, a_copy: Path, fingerprint: str | None
) -> None:
    (victim,) = a_copy.glob("data/*/*.index.arrow")
    damage(victim, "flip")
    # What the error of a damaged table advises; the rows are the same as before.
    table = BatchTable.build(people, on="k", path=a_copy, fingerprint=fingerprint)
    assert BatchTable.open(a_copy).version == table.version
    assert table.join(stream).count() == 3


def test_a_path_below_a_file_cannot_be_built_in(
    people: DataFrame, stream: DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / "table"
    for call in (
        lambda: BatchTable.build(people, on="k", path=path),
        lambda: bsjoin.join(stream, people, cache=Full(store=path)),
        lambda: BatchTable.open(path),
    ):
        with pytest.raises(StoreAccessError) as error:
            call()
        assert str(path) in str(error.value)
        assert "permission to read and write" in str(error.value)
    assert files(tmp_path) == [tmp_path / "file"]


def test_a_url_with_credentials_is_refused_before_anything_runs(
    people: DataFrame, stream: DataFrame
) -> None:
    for call in (
        lambda: BatchTable.build(people, on="k", path="s3://me:s3cr3t@bucket/table"),
        lambda: BatchTable.open("s3://me:s3cr3t@bucket/table"),
        lambda: bsjoin.join(stream, people, cache=Full(store="s3://me:s3cr3t@bucket/table")),
    ):
        with pytest.raises(StoreError, match="credentials") as error:
            call()
        assert "s3cr3t" not in str(error.value)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that cannot write a file of more than 1,000 bytes, while they write runs.

    A limit on the size of files gives the errors of a full disk, and needs no rights.
    """
    write = run_writer_module.write_run

    def write_little(*arguments: Any) -> RunInfo:
        import resource

        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
        try:
            return write(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)

    # The function that is shipped to the workers takes this one along by value.
    monkeypatch.setattr(run_writer_module, "write_run", write_little)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_is_an_error_and_nothing_of_the_build_stays(
    people: DataFrame, stream: DataFrame, a_copy: Path, tmp_path: Path
) -> None:
    large = people.select("k", F.repeat("name", 10_000).alias("name"))
    fresh = tmp_path / "fresh"
    for call in (
        lambda: BatchTable.build(large, on="k", path=fresh),
        lambda: bsjoin.join(stream, large, cache=Full(store=fresh)),
    ):
        with pytest.raises(StoreFullError) as error:
            call()
        assert str(fresh) in str(error.value)
        assert "free space" in str(error.value)
    soon(lambda: files(fresh), [])
    with pytest.raises(TableNotFoundError):
        BatchTable.open(fresh)

    before = files(a_copy)
    with pytest.raises(StoreFullError):
        BatchTable.open(a_copy).refresh(large)
    soon(lambda: files(a_copy), before)
    assert BatchTable.open(a_copy).version == 1


def test_a_disk_that_fills_while_runs_are_merged_is_the_same_error(
    people: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge(location: StorageLocation, name: str, *_: object, **__: object) -> SegmentInfo:
        with location.writing(f"{name}.index.arrow") as path:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bsjoin.storage.merging.write_segment", merge)
    with pytest.raises(StoreFullError, match="no space left"):
        BatchTable.build(people, on="k", path=tmp_path / "t")
    soon(lambda: files(tmp_path / "t"), [])


def test_a_disk_that_fills_when_a_version_is_published_is_the_same_error(
    people: DataFrame, a_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(a_copy)

    create_file = StorageLocation.create

    def create(location: StorageLocation, name: str, *rest: Any) -> bool:
        if not name.startswith("versions/"):
            return create_file(location, name, *rest)
        raise StoreFullError(f"cannot write {name!r} in {str(location)!r}: no space left")

    monkeypatch.setattr(StorageLocation, "create", create)
    with pytest.raises(StoreFullError, match="00000002"):
        BatchTable.open(a_copy).refresh(people.limit(3))
    assert files(a_copy) == before


def test_an_error_of_the_source_is_sparks_own_and_nothing_of_the_build_stays(
    people: DataFrame, tmp_path: Path
) -> None:
    broken = people.withColumn("name", F.expr("if(k < 9, name, raise_error('I am broken'))"))
    with pytest.raises(PySparkException, match="I am broken"):
        BatchTable.build(broken, on="k", path=tmp_path / "t")
    soon(lambda: files(tmp_path / "t"), [])


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("id % 9", "k0=0"),
        ("concat('key ', id % 9)", "k0='key 0'"),
    ],
)
def test_a_key_that_occurs_twice_in_a_unique_table_is_shown(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, key: str, shown: str
) -> None:
    # The name of the key is one that the stored table uses for itself.
    table = spark.sql(f"SELECT {key} AS k0, id AS v FROM range(10)")
    for call in (
        lambda: BatchTable.build(table, on="k0", path=tmp_path / "t", unique=True),
        lambda: bsjoin.join(table.select("k0"), table, cache=Full(unique=True)),
    ):
        with pytest.raises(DuplicateKeyError) as error:
            call()
        assert "unique on ['k0']" in str(error.value)
        assert shown in str(error.value)
        assert "leave unique out" in str(error.value)
    assert files(tmp_path / "t") == []


def test_a_refresh_that_breaks_a_promise_of_uniqueness_leaves_the_table_as_it_was(
    people: DataFrame, tmp_path: Path
) -> None:
    table = BatchTable.build(people, on="k", path=tmp_path / "t", unique=True)
    before = files(tmp_path / "t")
    with pytest.raises(DuplicateKeyError, match="k=3"):
        table.refresh(people.union(people.where("k = 3")))
    with pytest.raises(DuplicateKeyError):
        BatchTable.open(tmp_path / "t").refresh(people.union(people))
    assert files(tmp_path / "t") == before
    assert isinstance(table.stats(), Stats)
