"""``spark.bsjoin.storage.shared``: each way to a version waits as where machines share a folder."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from sessions import configured

import bsjoin
from bsjoin import BatchTable
from bsjoin.build.publishing import SHARED, stored_at
from bsjoin.commands import main
from bsjoin.errors import ArgumentError
from bsjoin.storage import StorageLocation, versions

pytestmark = pytest.mark.usefixtures("interpreted")

HOST_US, SHARED_US = 40_000, 100_000


@pytest.fixture(autouse=True)
def _on_a_disk_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bsjoin.storage.location.is_of_one_machine", lambda path: True)
    activation = replace(versions._ACTIVATION, host_us=HOST_US, local_us=SHARED_US)
    monkeypatch.setattr(versions, "_ACTIVATION", activation)


def delays(path: Path) -> list[int]:
    """How long after their publication the versions are active; the first one is at once."""
    found = versions.there(StorageLocation.of(path))
    return [one.activates_at_us - one.created_at_us for one in found[1:]]


@pytest.mark.parametrize(("given", "least_us"), [("", HOST_US), ("true", SHARED_US)])
def test_each_way_to_a_version(
    spark: SparkSession, tmp_path: Path, given: str, least_us: int
) -> None:
    def rows(*ids: int) -> DataFrame:
        return spark.createDataFrame([(i, f"name {i}") for i in ids], "id int, name string")

    path = tmp_path / "table"
    changes = spark.createDataFrame([(1, "new", "update")], "id int, name string, op string")
    ways: dict[str, Callable[[], object]] = {
        "refresh": lambda: BatchTable.open(path).refresh(rows(1, 2)),
        "apply": lambda: BatchTable.open(path).apply(changes),
        "compact": lambda: BatchTable.open(path).compact(),
        "build": lambda: BatchTable.build(rows(3), on="id", unique=True, path=path),
        "a join": lambda: bsjoin.join(spark.range(3), rows(4), "id", cache=bsjoin.Full(store=path)),
        "command": lambda: main(
            ["build", str(tmp_path / "rows.parquet"), str(path), "--on", "id", "--json"]
        ),
    }
    if not given:  # all of them come to the same place
        ways = {name: ways[name] for name in ("refresh", "apply", "compact")}
    rows(1).write.parquet(str(tmp_path / "rows.parquet"))
    with configured(spark, {SHARED: given} if given else {}):
        BatchTable.build(rows(1), on="id", unique=True, path=path)
        for way, call in ways.items():
            before = len(delays(path))
            call()
            found = delays(path)
            assert len(found) == before + 1, way
            # A slow machine tries again, and waits longer each time.
            assert found[-1] >= least_us, (way, found)
            assert given or found[-1] < SHARED_US or found[-1] >= 4 * HOST_US, (way, found)


def test_the_setting_is_checked_and_travels(spark: SparkSession, tmp_path: Path) -> None:
    for wrong in ("yes", "1"):
        with configured(spark, {SHARED: wrong}), pytest.raises(ArgumentError, match=SHARED):
            stored_at(tmp_path, spark)
    with configured(spark, {SHARED: " TRUE "}):
        location = stored_at(tmp_path)
    assert location.is_shared
    assert not location.is_of_one_machine
    assert location == StorageLocation.of(tmp_path)
    assert pickle.loads(pickle.dumps(location)).is_shared
    assert stored_at(tmp_path, spark).is_of_one_machine
