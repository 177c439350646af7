"""The statistics of a cycle whose rows Spark's generated code has routed."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from bsjoin.partitioning.cycle import CycleStatistics
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.worker import Note

Int64s = NDArray[np.int64]


def note_of(version: int, cells: int, partitions: int, tasks: int, places: str, drawn: str) -> Note:
    """The statistics of a cycle.

    Args:
        version: of the rule.
        cells: how many the rule has.
        partitions: how many the rule has.
        tasks: how many tasks there were.
        places: a JSON list of ``{"x": place, "y": rows}``, where a place is a cell times the number
            of partitions, plus a partition. A place may occur several times.
        drawn: a JSON list of the rows in the sample, without its brackets. A row is the text
            ``"e:code"``, with the code in base 36, and stands for 2 to the power of e rows; the
            object ``{"name": key}`` after it names the key.

    Example:
        >>> note = note_of(7, 32, 2, 1, '[{"x": 3, "y": 4.0}]', '"1:a","1:b!",{"name":"k"}')
        >>> note.statistics.partitions.tolist(), note.statistics.sample.weights.tolist(), note.names
        ([0, 4], [2.0, 2.0], {11: 'k'})
    """
    counted = [(int(place["x"]), int(place["y"])) for place in json.loads(places)]
    at, rows = np.array(counted, np.int64).reshape(-1, 2).T
    codes: list[int] = []
    weights: list[float] = []
    names: dict[int, str] = {}
    for entry in json.loads(f"[{drawn}]"):
        if isinstance(entry, dict):
            names[codes[-1]] = str(entry["name"])
            continue
        exponent, code = entry.rstrip("!").split(":")
        codes.append(int(code, 36))
        weights.append(2.0 ** int(exponent))
    distinct, which, counts = np.unique(
        np.array(codes, np.int64), return_inverse=True, return_counts=True
    )
    summed = np.bincount(which, weights, len(distinct)).astype(np.float64)
    sample = Sample(distinct, counts.astype(np.int64), summed)
    found = CycleStatistics(
        version,
        _summed(at % partitions, rows, partitions),
        _summed(at // partitions, rows, cells),
        sample,
        tasks,
    )
    return Note(found, names)


def _summed(places: Int64s, rows: Int64s, size: int) -> Int64s:
    found = np.zeros(size, np.int64)
    np.add.at(found, places, rows)
    return found
