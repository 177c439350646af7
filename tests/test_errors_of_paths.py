"""A path that cannot be created is an error of the store, which names the path and the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed

import bsjoin
from bsjoin import BatchTable, Full, HotSpot, Incremental, sources
from bsjoin.errors import StoreAccessError, StoreError, TableNotFoundError

TABLE = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


@pytest.fixture(
    params=["below /proc", "below a file", "a long name", "links in a ring", "local URL", "NUL"]
)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A path that nobody can create, root included."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    return {
        "below /proc": "/proc/bsjoin/table",
        "below a file": f"{tmp_path}/file/table",
        "a long name": f"{tmp_path}/{'n' * 300}/table",
        "links in a ring": f"{tmp_path}/ring/table",
        "local URL": "local:///proc/bsjoin/table",
        "NUL": f"{tmp_path}/a\0b",
    }[str(request.param)]


def test_a_path_that_cannot_be_created_is_an_error_of_the_store(
    spark: SparkSession, people: DataFrame, tmp_path: Path, path: str
) -> None:
    source = sources.function(lambda keys: TABLE, TABLE.schema)
    stream = Feed(spark, tmp_path / "feed").stream
    keys = people.select("k")
    calls: list[Callable[[], Any]] = [
        lambda: BatchTable.build(people, on="k", path=path),
        lambda: bsjoin.join(keys, people, "k", cache=Full(store=path)),
        lambda: bsjoin.join(stream, people, "k", partition=HotSpot(partitions=2, store=path)),
        lambda: bsjoin.join(
            keys, source, "k", cache=Incremental(max_rows=9, invalidation_log=path)
        ),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        if "\0" in path:
            assert "must not contain the character NUL" in str(caught.value)
        else:
            assert isinstance(caught.value, StoreAccessError)
            assert any(
                reason in str(caught.value)
                for reason in ("No such file", "Not a directory", "too long", "Too many levels")
            )
            assert "permission to read and write in it" in str(caught.value)
        assert repr(path) in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_for_the_cache_that_cannot_be_created_is_named_by_the_worker(
    people: DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    source = sources.function(lambda keys: TABLE, TABLE.schema)
    for folder in (f"{tmp_path}/file/cache", "/proc/bsjoin", f"{tmp_path}/{'n' * 300}"):
        cache = Incremental(max_rows=9, folder=folder)
        joined = bsjoin.join(people.select("k"), source, "k", cache=cache)
        with pytest.raises(Exception, match="StoreAccessError: cannot create the folder") as caught:
            joined.collect()
        assert folder in str(caught.value)
    with pytest.raises(StoreError, match="must not contain the character NUL"):
        bsjoin.join(
            people.select("k"), source, "k", cache=Incremental(max_rows=9, folder="/tmp/a\0b")
        )


@pytest.mark.parametrize("path", ["/nowhere/at/all", "/proc/bsjoin/table"])
def test_a_path_that_is_not_there_holds_no_table(spark: SparkSession, path: str) -> None:
    with pytest.raises(TableNotFoundError, match="holds no table"):
        BatchTable.open(path)


def test_a_location_of_an_unknown_scheme_is_an_error_of_the_store(spark: SparkSession) -> None:
    for path, reason in (("~no-such-user-here/t", "home directory"), ("/tmp/\ud800", "surrogates")):
        with pytest.raises(StoreError, match=reason):
            BatchTable.open(path)
