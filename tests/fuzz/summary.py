"""What was run: counts by feature, which add up over runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.case import Case

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
        rounds = data["rounds"]
        if rounds and rounds[-1][1] == number:
            rounds[-1][1] = number + 1
        else:
            rounds.append([number, number + 1])
        counts = Counter(data["features"])
        for case in cases.values():
            counts.update(set(_features(case)))
        data["features"] = dict(sorted(counts.items()))
        if self.path is not None:
            self.path.write_text(json.dumps(data, indent=1) + "\n")

    def next_round(self) -> int:
        """The first round after those that were run."""
        return max((stop for _, stop in self.data["rounds"]), default=0)


def _features(case: Case) -> Iterator[str]:
    yield f"joins in the chain: {len(case.joins)}"
    yield f"rows in an Arrow batch: {case.batch_rows}"
    yield f"time zone: {case.zone}"
    yield "stream: micro-batches" if case.cuts else "stream: batch"
    for _, event in case.events:
        yield f"between micro-batches: {event}" if case.cuts else f"before a batch: {event}"
    kinds = dict(case.stream.columns)
    for join in case.joins:
        table = case.tables[join.table]
        kinds.update(table.columns)
        yield f"join type: {join.how}"
        yield f"condition: {'equality' if join.when is None else type(join.when).__name__}"
        yield f"runtime: {join.runtime}"
        yield f"selections before a join: {join.selects}"
        yield f"table: {table.cache}"
        yield f"keys: {len(join.on)}"
        yield f"partition: {None if join.partition is None else join.partition[0]}"
        if table.unique:
            yield "table: unique"
        for _, key in join.on:
            yield f"key type: {kinds[key]}"
        if join.when is not None:
            yield f"range type: {kinds[join.when.table_columns[0]]}"
