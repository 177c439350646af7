"""A step of a table from one version of its source to another one, by the changes between them.

A table that follows its source has no primary key. Where each of its keys has one row at the most,
the key tells rows apart, as long as the changes leave it so: that is counted, since each row is
told as it was and as it is. Elsewhere all rows of the keys that have changed take the place of the
old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bsjoin.planner.collations import has_collations
from bsjoin.storage import Manifest, SourceVersion
from bsjoin.storage.layers.change_set import UPSERT, ChangeSet, group_ids
from bsjoin.storage.open_table import OpenTable
from bsjoin.storage.segment import bools
from bsjoin.storage.ties import order_codes

_FEW_ROWS, _SHARE, _MOST_BYTES = 100_000, 0.15, 512 << 20


class NotTold(Exception):  # noqa: N818
    """The changes do not say what the table has to become."""


class TooMany(NotTold):
    """The changes are so many that the source is read whole instead."""


@dataclass(frozen=True)
class Advance:
    """A version of a source that a table is to have, and the one that it had before.

    Args:
        until: the version.
        since: the version that the table had when ``until`` was asked for; None if it had none.
    """

    until: SourceVersion
    since: SourceVersion | None

    def is_behind(self, now: SourceVersion | None) -> bool:
        """Whether a table has got another version of the source since that was asked for."""
        return now not in (None, self.since, self.until) and self.until.is_of(now)


@dataclass(frozen=True)
class Step:
    """A step from one version of a source to another one.

    Args:
        since: the version that the table must have.
        until: the version that it has then.
        began_us: when ``until`` was asked for, microseconds since the epoch.
        whole_keys: whether the changes have all rows of the keys that they touch.
        key: the columns that tell rows of the source apart; None (default) if nothing does.
        most: how many rows of changes are brought to the driver; None (default): all.
    """

    since: SourceVersion
    until: SourceVersion
    began_us: int
    whole_keys: bool = False
    key: tuple[str, ...] | None = None
    most: int | None = None

    def checked(self, table: OpenTable, changes: ChangeSet) -> ChangeSet:
        """The changes that concern a table.

        Raises:
            NotTold: by these the table would not become what a build of the source is.
        """
        if self.key is not None:
            return changes
        found = bools(changes.hashes.is_valid())
        if not found.all():
            if table.manifest.unindexed is not None:
                raise NotTold("rows with a null key have changed, which nothing tells apart")
            changes = changes.take(np.flatnonzero(found))  # the table has no such rows
        if not self.whole_keys and not _stays_single(table, changes):
            raise NotTold("a key has several rows")
        return changes


def can_step(manifest: Manifest) -> bool:
    """Whether changes can be applied to a table that has no primary key."""
    return bool(manifest.keys) and has_identity(manifest, ())


def has_identity(manifest: Manifest, key: Sequence[str]) -> bool:
    """Whether changes of rows that some columns tell apart can be applied to a table."""
    has_all = {*key, *manifest.searched} <= {*manifest.columns}
    return manifest.latest is None and has_all and not has_collations(manifest)


def most_rows(manifest: Manifest) -> int:
    """How many rows of changes are applied to a version; with more the source is read whole.

    They go through the driver, and beyond a share of the table a build is faster.
    """
    rows, size = manifest.stats.rows, manifest.stats.bytes
    fit = _MOST_BYTES // max(1, size // max(1, rows))
    return max(1, min(max(_FEW_ROWS, int(rows * _SHARE)), fit))


def is_keyed(manifest: Manifest) -> bool:
    """Whether each key of a table has one row at the most, and none is null."""
    return manifest.longest_run <= 1 and manifest.ranged is None and not manifest.has_null_keys


def _stays_single(table: OpenTable, changes: ChangeSet) -> bool:
    """Whether each key has one row at the most after each commit.

    A row that is there now counts one, and one that is gone, or was before an update, minus one.
    """
    if not len(changes):
        return True
    compared = table.manifest.compared
    keys = [changes.rows.column(i).combine_chunks() for i in range(compared)]
    # Of the hashes first: they are all that there is of a key of one number.
    groups = group_ids([changes.hashes, *keys])
    counts = np.where(changes.kinds == UPSERT, 1, -1)
    order = np.zeros(len(changes), np.int64)
    if changes.order is not None:
        order = order_codes(changes.order, exact=False)
    places = np.lexsort((order, groups))
    groups, order, counts = groups[places], order[places], counts[places]
    begins = np.ones(len(groups), np.bool_)
    begins[1:] = groups[1:] != groups[:-1]
    ends = np.ones(len(groups), np.bool_)  # of a commit, for a key
    ends[:-1] = begins[1:] | (order[1:] != order[:-1])
    sums = np.cumsum(counts)
    first = np.flatnonzero(begins)
    sums -= np.repeat(sums[first] - counts[first], np.diff([*first, len(groups)]))
    there = table.find(changes.hashes, keys)[places] >= 0
    rows = (there + sums)[ends]
    return bool(((rows == 0) | (rows == 1)).all())
