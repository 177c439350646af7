"""The incremental cache in a worker process: hits from shared memory, the rest from the source.

Algorithm 1 of the BS-Join paper (section 3.2) for whole Arrow batches: what is cached is
answered, known absences included; the distinct keys that are missing are asked for in one
look-up, and both rows and absences are kept. A key is asked for by one process of the host at
a time; the others wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from bsjoin._plan import SourcePlan
from bsjoin._retype import retyped
from bsjoin.cache import notes
from bsjoin.cache.answers import Gather, Rows, answer_type, lists, structs
from bsjoin.cache.asking import Asker, Figures
from bsjoin.cache.hashing import xxhash64
from bsjoin.cache.matching import canonical, distinct, owners
from bsjoin.errors import DuplicateKeyError, LookupFailedError, SourceError
from bsjoin.shared import Found, HostCache, Slots, State, cache_folder, only_one

__all__ = ["answer", "answers"]

_log = logging.getLogger("bsjoin")

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]

_GROUP_ROWS, _GROUP_ROWS_OF_LISTS = 1 << 16, 10_000
_WAIT_S = (0.0005, 0.005)
_REMOTE_CONTROL_S = 1.0
_SAMPLE, _HOTTEST = 256, 5


def answers(plan: SourcePlan, batches: Iterable[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """Look up the keys of a task, several Arrow batches at a time: fewer and larger look-ups.

    Args:
        plan: which source, which columns, which shape of answer.
        batches: per Arrow batch the m hashes, null for a null key; and the m keys, column by
            column, in the source's types.

    Returns:
        Per Arrow batch an array of m answers: booleans for ``exists``; otherwise null where the
        key is not in the source, else a struct (``row``) or a list of structs (``rows``). If
        the plan reports, each is in a struct with a note beside, null but for a few.
    """
    enough = _GROUP_ROWS if plan.shape != "rows" else _GROUP_ROWS_OF_LISTS
    held: list[tuple[pa.Array, ...]] = []
    for batch in batches:
        held.append(batch)
        if sum(len(hashes) for hashes, *_ in held) >= enough:
            yield from _answer_together(plan, held)
            held = []
    if held:
        yield from _answer_together(plan, held)


def _answer_together(plan: SourcePlan, held: Sequence[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    hashes, *keys = (pa.concat_arrays(column) for column in zip(*held, strict=True))
    result = answer(plan, hashes, keys)
    if plan.reports:
        result = pa.StructArray.from_arrays(
            [result, notes.fetch(plan.label, len(result))], ["answer", "note"]
        )
    begin = 0
    for batch in held:
        yield result.slice(begin, len(batch[0]))
        begin += len(batch[0])


def answer(plan: SourcePlan, hashes: pa.Array, keys: Sequence[pa.Array]) -> pa.Array:
    """Look up some keys; see :func:`answers`."""
    started = time.perf_counter_ns()
    if not len(hashes):
        return pa.nulls(0, answer_type(plan.shape, plan.row_type))
    worker = _worker(plan)
    worker.obey()
    typed = [key.cast(dtype) for key, dtype in zip(keys, plan.keys.types, strict=True)]
    batch = _Batch.of(hashes, typed)
    rows, figures = worker.look_up(batch)
    if batch.places is not None:
        rows = _spread(rows, batch.places, len(hashes))
    if plan.shape == "exists":
        result = pa.array(rows.counts > 0)
    else:
        result = (structs if plan.shape == "row" else lists)(plan.row_type, rows)
    if plan.reports:
        figures["ns"] = time.perf_counter_ns() - started
        notes.add(plan.label, figures)
    return result


@dataclass(frozen=True)
class _Batch:
    """The keys of an Arrow batch that are not null.

    Args:
        hashes: int64[m].
        keys: the m keys, column by column.
        places: int64[m], where they stand in the Arrow batch; None if that is all of it.
    """

    hashes: Int64s
    keys: list[pa.Array]
    places: Int64s | None

    @classmethod
    def of(cls, hashes: pa.Array, keys: list[pa.Array]) -> _Batch:
        if not hashes.null_count:
            return cls(hashes.to_numpy(), keys, None)
        places = np.flatnonzero(hashes.is_valid().to_numpy(zero_copy_only=False))
        chosen = pa.array(places)
        return cls(hashes.take(chosen).to_numpy(), [k.take(chosen) for k in keys], places)

    def take(self, where: Int64s) -> _Batch:
        chosen = pa.array(where)
        return _Batch(self.hashes.take(where), [key.take(chosen) for key in self.keys], None)


@dataclass
class _Loaded:
    """What is known by now of d distinct keys that were not in the cache.

    Args:
        place: int32[d], where each one's rows are.
        first: int64[d].
        counts: int64[d].
    """

    place: Int32s
    first: Int64s
    counts: Int64s

    @classmethod
    def nothing(cls, count: int) -> _Loaded:
        zeros = np.zeros(count, np.int64)
        return cls(zeros.astype(np.int32), zeros.copy(), zeros)

    def note(self, where: Int64s, place: int, first: Int64s, counts: Int64s) -> None:
        """Say where the rows of some keys are."""
        self.place[where], self.first[where], self.counts[where] = place, first, counts


@dataclass
class _Tally:
    """Figures of one batch that arise while loading."""

    asking: Figures = field(default_factory=Figures)
    evicted: int = 0
    failed: int = 0
    outdated: int = 0


class _Worker:
    """What this process keeps of one join: the open cache, the source, its connection."""

    def __init__(self, plan: SourcePlan):
        self.plan = plan
        folder = cache_folder(plan.token, plan.folder)
        self._types = [plan.row_type.field(i).type for i in range(len(plan.columns))]
        self.cache = HostCache(folder, plan.keys.types, self._types, plan.bounds, exact=plan.exact)
        slots = Slots(folder / "slots", plan.patience.max_connections)
        self._asker = Asker(plan.source, plan.patience, slots)
        self._refreshing: threading.Thread | None = None
        self._refreshed: _Tally | None = None  # what the last refresh took
        self._obeyed_at = 0.0
        self._random = np.random.default_rng()
        if self.cache.header.controls == 0:
            # What was said before there was a cache does not concern it. Counted from 1.
            self.cache.header.controls = plan.control.last() + 1
        if plan.warm_up is not None:
            self._warm_up(folder / "warm")

    # The way of a batch

    def look_up(self, batch: _Batch) -> tuple[Rows, dict[str, Any]]:
        """Find the rows of each key, whatever that takes."""
        cache, now = self.cache, _now_us()
        ticks = cache.ticks(len(batch.hashes))
        found = cache.find(batch.hashes, batch.keys, ticks, now)
        states = found.states
        missing = np.flatnonzero((states == State.MISS) | (states == State.WAIT))
        stale = np.flatnonzero(states == State.STALE)
        tally, self._refreshed = self._refreshed or _Tally(), None
        if len(stale):
            self._refresh_later(batch.take(stale), ticks[stale])
        places: list[Gather] = [found.view.rows.gather]
        rows = Rows(places, None, found.first, found.counts)
        if len(missing):
            which, inverse = self._distinct(batch, missing)
            last = np.zeros(len(which), np.int64)
            last[inverse] = ticks[missing]  # of several uses, the last one counts
            loaded = self._load(batch.take(missing[which]), last, places, tally, found)
            place = np.zeros(len(batch.hashes), np.int32)
            place[missing] = loaded.place[inverse]
            found.first[missing] = loaded.first[inverse]
            found.counts[missing] = loaded.counts[inverse]
            rows = Rows(places, place, found.first, found.counts)
        return rows, self._figures(batch, states, len(missing), len(stale), tally)

    def _distinct(self, batch: _Batch, where: Int64s) -> tuple[Int64s, Int64s]:
        if self.plan.exact:
            return distinct([pa.array(batch.hashes.take(where))])
        chosen = pa.array(where)
        return distinct([key.take(chosen) for key in batch.keys])

    def _load(
        self, keys: _Batch, ticks: Int64s, places: list[Gather], tally: _Tally, found: Found
    ) -> _Loaded:
        """Get d distinct keys: ask for them, or wait for the process that does."""
        count = len(keys.hashes)
        loaded = _Loaded.nothing(count)
        views = {id(found.view): 0}
        todo, pause = np.arange(count), _WAIT_S[0]
        while len(todo):
            part = keys.take(todo)
            claimed = self.cache.claim(part.hashes, part.keys, _now_us())
            known = np.flatnonzero(claimed.usable)
            self._from_cache(loaded, todo, claimed, known, views, places)
            mine = np.flatnonzero(claimed.states == State.MINE)
            if len(mine):
                asked = self._ask_in_pieces(
                    part.take(mine), ticks[todo[mine]], loaded, todo[mine], places, tally
                )
                if asked < len(mine):
                    rest = mine[asked:]
                    self._check_without_source(claimed, rest, tally)
                    self._from_cache(loaded, todo, claimed, rest, views, places)
                pause = _WAIT_S[0]
            todo = todo[claimed.states == State.WAIT]
            if len(todo) and not len(mine):
                time.sleep(pause)
                pause = min(1.5 * pause, _WAIT_S[1])
        return loaded

    @staticmethod
    def _from_cache(
        loaded: _Loaded,
        todo: Int64s,
        found: Found,
        which: Int64s,
        views: dict[int, int],
        places: list[Gather],
    ) -> None:
        """Take over what the cache says of some keys."""
        number = views.setdefault(id(found.view), len(places))
        if number == len(places):
            places.append(found.view.rows.gather)
        loaded.note(todo[which], number, found.first[which], found.counts[which])

    def _ask_in_pieces(
        self,
        keys: _Batch,
        ticks: Int64s,
        loaded: _Loaded,
        where: Int64s,
        places: list[Gather],
        tally: _Tally,
    ) -> int:
        """Ask for claimed keys, as many at a time as the source takes, and keep the answers.

        Returns:
            How many were asked for before the source gave out; all, unless the plan says to go
            on without it.
        """
        count, done = len(keys.hashes), 0
        pieces = -(-count // self._asker.max_keys)
        try:
            for piece in np.array_split(np.arange(count), pieces):
                part, now = keys.take(piece), _now_us()
                invalidations = self.cache.header.invalidations
                counts, columns = self._ask(part, tally)
                tally.evicted += self.cache.put(
                    part.hashes, part.keys, counts, columns, ticks[piece], now, invalidations
                )
                done += len(piece)
                loaded.note(where[piece], len(places), np.cumsum(counts) - counts, counts)
                places.append(_gatherer(columns))
        except LookupFailedError as error:
            if self.plan.patience.on_error == "fail":
                raise
            if not str(error).startswith(_RESTING):
                _log.warning("bsjoin: %s", error)
                rest_us = round(self.plan.patience.rest_s * 1e6)
                self.cache.header.down_until_us = _now_us() + rest_us
        finally:
            if done < count:
                rest = keys.take(np.arange(done, count))
                self.cache.release(rest.hashes, rest.keys)
        return done

    def _ask(self, keys: _Batch, tally: _Tally) -> tuple[Int64s, list[pa.Array]]:
        """Ask for some keys: how many rows each has, and the rows' columns, key after key."""
        plan = self.plan
        if plan.patience.on_error != "fail" and _now_us() < self.cache.header.down_until_us:
            raise LookupFailedError(f"{_RESTING}: {plan.source!r} failed and is left alone")
        asked = pa.Table.from_arrays(keys.keys, schema=plan.keys)
        answered = self._asker.ask(asked, plan.columns, tally.asking).combine_chunks()
        lacking = [n for n in (*plan.keys.names, *plan.columns) if n not in answered.column_names]
        if lacking:
            raise SourceError(
                f"{plan.source!r} answered without the column {lacking[0]!r} that its schema has"
            )
        theirs = [canonical(_whole(answered, name)) for name in plan.keys.names]
        whose = owners(keys.keys, theirs)
        order = np.argsort(whose, kind="stable")[int((whose < 0).sum()) :]
        counts = np.bincount(whose[order], minlength=len(keys.hashes)).astype(np.int64)
        if plan.shape == "row" and counts.max(initial=0) > 1:
            double = int(counts.argmax())
            shown = {n: k[double].as_py() for n, k in zip(plan.keys.names, keys.keys, strict=True)}
            raise DuplicateKeyError(
                f"{plan.source!r} has {counts[double]} rows of the key {shown}, and was said to "
                "have one row a key: make it with unique=False"
            )
        chosen = pa.array(order)
        columns = [
            retyped(_whole(answered, name).take(chosen), dtype)
            for name, dtype in zip(plan.columns, self._types, strict=True)
        ]
        return counts, columns

    def _check_without_source(self, claimed: Found, rest: Int64s, tally: _Tally) -> None:
        """See what is left of keys that the source was asked for in vain, as ``on_error`` says.

        ``claimed`` says what they were before: outdated rows, or none.
        """
        if self.plan.patience.on_error == "null":
            claimed.counts[rest] = 0
            tally.failed += len(rest)
            return
        unknown = int((claimed.ids[rest] < 0).sum())
        if unknown:
            raise LookupFailedError(
                f"{self.plan.source!r} does not answer, and {unknown} of the keys asked for were "
                'never in the cache, so that on_error="stale" has nothing to give for them. '
                'on_error="null" would treat them as not found'
            )
        tally.outdated += len(rest)

    # Besides

    def _refresh_later(self, batch: _Batch, ticks: Int64s) -> None:
        """Ask for stale keys again while their old rows are served."""
        if self._refreshing is not None and self._refreshing.is_alive():
            return

        def run() -> None:
            which, inverse = self._distinct(batch, np.arange(len(batch.hashes)))
            last = np.zeros(len(which), np.int64)
            last[inverse] = ticks
            keys = batch.take(which)
            tally = _Tally()
            try:
                claimed = self.cache.claim(keys.hashes, keys.keys, _now_us(), refresh=True)
                mine = np.flatnonzero(claimed.states == State.MINE)
                if len(mine):
                    size = len(mine)
                    nowhere = _Loaded.nothing(size)
                    self._ask_in_pieces(
                        keys.take(mine), last[mine], nowhere, np.arange(size), [], tally
                    )
            except Exception as error:
                _log.warning("bsjoin: refreshing %d keys failed: %s", len(which), error)
            self._refreshed = tally

        self._refreshing = threading.Thread(target=run, name="bsjoin-refresh", daemon=True)
        self._refreshing.start()

    def obey(self) -> None:
        """Carry out the commands that have come since, for the whole host."""
        control, header = self.plan.control, self.cache.header
        if not control.home.is_local:
            if time.monotonic() - self._obeyed_at < _REMOTE_CONTROL_S:
                return
            self._obeyed_at = time.monotonic()
        for number, keys in control.since(header.controls - 1):
            if keys is None:
                self.cache.invalidate(None, [])
            else:
                columns = [canonical(column.combine_chunks()) for column in keys.columns]
                self.cache.invalidate(xxhash64(columns), columns)
            header.controls = number + 1

    def _warm_up(self, lock: Path) -> None:
        """Load the keys to begin with, once on this host."""
        with only_one(lock) as alone:
            # Who is not alone asks for what it needs, as ever, while another process loads.
            if alone and not self.cache.header.warm:
                try:
                    self._load_keys(self._warm_keys())
                except LookupFailedError as error:
                    _log.warning("bsjoin: warming up failed: %s", error)
                self.cache.header.warm = 1

    def _warm_keys(self) -> pa.Table:
        warm_up = self.plan.warm_up
        if isinstance(warm_up, str):
            return self._asker.keys_of(warm_up, self.plan.keys.names)
        assert warm_up is not None
        return warm_up

    def _load_keys(self, table: pa.Table) -> None:
        columns = [canonical(_whole(table, name)) for name in self.plan.keys.names]
        if not len(columns[0]):
            return
        which, _ = distinct(columns)
        chosen = pa.array(np.sort(which))
        columns = [column.take(chosen) for column in columns]
        keys = _Batch(xxhash64(columns), columns, None)
        # The first are to be the last to go.
        ticks = self.cache.ticks(len(which))[::-1]
        found = self.cache.find(keys.hashes, keys.keys, ticks, _now_us())
        self._load(keys, ticks, [found.view.rows.gather], _Tally(), found)

    def _figures(
        self, batch: _Batch, states: NDArray[np.int8], missing: int, stale: int, tally: _Tally
    ) -> dict[str, Any]:
        if not self.plan.reports:
            return {}
        asking = tally.asking
        size = len(states)
        sample = self._random.integers(0, size, _SAMPLE) if size else np.zeros(0, np.int64)
        hottest = Counter(batch.hashes[sample].tolist()).most_common(_HOTTEST)
        places = dict(zip(batch.hashes[sample].tolist(), sample.tolist(), strict=True))
        figures = {
            "hit": int((states == State.HIT).sum()) + stale,
            "neg": int((states == State.ABSENT).sum()),
            "mis": missing,
            "asked": asking.asked,
            "ms": [round(ms, 3) for ms in asking.ms],
            "evict": tally.evicted,
            "retry": asking.retries,
            "fail": tally.failed,
            "stale": stale + tally.outdated,
            "hot": [[_shown(batch.keys, places[h]), n] for h, n in hottest if n > 1],
            "n": len(sample),
        }
        figures = {name: value for name, value in figures.items() if value}
        rows, held = self.cache.held()
        return {**figures, "rows": rows, "bytes": held, "at": self.cache.header.ticks}


_RESTING = "resting"

_workers: LRUCache[str, _Worker] = LRUCache(maxsize=64)


def _worker(plan: SourcePlan) -> _Worker:
    worker = _workers.get(plan.token)
    if worker is None:
        worker = _workers[plan.token] = _Worker(plan)
    return worker


def _now_us() -> int:
    return time.time_ns() // 1000


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _gatherer(columns: Sequence[pa.Array]) -> Gather:
    return lambda rows: [column.take(pa.array(rows)) for column in columns]


def _spread(rows: Rows, places: Int64s, size: int) -> Rows:
    """The same for a batch in which the keys between these places are null."""
    first, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    first[places], counts[places] = rows.first, rows.counts
    place = None
    if rows.place is not None:
        place = np.zeros(size, np.int32)
        place[places] = rows.place
    return Rows(rows.places, place, first, counts)


def _shown(keys: list[pa.Array], place: int) -> str:
    return ",".join(str(key[place].as_py()) for key in keys)
