"""How a join is carried out: frozen option objects, checked when they are made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from bsjoin.durations import seconds
from bsjoin.errors import ArgumentError

__all__ = ["Full"]

_SMALLEST_SEGMENT, _LARGEST_SEGMENT = 1 << 20, (1 << 31) - (1 << 26)


@dataclass(frozen=True, kw_only=True)
class Full:
    """Full cache: the whole table is indexed once and memory-mapped by every worker.

    Args:
        store: folder of the table: a local path or an fsspec URL that the driver and all
            workers reach. The table stays there and is found again after a restart; it is
            built only when its source has changed. ``None``: a temporary folder of this
            machine, removed when the application ends.
        refresh: read the source again at this interval while streams run: a ``timedelta``,
            a text such as ``"10 minutes"`` or a number of seconds. A changed table becomes a
            new version and reaches every stream at a micro-batch boundary.
        unique: declare that no key occurs twice in the table. Building or refreshing then
            fails on a duplicate key, and the plan is the fastest one. A table that cannot
            change during the query gets that plan by itself when its keys are unique.
        fingerprint: your own word for the state of the source, a Delta version for instance.
            With a ``store``, the table is built again exactly when it differs. Without it,
            a plain read of files is recognised by the names, sizes and times of the files;
            every other source is read again on start.
        segment_bytes: how large one segment of the table may grow, less than 2 GiB. The
            fewer the segments, the faster the look-up; building needs the memory of one
            column of one segment.

    Raises:
        ArgumentError: a value is out of its range.

    Example:
        >>> Full(refresh="10 minutes").refresh_s
        600.0
    """

    store: str | os.PathLike[str] | None = None
    refresh: timedelta | str | float | None = None
    unique: bool = False
    fingerprint: str | None = None
    segment_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if self.refresh is not None and not self.refresh_s > 0:
            raise ArgumentError(f"refresh={self.refresh!r}: an interval must be above zero")
        if self.store is not None and not (
            isinstance(self.store, str | os.PathLike) and os.fspath(self.store)
        ):
            raise ArgumentError(
                f"store={self.store!r}: give a folder or URL, or None for a temporary folder"
            )
        if not isinstance(self.unique, bool):
            raise ArgumentError(f"unique={self.unique!r}: give True or False")
        if self.fingerprint is not None and not (
            isinstance(self.fingerprint, str) and self.fingerprint
        ):
            raise ArgumentError(f"fingerprint={self.fingerprint!r}: give a text, or None")
        if type(self.segment_bytes) is not int:
            raise ArgumentError(f"segment_bytes={self.segment_bytes!r}: give a whole number")
        if not _SMALLEST_SEGMENT <= self.segment_bytes <= _LARGEST_SEGMENT:
            raise ArgumentError(
                f"segment_bytes={self.segment_bytes!r}: it must be {_SMALLEST_SEGMENT} to "
                f"{_LARGEST_SEGMENT}: every segment costs time in every micro-batch, and Arrow "
                "holds less than 2 GiB of text in one column"
            )

    @property
    def refresh_s(self) -> float:
        """The refresh interval in seconds; 0 for none."""
        return 0.0 if self.refresh is None else seconds(self.refresh, "refresh")
