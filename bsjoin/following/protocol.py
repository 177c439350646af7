"""What can be followed: a source that tells its version cheaply, and perhaps what has changed.

A look asks for the version. If it is that of the newest version of the table, the rows are
confirmed as fresh. Otherwise the changes since then are applied, where the source tells them, or
the source is read whole. Either way the manifest that makes the rows visible has the version of the
source: both are one step, so a look that a crash ends is repeated by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from bsjoin.storage.source_version import SourceVersion

__all__ = ["Changes", "Followed", "SourceVersion"]


@dataclass(frozen=True)
class Changes:
    """What has changed between two versions of a source: all of it, and nothing else.

    Args:
        rows: the changes, in a form that :meth:`bsjoin.BatchTable.apply` recognises, of the columns
            that the table was built from; further columns do not matter.
        key: the columns that tell a row of the source from all others, as for ``apply``. None
            (default): nothing does. Then each change has to be told with the row as it was before
            (as Delta's feed does), and ``at`` is needed.
        op: as for ``apply``; default None: recognised.
        sequence: as for ``apply``; default None: that of the feed, if it has one.
        at: returns the rows of exactly the version that the changes lead to, None where they cannot
            be read: where keys of the table are not unique, all rows of the keys that have changed
            are read there. Default None: with ``key`` it is not needed.
    """

    rows: DataFrame
    key: tuple[str, ...] | None = None
    op: str | None = None
    sequence: str | None = None
    at: Callable[[], DataFrame | None] | None = None


class Followed(Protocol):
    """A source that can be followed. One thread calls it; each call may take Spark jobs."""

    def version(self) -> SourceVersion | None:
        """The newest version, asked for cheaply.

        Returns:
            None where it is not known for certain at this moment: the next look asks again.

        Raises:
            Exception: the source cannot be asked, or is gone; looks go on, less often.
        """
        ...

    def has(self, version: SourceVersion, until: SourceVersion) -> bool:
        """Whether rows of one version are those of another one, or newer: then nothing is read.

        Args:
            version: the version that the table has, perhaps by another application.
            until: the version that :meth:`version` has returned.
        """
        ...

    def at(self, version: SourceVersion) -> DataFrame:
        """The rows of a version, or, where an older one cannot be read, those of the newest."""
        ...

    def changes(self, since: SourceVersion, until: SourceVersion) -> Changes | None:
        """What has changed after one version, up to another one that :meth:`version` has returned.

        Args:
            since: the version that the table has; perhaps of another source or selection, which
                ``since.is_of(until)`` tells.
            until: the version that it is to have.

        Returns:
            None where this step is not told: the source is read whole.

        Raises:
            NotTold: the same, with the reason.
            Exception: the source fails to tell it. It is read whole, which is said once, and
                counted.
        """
        ...
