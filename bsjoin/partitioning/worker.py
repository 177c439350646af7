"""Routing in a worker process: maps batches of keys to partitions, and reports statistics.

A note holds the statistics of the task. It is sent with the task's last row to the driver, which
adds up the notes of all tasks (:func:`bsjoin.partitioning.added`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import Int64s
from bsjoin.partitioning.cycle import Collector, CycleStatistics
from bsjoin.partitioning.routing import Router
from bsjoin.values.python_values import shown

_NAMED, _MOST_NAMES, _NAMES_TOLD = 16, 2_000, 20


@dataclass(frozen=True)
class Task:
    """The parameters of a task; the seed of its sample is the same when it is repeated."""

    router: Router
    capacity: int
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Note:
    """The statistics of a task or a cycle, with the names of some keys.

    Args:
        statistics: how many rows went where, and a sample of their codes.
        names: the keys of some frequent codes, as texts.
    """

    statistics: CycleStatistics
    names: dict[int, str]

    def to_json(self) -> str:
        """The note as a JSON list."""
        return json.dumps([self.statistics.to_json(), list(self.names.items())])

    @classmethod
    def from_list(cls, read: Sequence[object]) -> Note:
        """From what JSON makes of :meth:`to_json`."""
        statistics, names = read
        assert isinstance(statistics, str)
        return cls(CycleStatistics.from_json(statistics), dict(names))  # type: ignore[call-overload]


def routed(task: Task, batches: Iterable[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """The partition of each row, and a note, which is null except in the task's last row.

    Batches have the hashes of the keys, null for a null key, those of the whole rows, and the keys.
    """
    collector = Collector(task.router, task.capacity, task.seed)
    names: dict[int, str] = {}
    held: list[NDArray[np.int32]] = []
    for hashes, contents, *keys in batches:
        rows = contents.to_numpy()
        # A null key matches nothing, wherever it goes: such rows are spread.
        codes = hashes.to_numpy() if not hashes.null_count else _filled(hashes, rows)
        if held and len(codes):
            yield from (_answer(partitions, None) for partitions in held)
            held = []
        held.append(collector.route(codes, rows))
        _name(names, hashes, keys)
    if held:
        statistics = collector.statistics()
        heaviest = np.argsort(-statistics.sample.weights, kind="stable")[:_NAMES_TOLD]
        codes = statistics.sample.codes[heaviest].tolist()
        note = Note(statistics, {code: names[code] for code in codes if code in names})
        yield _answer(held[0], note.to_json())
        yield from (_answer(partitions, None) for partitions in held[1:])


def _filled(hashes: pa.Array, rows: Int64s) -> Int64s:
    missing = hashes.is_null().to_numpy(zero_copy_only=False)
    return np.where(missing, rows, hashes.fill_null(0).to_numpy())


def _name(names: dict[int, str], hashes: pa.Array, keys: Sequence[pa.Array]) -> None:
    """Record the keys of some rows: frequent keys are soon among them."""
    if not len(hashes) or len(names) >= _MOST_NAMES:
        return
    for row in range(0, len(hashes), max(1, len(hashes) // _NAMED)):
        code = hashes[row].as_py()
        if code is not None and code not in names:
            names[code] = ",".join(shown(key[row]) for key in keys)


def _answer(partitions: NDArray[np.int32], note: str | None) -> pa.Array:
    notes = pa.nulls(len(partitions), pa.string())
    if note is not None and len(partitions):
        notes = pa.array([*[None] * (len(partitions) - 1), note], pa.string())
    return pa.StructArray.from_arrays([pa.array(partitions), notes], ["partition", "note"])
