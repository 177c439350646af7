"""What ``progress`` returns: a list that ``print`` and notebooks show as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex, overload

from bsjoin._show import Shown, in_bytes
from bsjoin.metrics.records import CacheProgress, CycleProgress, cached_ratio, hit_ratio


class ProgressList(list[CycleProgress]):
    """Metrics of joins in micro-batches; a column without a value in any of them is not shown."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> CycleProgress: ...

    @overload
    def __getitem__(self, index: slice) -> ProgressList: ...

    def __getitem__(self, index: SupportsIndex | slice) -> CycleProgress | ProgressList:
        """A record, or those of a slice, which are shown as a table, too."""
        if isinstance(index, slice):
            return ProgressList(super().__getitem__(index))
        return super().__getitem__(index)

    def _table(self) -> Shown:
        found = {head: [cell(cycle) for cycle in self] for head, cell in _COLUMNS.items()}
        kept = {head: cells for head, cells in found.items() if any(c is not None for c in cells)}
        return Shown("Joins in micro-batches", [*kept], [*zip(*kept.values(), strict=True)])

    def __str__(self) -> str:
        return str(self._table()) if self else "no micro-batch with a join yet"

    def _repr_html_(self) -> str:
        return self._table()._repr_html_() if self else f"<p>{self}</p>"


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _of_cache(cell: Callable[[CacheProgress], object]) -> Callable[[CycleProgress], object]:
    return lambda cycle: None if cycle.cache is None else cell(cycle.cache)


_COLUMNS: dict[str, Callable[[CycleProgress], object]] = {
    "batch": lambda cycle: cycle.batch_id,
    "join": lambda cycle: cycle.join,
    "on": lambda cycle: ", ".join(cycle.on),
    "table": lambda cycle: cycle.table,
    "rows in": lambda cycle: cycle.rows_in,
    "rows out": lambda cycle: cycle.rows_out,
    "hit rate": lambda cycle: _share(hit_ratio(cycle)),
    "look-up ms": lambda cycle: _number(cycle.lookup_ms),
    "open ms": lambda cycle: _number(cycle.open_ms),
    "version": lambda cycle: cycle.table_version,
    "runtime": lambda cycle: cycle.runtime,
    "cached": lambda cycle: _share(cached_ratio(cycle)),
    "load p99 ms": _of_cache(lambda c: _number(c.load_ms_p99) if c.lookups else None),
    "cache": _of_cache(lambda cache: in_bytes(cache.bytes) if cache.hosts else None),
    "skew": lambda cycle: _number(cycle.partition.skew),
    "by hash": lambda cycle: _number(cycle.partition.skew_by_hash),
    "placement": lambda cycle: None if cycle.placement is None else cycle.placement.action,
}
