"""Layers, and what was applied, as a manifest says it; validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bsjoin.storage import fields
from bsjoin.storage.segment_entries import SegmentInfo

_MOST_CHANGES = (1 << 63) - 1
MOST_LAYERS = 8
"""With more of them a table is compacted: they do not fit into one in memory."""


@dataclass(frozen=True)
class Layer:
    """Changes of some keys: all rows that they have now, in place of those in what is below.

    Args:
        rows: the segment of the rows; None if none of the keys has any.
        gone: a segment of the keys that have no rows any more, without columns to select and
            without a range index; None if all keys have rows.
    """

    rows: SegmentInfo | None
    gone: SegmentInfo | None

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """Those that are there."""
        return tuple(one for one in (self.rows, self.gone) if one is not None)

    @property
    def size(self) -> int:
        """The rows and the keys without rows."""
        return sum(one.rows for one in self.segments)

    def to_json(self) -> dict[str, Any]:
        """The layer as a JSON object."""
        return {
            "rows": None if self.rows is None else self.rows.to_json(),
            "gone": None if self.gone is None else self.gone.to_json(),
        }

    @classmethod
    def from_json(
        cls, item: Any, columns: int, compared: int, *, integers: bool, dimensions: int
    ) -> Layer:
        """The inverse of :meth:`to_json`, for data that is not trusted.

        The arguments are as for :class:`SegmentInfo`; so many columns are ``compared`` keys.

        Raises:
            ValueError: names the invalid field.
        """

        def segment(name: str, stored: int, *, dense: bool, boxed: int) -> SegmentInfo | None:
            found = fields.value(item, name)
            if found is None:
                return None
            return SegmentInfo.from_json(found, stored, integers=dense, dimensions=boxed)

        rows = segment("rows", columns, dense=integers, boxed=dimensions)
        gone = segment("gone", compared, dense=False, boxed=0)
        if rows is None and gone is None:
            raise ValueError("a layer has neither rows nor keys that are gone")
        if gone is not None and gone.longest_run > 1:
            raise ValueError(f"the segment {gone.name!r} has a key twice that is gone")
        return cls(rows, gone)


@dataclass(frozen=True)
class Applied:
    """What was applied to a table: what the next changes have to know.

    Args:
        count: how often changes were applied.
        identity: the columns that tell a row from all others; empty if the rows of a key are
            always replaced together; None if the table lost one of them since.
        batches: the number of the last batch of each writer, by the writer's name.
    """

    count: int
    identity: tuple[str, ...] | None
    batches: tuple[tuple[str, int], ...] = ()

    def last(self, writer: str) -> int | None:
        """The number of the last batch of a writer; None without one."""
        return dict(self.batches).get(writer)

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        batches = dict(self.batches)
        return {"count": self.count, "identity": self.identity, "batches": batches}

    @classmethod
    def from_json(cls, item: Any) -> Applied:
        """The inverse of :meth:`to_json`, for data that is not trusted.

        Raises:
            ValueError: names the invalid field.
        """
        count = fields.whole(item, "count", 1, _MOST_CHANGES)
        identity = None
        if fields.value(item, "identity") is not None:
            identity = fields.texts(item, "identity")
        batches = fields.value(item, "batches")
        if not isinstance(batches, dict):
            raise ValueError(f"batches is {fields.shown(batches)}, which is not an object")
        numbers = {name: fields.whole(batches, name, 0, _MOST_CHANGES) for name in batches}
        return cls(count, identity, tuple(numbers.items()))
