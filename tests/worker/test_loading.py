"""Keys that other workers load: their rows are read where they are, whatever happened meanwhile."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_files import in_sqlite

from bsjoin.cache import CacheLimits, ConnectionSemaphore, Found, HostCache, State
from bsjoin.errors import DataError, LookupFailedError
from bsjoin.plan import RetryPolicy
from bsjoin.runtimes.python.worker.batch import Batch, Tally
from bsjoin.runtimes.python.worker.connections import SharedConnection
from bsjoin.runtimes.python.worker.grouping import CacheRows
from bsjoin.runtimes.python.worker.loading import Loader
from bsjoin.runtimes.python.worker.null_keys import hashed
from bsjoin.runtimes.python.worker.row_refs import gathered
from bsjoin.runtimes.python.worker.source_client import SourceClient
from bsjoin.sources import sql
from bsjoin.sources.transient import TransientSourceError

HASHES = np.array([7])
KEYS = [pa.array([7])]
KEY = Batch(HASHES, KEYS, None)
TICKS = np.array([1])


class View:
    """What stands for a generation of the cache."""

    def __init__(self, rows: list[str]) -> None:
        self.rows = SimpleNamespace(
            gather=lambda where, numbers=None: [pa.array(rows).take(pa.array(where))]
        )


def found(view: Any, state: State) -> Found:
    count = int(state == State.HIT)
    return Found(view, np.array([0]), np.array([state], np.int8), np.array([0]), np.array([count]))


class Replaced:
    """A cache that is compacted while a key is awaited: its third view is where the first was."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.kept: list[View] = []

    def claim(self, *_: Any) -> Found:
        if len(self.seen) < 2:
            view = View(["old"])
            self.seen.append(id(view))
            return found(view, State.WAIT)
        for _ in range(20):
            view = View(["new"])
            if id(view) == self.seen[0]:
                break
            self.kept.append(view)
        return found(view, State.HIT)


def test_a_generation_that_has_gone_is_not_taken_for_the_one_at_its_address() -> None:
    places: list[CacheRows] = []
    loader = Loader(None, Replaced(), None)  # type: ignore[arg-type]
    loaded = loader.load(KEY, TICKS, places, Tally())
    (rows,) = gathered(places, loaded.place, loaded.first)
    assert rows.to_pylist() == ["new"]


def test_claims_are_released_whatever_fails_before_the_query(tmp_path: Path) -> None:
    class Client:
        @property
        def max_keys(self) -> int:
            raise ValueError("no number")

    limits = CacheLimits(max_rows=10)
    cache = HostCache(tmp_path, [pa.int64()], [pa.string()], limits, exact=True)
    loader = Loader(None, cache, Client())  # type: ignore[arg-type]
    for _ in range(2):  # the second time, the key would be waited for
        with pytest.raises(ValueError, match="no number"):
            loader.load(KEY, TICKS, [], Tally())


class Faulty:
    """A source of the numbers as texts, with faults of the data of some keys."""

    max_keys = 16

    def __init__(self, wrong: set[int], *, named: bool) -> None:
        self.wrong, self.named, self.times = wrong, named, 0

    def look_up(self, keys: pa.Table, columns: Any, figures: Any) -> pa.Table:
        self.times += 1
        numbers = keys["k"].to_pylist()
        wrong = self.wrong.intersection(numbers)
        if wrong:
            error = DataError(f"wrong: {sorted(wrong)}")
            error.keys = pa.table({"k": sorted(wrong)}) if self.named else None
            raise error
        return pa.table({"k": numbers, "v": list(map(str, numbers))})


def table_of(on_error: str) -> Any:
    return SimpleNamespace(
        source="the source", keys=pa.schema([("k", pa.int64())]), queried_columns=["v"],
        payload=pa.schema([("v", pa.string())]), order=None, unique=False, nulls_equal=None,
        retry_policy=SimpleNamespace(on_error=on_error, failure_cooldown_s=3600),
    )  # fmt: skip


def test_a_fault_of_the_whole_table_is_not_queried_key_by_key(tmp_path: Path) -> None:
    limits, numbers = CacheLimits(max_rows=9999), np.arange(2500)
    keys = Batch(numbers, [pa.array(numbers)], None)
    cache = HostCache(tmp_path, [pa.int64()], [pa.string()], limits, exact=True)
    source, tally = Faulty({*range(2500)}, named=False), Tally()
    loader = Loader(table_of("null"), cache, source)  # type: ignore[arg-type]
    loaded = loader.load(keys, numbers, [], tally)
    assert not loaded.counts.any()
    assert tally.failed == 2500
    assert source.times <= 1001 + 2500 // source.max_keys


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 50),
    wrong=st.sets(st.integers(0, 49), max_size=50),
    named=st.booleans(),
)
def test_a_fault_of_the_data_costs_only_its_own_keys(
    tmp_path: Path, count: int, wrong: set[int], named: bool
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    limits = CacheLimits(max_rows=1000)
    cache = HostCache(folder, [pa.int64()], [pa.string()], limits, exact=True)
    source, tally, places = Faulty(wrong, named=named), Tally(), []
    loader = Loader(table_of("null"), cache, source)  # type: ignore[arg-type]
    numbers = np.arange(count)
    keys = Batch(numbers, [pa.array(numbers)], None)
    loaded = loader.load(keys, numbers, places, tally)
    bad = sorted(each for each in wrong if each < count)
    assert np.flatnonzero(loaded.counts == 0).tolist() == bad
    assert tally.failed == len(bad)
    fine = np.flatnonzero(loaded.counts)
    (texts,) = gathered(places, loaded.place[fine], loaded.first[fine])
    assert texts.to_pylist() == [str(each) for each in numbers[fine]]
    assert cache.header.down_until_us == 0
    pieces = -(-count // source.max_keys)
    most = 2 * pieces if named else pieces + 2 * len(bad) * 5
    assert source.times <= most
    # What has a row is cached, what has none is not.
    source.wrong, before = set(), source.times
    again = loader.load(keys, numbers, [], Tally())
    assert (again.counts == 1).all()
    assert (source.times > before) == bool(bad)


def test_a_clock_that_is_set_back_lets_no_row_live_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, source = CacheLimits(max_rows=9, ttl_us=1), Faulty(set(), named=True)
    cache = HostCache(tmp_path, [pa.int64()], [pa.string()], limits, exact=True)
    loader = Loader(table_of("null"), cache, source)  # type: ignore[arg-type]
    loader.load(KEY, TICKS, [], Tally())
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    loader.load(KEY, TICKS, [], Tally())
    assert source.times == 2


@pytest.mark.parametrize("on_error", ["fail", "stale"])
def test_a_fault_of_the_data_is_raised_as_it_is(tmp_path: Path, on_error: str) -> None:
    cache = HostCache(tmp_path, [pa.int64()], [pa.string()], CacheLimits(max_rows=9), exact=True)
    loader = Loader(table_of(on_error), cache, Faulty({7}, named=True))  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(DataError, match=r"wrong: \[7\]"):
            loader.load(KEY, TICKS, [], Tally())
    assert cache.header.down_until_us == 0


@pytest.mark.parametrize("on_error", ["fail", "null", "stale"])
def test_a_null_key_that_fails_is_retried_and_then_as_on_error_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_error: str
) -> None:
    script, rows = "CREATE TABLE t (k bigint, v text)", [(None, "a"), (1, "b")]
    source: Any = sql(in_sqlite(tmp_path / "db", script, rows), table="t")
    faults, selected = [2], type(source)._selected

    def faulty(self: Any, columns: Any) -> str:
        if self._null and faults[0]:
            faults[0] -= 1
            raise TransientSourceError("the connection is lost")
        return selected(self, columns)

    monkeypatch.setattr(type(source), "_selected", faulty)
    policy = RetryPolicy(
        retries=1, backoff_s=0, max_connections=1, on_error=on_error, failure_cooldown_s=0
    )
    table = table_of(on_error)
    table.nulls_equal, table.retry_policy = [True], policy
    hashes, held = hashed([pa.array([None, 1], pa.int64())], [True])
    keys, limits = Batch(hashes, held, None), CacheLimits(max_rows=9)
    cache = HostCache(tmp_path, [pa.int64()] * 2, [pa.string()], limits, exact=True)
    client = SourceClient(source, policy, SharedConnection(ConnectionSemaphore(tmp_path, 1)))
    loader, tally = Loader(table, cache, client), Tally()
    if on_error == "null":
        assert loader.load(keys, hashes, [], tally).counts.tolist() == [0, 0]
    else:
        with pytest.raises(LookupFailedError):
            loader.load(keys, hashes, [], tally)
    assert (tally.queries.retries, faults) == (1, [0])
    assert loader.load(keys, hashes, [], tally).counts.tolist() == [1, 1]
    source.close()
