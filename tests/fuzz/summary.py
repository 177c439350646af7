"""What was run: counts by feature, which add up over runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.draw.streams import WIDE

__all__ = ["Summary"]


class Summary:
    """Counts of cases, kept in a file.

    Args:
        path: a JSON file; a run adds to what it holds.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self.data: dict[str, Any] = {
            "cases": 0, "seconds": 0.0, "rounds": [], "checked_by_spark": 0, "failed": [],
            "features": {},
        }  # fmt: skip
        if path is not None and path.exists():
            self.data = json.loads(path.read_text())

    def add(
        self,
        number: int,
        cases: Mapping[int, Case],
        failed: list[int],
        seconds: float,
        checked: int,
    ) -> None:
        """Count a round, and write the file."""
        data = self.data
        data["cases"] += len(cases)
        data["seconds"] = round(data["seconds"] + seconds, 1)
        data["checked_by_spark"] += checked
        data["failed"] += failed
        data["rounds"] = _touching([*data["rounds"], [number, number + 1]])
        counts = Counter(data["features"])
        for case in cases.values():
            counts.update(set(_features(case)))
        data["features"] = dict(sorted(counts.items()))
        self._write()

    def merge(self, others: Sequence[Summary]) -> None:
        """Add what processes have counted that ran at the same time, and write the file."""
        data = self.data
        for other in (summary.data for summary in others):
            for name in ("cases", "checked_by_spark", "failed"):
                data[name] += other[name]
            data["rounds"] = _touching([*data["rounds"], *other["rounds"]])
            counts = Counter(data["features"]) + Counter(other["features"])
            data["features"] = dict(sorted(counts.items()))
        seconds = max((summary.data["seconds"] for summary in others), default=0.0)
        data["seconds"] = round(data["seconds"] + seconds, 1)
        self._write()

    def _write(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps(self.data, indent=1) + "\n")

    def next_round(self) -> int:
        """The first round after those that were run."""
        return max((stop for _, stop in self.data["rounds"]), default=0)


def _touching(ranges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Ranges in order, as one where one ends at the start of the next."""
    found: list[list[int]] = []
    for start, stop in sorted(ranges):
        if found and found[-1][1] == start:
            found[-1][1] = stop
        else:
            found.append([start, stop])
    return found


def _features(case: Case) -> Iterator[str]:
    yield f"joins in the chain: {len(case.joins)}"
    yield f"rows in an Arrow batch: {case.batch_rows}"
    yield f"time zone: {case.zone}"
    yield f"expressions: {'generated code' if case.generated else 'interpreted'}"
    yield "stream: micro-batches" if case.cuts else "stream: batch"
    if len(case.stream.columns) > WIDE:
        yield f"stream: more than {WIDE} columns"
    for _, event in case.events:
        yield f"between micro-batches: {event}" if case.cuts else f"before a batch: {event}"
    kinds = dict(case.stream.columns)
    for join in case.joins:
        table = case.tables[join.table]
        kinds.update(table.columns)
        yield f"join type: {join.how}"
        yield f"condition: {'equality' if join.when is None else type(join.when).__name__}"
        yield f"where: {None if join.where is None else join.where[0]}"
        yield f"runtime: {join.runtime}"
        yield f"selections before a join: {join.selects}"
        yield f"table: {table.cache}"
        yield f"keys: {len(join.on)}"
        yield f"partition: {None if join.partition is None else join.partition[0]}"
        if table.unique:
            yield "table: unique"
        if table.latest_by:
            yield f"table: latest rows{'' if table.keep == 1 else ', several'}"
        for _, key in join.on:
            yield f"key type: {kinds[key]}"
        if join.when is not None:
            yield f"range type: {kinds[join.when.table_columns[0]]}"
