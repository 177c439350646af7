"""A store that cannot be used is an error at the call, and nothing half-built stays behind."""

from __future__ import annotations

import errno
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, files, soon

import bsjoin
from bsjoin import BatchTable, Full, HotSpot, Incremental, sources
from bsjoin.build import run_writer as run_writer_module
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    DamagedTableError,
    DuplicateKeyError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    TableMismatchError,
    TableNotFoundError,
)
from bsjoin.storage import RunInfo, SegmentInfo, StorageLocation

pytestmark = pytest.mark.usefixtures("without_code")


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
    for path in (tmp_path, tmp_path / "notes", tmp_path / "nowhere", Path("/proc/bsjoin/table")):
        with pytest.raises(TableNotFoundError, match=r"holds no table.*BatchTable\.build") as error:
            BatchTable.open(path)
        assert str(path) in str(error.value)
    assert not (tmp_path / "nowhere").exists()
    for text, reason in (
        (str(tmp_path / "notes" / "a.txt"), "must be a folder"),
        ("~no-such-user-here/t", "home directory"),
        ("/tmp/\ud800", "surrogates"),
    ):
        with pytest.raises(StoreError, match=reason):
            BatchTable.open(text)


def test_a_path_that_cannot_be_created_is_an_error_of_the_store(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    """Root included; of all that takes a path, and of the worker that makes a cache's folder."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    source = sources.function(lambda keys: rows, rows.schema)
    stream, keys = Feed(spark, tmp_path / "feed").stream, people.select("k")
    reasons = {
        "/proc/bsjoin/table": "No such file",
        f"{tmp_path}/file/table": "Not a directory",
        f"{tmp_path}/{'n' * 300}/table": "too long",
        f"{tmp_path}/ring/table": "Too many levels",
        "local:///proc/bsjoin/table": "No such file",
        f"{tmp_path}/a\0b": "must not contain the character NUL",
    }
    doors: list[Callable[[str], Any]] = [
        lambda path: BatchTable.build(people, on="k", path=path),
        lambda path: bsjoin.join(keys, people, "k", cache=Full(store=path)),
        lambda path: bsjoin.join(stream, people, "k", partition=HotSpot(partitions=2, store=path)),
        lambda path: bsjoin.join(
            keys, source, "k", cache=Incremental(max_rows=9, invalidation_log=path)
        ),
    ]
    for number, (path, reason) in enumerate(reasons.items()):
        for door in doors if number < 2 else doors[:1]:
            with pytest.raises(StoreError, match=reason) as caught:
                door(path)
            assert repr(path) in str(caught.value)
            if "\0" not in path:
                assert isinstance(caught.value, StoreAccessError)
                assert "permission to read and write in it" in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"
    folder = f"{tmp_path}/file/cache"
    joined = bsjoin.join(keys, source, "k", cache=Incremental(max_rows=9, folder=folder))
    with pytest.raises(Exception, match="StoreAccessError: cannot create the folder") as caught:
        joined.collect()
    assert folder in str(caught.value)
    with pytest.raises(StoreError, match="must not contain the character NUL"):
        bsjoin.join(keys, source, "k", cache=Incremental(max_rows=9, folder="/tmp/a\0b"))


def test_a_table_whose_folder_has_gone_says_so(stream: DataFrame, a_copy: Path) -> None:
    table = BatchTable.open(a_copy)
    shutil.rmtree(a_copy)
    for call in (
        lambda: table.version,
        lambda: table.keys,
        table.stats,
        table.verify,
        lambda: table.join(stream),
        lambda: table.refresh(stream),
    ):
        with pytest.raises(TableNotFoundError):
            call()
    assert str(a_copy) in repr(table)


def test_a_path_that_holds_a_table_of_other_keys_is_not_built_over(
    spark: SparkSession, a_table: Path
) -> None:
    before = files(a_table)
    some: list[tuple[str, Any, str]] = [
        ("id AS k, cast(id AS int) AS other", "other", "other (integer)"),
        ("cast(id AS int) AS k", "k", "k (integer)"),
        ("id AS k, id AS other", ["k", "other"], "k (long), other (long)"),
    ]
    for sql, on, wanted in some:
        table = spark.sql(f"SELECT {sql} FROM range(3)")
        with pytest.raises(TableMismatchError) as error:
            BatchTable.build(table, on=on, path=a_table)
        for part in (str(a_table), "k (long)", wanted):
            assert part in str(error.value)
    for sql, says in (
        ("id AS k", "lacks the columns ['name']"),
        ("id AS k, 1 AS name", "'name' is int in the new table and string"),
        ("cast(id AS int) AS k, 'x' AS name", "k (integer)"),
        ("id AS k, 'x' AS name, 'y' AS name", "2 columns called 'name'"),
    ):
        kinds = TableMismatchError, ColumnError
        with pytest.raises(kinds, match=re.escape(says)):
            BatchTable.open(a_table).refresh(spark.sql(f"SELECT {sql} FROM range(3)"))
    assert files(a_table) == before


@pytest.mark.long
def test_a_cycle_refuses_another_table_at_its_path(
    people: DataFrame, stream: DataFrame, a_copy: Path
) -> None:
    cache = Full(store=a_copy, fingerprint="one")
    steered = bsjoin.cycles(people, "k", sink=lambda rows, _: rows.collect(), cache=cache)
    steered(stream, 0)
    BatchTable.build(people.select("k"), on="k", path=a_copy)
    with pytest.raises(TableMismatchError, match="has no column 'name', which this join brings"):
        steered(stream, 1)
    shutil.rmtree(a_copy)
    BatchTable.build(people, on="name", path=a_copy)
    with pytest.raises(TableMismatchError, match=r"the keys name \(string\), not for k \(long\)"):
        steered(stream, 2)


def test_a_table_is_joined_on_its_own_keys_only(
    spark: SparkSession, people: DataFrame, a_table: Path
) -> None:
    table, keys = BatchTable.open(a_table), list[Any](["name", ["k", "name"], {"k": "name"}])
    for on in keys:
        with pytest.raises(TableMismatchError) as error:
            table.join(people, on)
        assert "['k']" in str(error.value)
        assert "'name'" in str(error.value)
    with pytest.raises(ColumnError, match="the stream has no column 'k'"):
        bsjoin.join(spark.range(3), table)
    with pytest.raises(ArgumentError, match="already built"):
        bsjoin.join(people, table, cache=Full())


def damage(path: Path, kind: str) -> None:
    content = bytearray(path.read_bytes())
    if kind == "flip":
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.unlink()


def test_a_damaged_table_is_found_when_it_is_opened_and_the_file_named(
    people: DataFrame, stream: DataFrame, a_copy: Path
) -> None:
    for kind, ending in (("flip", "index.arrow"), ("cut", "1.arrow"), ("remove", "1.arrow")):
        (victim,) = a_copy.glob(f"data/*/*.{ending}")
        table, content = BatchTable.open(a_copy), victim.read_bytes()
        damage(victim, kind)
        for call in (lambda: BatchTable.open(a_copy), table.verify):
            with pytest.raises(DamagedTableError, match="Build the table again") as error:
                call()
            assert repr(victim.relative_to(a_copy).as_posix()) in str(error.value)
            assert str(a_copy) in str(error.value)
        assert BatchTable.open(a_copy, verify=False).stats().rows == 10
        victim.write_bytes(content)
    # What the error advises repairs it, though the rows are the same as before.
    for fingerprint in (None, "two", "two"):
        for victim in a_copy.glob("data/*/*.index.arrow"):
            damage(victim, "flip")
        table = BatchTable.build(people, on="k", path=a_copy, fingerprint=fingerprint)
        assert BatchTable.open(a_copy).version == table.version
        assert table.join(stream).count() == 3


def become_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("mine")


MISSING = ("DamagedTableError: the file 'data/", "is missing;", "Build the table again")
GONE = ("VersionNotFoundError: version 1 of", "not there (any more); there are []", "plan it again")
DENIED = ("StoreAccessError: cannot read '", "Not a directory", "permission to read")


@pytest.mark.parametrize(
    ("break_", "says"),
    [
        (lambda table: next(table.glob("data/*/*.index.arrow")).unlink(), MISSING),
        (lambda table: shutil.rmtree(table), GONE),
        (lambda table: become_a_file(table / "data"), DENIED),
    ],
    ids=["no index", "no table", "data is a file"],
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


def test_a_folder_of_versions_that_cannot_be_listed_fails_a_stream(
    spark: SparkSession, a_copy: Path, tmp_path: Path
) -> None:
    streams = []
    for runtime in ("jvm", "python"):
        feed = Feed(spark, tmp_path / runtime)
        feed.add(1)
        with configured(spark, {"spark.bsjoin.runtime": runtime}):
            query = feed.start(BatchTable.open(a_copy).join(feed.stream))
        query.processAllAvailable()
        streams.append((feed, query))
    become_a_file(a_copy / "versions")
    said = r"StoreAccessError: cannot list.*Not a directory"
    for feed, query in streams:
        feed.add(2)
        with pytest.raises(PySparkException, match=said):
            query.processAllAvailable()


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
@pytest.mark.long
def test_a_full_disk_is_an_error_and_nothing_of_the_build_stays(
    people: DataFrame, a_copy: Path, tmp_path: Path
) -> None:
    large = people.select("k", F.repeat("name", 10_000).alias("name"))
    fresh = tmp_path / "fresh"
    with pytest.raises(StoreFullError) as error:
        BatchTable.build(large, on="k", path=fresh)
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


@pytest.mark.long
def test_a_disk_that_fills_later_is_the_same_error(
    people: DataFrame, a_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While runs are merged, and when a version is published."""

    def merge(location: StorageLocation, name: str, *_: object, **__: object) -> SegmentInfo:
        with location.writing(f"{name}.index.arrow") as path:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("bsjoin.storage.merging.write_segment", merge)
        with pytest.raises(StoreFullError, match="no space left"):
            BatchTable.build(people, on="k", path=tmp_path / "t")
    soon(lambda: files(tmp_path / "t"), [])
    before, create_file = files(a_copy), StorageLocation.create

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


def test_a_key_that_occurs_twice_in_a_unique_table_is_shown(
    spark: SparkSession, people: DataFrame, tmp_path: Path
) -> None:
    # The name of the key is one that the stored table uses for itself.
    twice = spark.sql("SELECT concat('key ', id % 9) AS k0, id AS v FROM range(10)")
    with pytest.raises(DuplicateKeyError, match="leave unique out") as error:
        BatchTable.build(twice, on="k0", path=tmp_path / "t", unique=True)
    assert "unique on ['k0']" in str(error.value)
    assert "k0='key 0'" in str(error.value)
    assert files(tmp_path / "t") == []
    table = BatchTable.build(people, on="k", path=tmp_path / "t", unique=True)
    before = files(tmp_path / "t")
    with pytest.raises(DuplicateKeyError, match="k=3"):
        table.refresh(people.union(people.where("k = 3")))
    assert files(tmp_path / "t") == before
