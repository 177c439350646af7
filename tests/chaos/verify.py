"""Whether the sinks have every row once, each from one valid version."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Sequence[Any]


def wrong_rows(stream: Iterable[Row], found: Iterable[Row], names: Mapping[int, str]) -> list[str]:
    """What is wrong with the rows of the look-ups in the database: (n, k, f, name)."""
    wanted = Counter((n, k, f, names.get(k)) for n, k, f in stream)
    return _difference(wanted, Counter(map(tuple, found)))


def wrong_files(
    stream: Iterable[Row], found: Iterable[Row], copies: Mapping[int, int], versions: set[int]
) -> list[str]:
    """What is wrong with the rows of the stored table: (n, k, f, v, copy).

    Args:
        stream: (n, k, f); f is the number of the micro-batch.
        found: the rows of the sink.
        copies: how many rows a key has.
        versions: those that were published.
    """
    rows = [tuple(row) for row in found]
    wanted = Counter(
        (n, k, f, copy)
        for n, k, f in stream
        for copy in (range(copies[k]) if k in copies else [None])
    )
    wrong = _difference(wanted, Counter((n, k, f, copy) for n, k, f, _, copy in rows))
    used: dict[int, set[int]] = defaultdict(set)
    for _, k, f, v, _ in rows:
        if (v is None) != (k not in copies):
            wrong.append(f"key {k} has the version {v}")
        elif v is not None:
            used[f].add(v)
    newest = 0
    for f in sorted(used):
        if len(used[f]) > 1 or not used[f] <= versions:
            wrong.append(f"micro-batch {f} has rows of the versions {sorted(used[f])}")
        if min(used[f]) < newest:
            wrong.append(f"micro-batch {f} goes back from version {newest} to {min(used[f])}")
        newest = max(newest, *used[f])
    return wrong


def _difference(wanted: Counter[Any], found: Counter[Any]) -> list[str]:
    told = []
    for what, rows in (("lost", wanted - found), ("doubled or made up", found - wanted)):
        if rows:
            told.append(f"{rows.total()} rows {what}: {rows.most_common(3)}")
    return told
