"""The incremental cache in a worker process: hits from shared memory, misses from the source.

Algorithm 1 of the BS-Join paper (section 3.2) for whole Arrow batches: cached keys, negative
entries included, are answered from the cache; the distinct missing keys are queried in one
look-up, and its rows and negative entries are cached.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from bsjoin._clock import host_us
from bsjoin.cache import ConnectionSemaphore, HostCache, State, cache_folder
from bsjoin.index import Int64s
from bsjoin.metrics.join_metrics import LookupMetrics
from bsjoin.plan import JoinPlan, SourceTable
from bsjoin.runtimes.python.worker import notes
from bsjoin.runtimes.python.worker.batch import Batch, Loaded, Tally
from bsjoin.runtimes.python.worker.connections import SharedConnection
from bsjoin.runtimes.python.worker.grouping import CacheRows
from bsjoin.runtimes.python.worker.loading import Loader
from bsjoin.runtimes.python.worker.maintenance import Upkeep
from bsjoin.runtimes.python.worker.null_keys import with_nulls, without_nulls
from bsjoin.runtimes.python.worker.row_refs import RowRefs, answer_type, lists, structs
from bsjoin.runtimes.python.worker.source_client import SourceClient
from bsjoin.values.python_values import shown

T = TypeVar("T")

Answer = Callable[[], tuple[RowRefs[CacheRows], LookupMetrics | None]]
"""Waits for a look-up: references to the rows; and metrics, None if no one reads them."""

LOOKED_UP_TOGETHER = 1 << 17
"""Keys: a query of twice as many costs a third less for each."""
_LISTS_TOGETHER = 10_000
_SAMPLE, _HOTTEST = 256, 5
_HOST = socket.gethostname()


def answers(plan: JoinPlan, batches: Iterable[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """Look up the keys of a task, several Arrow batches at a time, for fewer and larger queries.

    ``batches`` have hashes, null for a null key, and the keys in the source's types.

    Returns:
        Per Arrow batch an array of results: booleans for ``exists``; otherwise null if the key
        is not in the source, else a struct (``row``) or a list of structs (``rows``). If the
        plan reports, each result is in a struct with a note, which is null in most rows.
    """
    assert isinstance(plan.table, SourceTable)
    table, label = plan.table, plan.label

    def begin(held: list[tuple[pa.Array, ...]]) -> Answer:
        with notes.of(label).timed():
            hashes, *keys = (pa.concat_arrays(column) for column in zip(*held, strict=True))
            return ask(table, hashes, keys, plan.reports)

    for held, answer in ahead(begin, _groups(plan, batches)):
        with notes.of(label).timed() as metrics:
            rows, looked_up = answer()
            if looked_up is not None:
                metrics.cache.append(looked_up)
            if plan.reports:
                hits = int(np.count_nonzero(rows.counts))
                metrics.count(plan.how, len(rows.counts), hits, int(rows.counts.sum()))
        yield from _arrays(plan, [len(hashes) for hashes, *_ in held], rows)


def _groups(
    plan: JoinPlan, batches: Iterable[tuple[pa.Array, ...]]
) -> Iterator[list[tuple[pa.Array, ...]]]:
    """The batches whose keys are looked up together."""
    enough = LOOKED_UP_TOGETHER if plan.shape != "rows" else _LISTS_TOGETHER
    held: list[tuple[pa.Array, ...]] = []
    for batch in batches:
        held.append(batch)
        if sum(len(hashes) for hashes, *_ in held) >= enough:
            yield held
            held = []
    if held:
        yield held


def _arrays(plan: JoinPlan, sizes: Sequence[int], rows: RowRefs[CacheRows]) -> Iterator[pa.Array]:
    """The results for each of some batches; gathers their rows, which may be large, one by one."""
    begin, total = 0, sum(sizes)
    for size in sizes:
        with notes.of(plan.label).timed():
            answer = _array(plan, rows, begin, begin + size)
        begin += size
        if plan.reports:
            # The last one with rows has what was counted for all.
            last = begin == total
            note = notes.fetch(plan.label, size) if last else pa.nulls(size, pa.string())
            answer = pa.StructArray.from_arrays([answer, note], ["answer", "note"])
        yield answer


def ahead(begin: Callable[[T], Answer], items: Iterable[T]) -> Iterator[tuple[T, Answer]]:
    """Each item with its look-up, which begins before the one before has to be finished."""
    before: tuple[T, Answer] | None = None
    for item in items:
        now = item, begin(item)
        if before is not None:
            yield before
        before = now
    if before is not None:
        yield before


def ask(table: SourceTable, hashes: pa.Array, keys: Sequence[pa.Array], reports: bool) -> Answer:
    """Begin to look up the rows of some keys."""
    if not len(hashes):
        nothing = np.zeros(0, np.int64)
        return lambda: (RowRefs([], None, nothing, nothing), None)
    worker = _worker(table)
    worker.upkeep.apply_invalidations()
    typed = [key.cast(dtype) for key, dtype in zip(keys, table.keys.types, strict=True)]
    batch = Batch.of(hashes, typed)
    batch = replace(batch, keys=without_nulls(batch.keys, table.nulls_equal))
    answer = worker.ask(batch, reports=reports)
    places = batch.places
    if places is None:
        return answer

    def spread() -> tuple[RowRefs[CacheRows], LookupMetrics | None]:
        rows, metrics = answer()
        return _spread(rows, places, len(hashes)), metrics

    return spread


def _array(plan: JoinPlan, rows: RowRefs[CacheRows], begin: int, end: int) -> pa.Array:
    """The results for the keys of one Arrow batch."""
    shape, row_type = plan.shape, plan.row_type
    if begin == end:
        return pa.nulls(0, answer_type(shape, row_type))
    if shape == "exists":
        return pa.array(rows.counts[begin:end] > 0)
    place = None if rows.place is None else rows.place[begin:end]
    part = RowRefs(rows.places, place, rows.first[begin:end], rows.counts[begin:end])
    return (structs if shape == "row" else lists)(row_type, part)


class _Worker:
    """The state of one cache in this process: its files, the source, the connection."""

    def __init__(self, table: SourceTable):
        self._exact = table.exact
        # In use during the object's lifetime.
        self._folder = cache_folder(table.token, table.folder)
        folder = self._folder.path
        self._nulls_equal = table.nulls_equal
        self.cache = HostCache(
            folder, table.key_types, table.stored_types, table.limits, exact=table.exact
        )
        self._client = SourceClient(table.source, table.retry_policy, _connection(table))
        self._loader = Loader(table, self.cache, self._client)
        # One at a time: keys that the next batch has too are in the cache when it loads its own.
        self._loading = ThreadPoolExecutor(1, thread_name_prefix="bsjoin-load")
        self.upkeep = Upkeep(table, self.cache, self._client, self._loader)
        self._random = np.random.default_rng()
        if table.warm_up is not None:
            self.upkeep.warm_up(folder / "warm")

    def close(self) -> None:
        """Leave the connection."""
        self._loading.shutdown(wait=False)
        self._client.close()

    def ask(self, batch: Batch, *, reports: bool) -> Answer:
        """Find the rows of each key in the cache, and begin to load the others."""
        found, ticks = self.cache.find(batch.hashes, batch.keys, host_us())
        states = found.states
        missing = np.flatnonzero((states == State.MISS) | (states == State.WAIT))
        stale = np.flatnonzero(states == State.STALE)
        tally = self.upkeep.take_tally()
        if len(stale):
            self.upkeep.refresh_later(batch.take(stale), ticks[stale])
        places: list[CacheRows] = [found.view.rows]

        def load() -> tuple[Loaded, Int64s]:
            wanted, last, inverse = batch.take(missing).distinct(ticks[missing], exact=self._exact)
            return self._loader.load(wanted, last, places, tally), inverse

        loading = self._loading.submit(load) if len(missing) else None

        def answer() -> tuple[RowRefs[CacheRows], LookupMetrics | None]:
            place = None
            if loading is not None:
                loaded, inverse = loading.result()
                place = np.zeros(len(batch.hashes), np.int32)
                place[missing] = loaded.place[inverse]
                found.first[missing] = loaded.first[inverse]
                found.counts[missing] = loaded.counts[inverse]
            rows = RowRefs(places, place, found.first, found.counts)
            if not reports:
                return rows, None
            return rows, self._metrics(batch, states, len(missing), len(stale), tally)

        return answer

    def _metrics(
        self, batch: Batch, states: NDArray[np.int8], missing: int, stale: int, tally: Tally
    ) -> LookupMetrics:
        queries = tally.queries
        size = len(states)
        sample = self._random.integers(0, size, _SAMPLE) if size else np.zeros(0, np.int64)
        hottest = Counter(batch.hashes[sample].tolist()).most_common(_HOTTEST)
        places = dict(zip(batch.hashes[sample].tolist(), sample.tolist(), strict=True))
        keys = with_nulls(batch.keys, self._nulls_equal)
        rows, held = self.cache.held()
        return LookupMetrics(
            partition=notes.partition,
            hits=int((states == State.HIT).sum()) + stale,
            negative_hits=int((states == State.ABSENT).sum()),
            misses=missing,
            keys_queried=queries.keys,
            load_ms=[round(ms, 3) for ms in queries.ms],
            retries=queries.retries,
            failed_keys=tally.failed,
            stale_rows=stale + tally.outdated,
            evictions=tally.evicted,
            sampled=len(sample),
            hottest=[(_shown(keys, places[h]), n) for h, n in hottest if n > 1],
            rows=rows,
            bytes=held,
            host=_HOST,
        )


class _Connection(SharedConnection):
    """A connection, and the folder of its host's permits, which is in use as long."""

    def __init__(self, table: SourceTable):
        self._folder = cache_folder(table.database, table.folder)
        path = self._folder.path / "connections"
        super().__init__(ConnectionSemaphore(path, table.retry_policy.max_connections))


_connections: WeakValueDictionary[tuple[str, str | None], _Connection] = WeakValueDictionary()


def _connection(table: SourceTable) -> SharedConnection:
    # The limit of the first join counts in this process: the permits are the same files.
    key = table.database, table.folder
    connection = _connections.get(key)
    if connection is None:
        connection = _connections[key] = _Connection(table)
    return connection


class _Workers(LRUCache[str, _Worker]):
    """The workers of recently used joins; each has about forty open files."""

    def popitem(self) -> tuple[str, _Worker]:
        token, worker = super().popitem()
        worker.close()
        return token, worker


_workers = _Workers(maxsize=16)


def _worker(table: SourceTable) -> _Worker:
    worker = _workers.get(table.token)
    if worker is None:
        worker = _workers[table.token] = _Worker(table)
    return worker


def _spread(rows: RowRefs[CacheRows], places: Int64s, size: int) -> RowRefs[CacheRows]:
    """The same for a batch in which the keys at all other positions are null."""
    first, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    first[places], counts[places] = rows.first, rows.counts
    place = None
    if rows.place is not None:
        place = np.zeros(size, np.int32)
        place[places] = rows.place
    return RowRefs(rows.places, place, first, counts)


def _shown(keys: list[pa.Array], place: int) -> str:
    return ",".join(shown(key[place]) for key in keys)
