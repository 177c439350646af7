"""Changes become a layer: all rows that the keys which they touch have now.

Cost is that of the rows of these keys, not of the table. The layers below that are not much larger
become a part of the new one, so that there are few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.index.arrays import Bools, Int64s
from bsjoin.storage.box_file import BoxSide
from bsjoin.storage.builds import Build
from bsjoin.storage.layers.apart import with_rows_apart
from bsjoin.storage.layers.change_set import UPSERT, ChangeSet, group_ids, values_of
from bsjoin.storage.layers.entries import MOST_LAYERS, Layer
from bsjoin.storage.layers.keys import Keys, row_hashes
from bsjoin.storage.layers.writing import write_gone, write_rows
from bsjoin.storage.manifest import Manifest
from bsjoin.storage.open_table import OpenTable
from bsjoin.storage.segment import bools
from bsjoin.storage.segment_entries import SegmentInfo, UnindexedInfo, fit_together
from bsjoin.storage.ties import order_codes
from bsjoin.storage.unindexed import unindexed_column
from bsjoin.values.retype import joined, whole

_ABSORBED = 4  # a layer goes into the next one unless it has so many times its rows
_BOXED = 1 << 12
"""Rows. An index of boxes over fewer takes 7 ms more, as long as thousands of searches of all."""


def with_changes(
    build: Build,
    table: OpenTable,
    changes: ChangeSet,
    identity: Sequence[str],
    sequence: str | None = None,
    boxes: Sequence[BoxSide] = (),
) -> Manifest:
    """Write the layer of some changes; nothing is visible until the manifest is published.

    Args:
        build: where to, to be abandoned by the caller if this fails.
        table: the newest version, open.
        changes: what changes.
        identity: the columns that tell a row from all others; empty if all rows of a key are
            replaced together.
        sequence: the stored column with the order of the changes: one that is below that of the
            row that is there changes nothing. None (default): all changes count.
        boxes: the dimensions of the table's boxes.

    Returns:
        The manifest, its version still open; the one before if nothing changes.

    Raises:
        ArgumentError: a row is not known, or two changes of one are not in order.

    Complexity: O(rows of the touched keys and of the layers that are absorbed); if ``identity``
        does not have all key columns, a pass over its columns of the table.
    """
    writer = _Writer(build, table, identity, sequence, boxes)
    changes.check_identity({name: writer.number(name) for name in identity})
    return writer.written(changes) if len(changes) else table.manifest


class _Writer:
    """The step from one version to the next."""

    def __init__(
        self,
        build: Build,
        table: OpenTable,
        identity: Sequence[str],
        sequence: str | None,
        boxes: Sequence[BoxSide],
    ):
        self._build, self._table, self._manifest = build, table, table.manifest
        self._identity, self._sequence, self._boxes = tuple(identity), sequence, boxes
        self._on = [key.name for key in self._manifest.keys]

    def number(self, name: str) -> int:
        """The number of a stored column; a compared key may have the same name."""
        return self._manifest.compared + self._manifest.columns.index(name)

    def written(self, changes: ChangeSet) -> Manifest:
        """Write the layer; the manifest."""
        manifest, table = self._manifest, self._table
        compared = manifest.compared
        changes = changes.last(group_ids(self._tokens_of(changes)), several=not self._identity)
        touched = Keys.of(*self._touched(changes))
        first = self._first_rows(touched)
        rows, of = _expanded(first, table.run_lengths(first))
        stays, changes, apart = self._decided(changes, rows)
        now = self._insertions(changes)
        hashes, columns = now
        unindexed = self._unindexed(changes, apart)
        had, had_keys = len(rows), int((first >= 0).sum())
        rows, of = rows[stays], of[stays]
        if not len(touched) or (not len(hashes) and len(rows) == had):
            is_same = unindexed == manifest.unindexed
            return manifest if is_same else replace(manifest, unindexed=unindexed)
        kept_hashes = [touched.hashes.take(of)]
        kept_rows = [rows]
        absorbed = self._absorbed(len(touched) + len(hashes) + len(rows))
        below = manifest.layers[: len(manifest.layers) - absorbed]
        everything = touched
        if absorbed:
            more = self._others_of_layers(len(below), touched)
            first = self._first_rows(more)
            added, of = _expanded(first, table.run_lengths(first))
            kept_rows.append(added)
            kept_hashes.append(more.hashes.take(of))
            everything = Keys.of(
                np.concatenate([touched.hashes, more.hashes]),
                [pa.concat_arrays(pair) for pair in zip(touched.keys, more.keys, strict=True)],
            )
        kept = np.concatenate(kept_rows)
        stored = table.take([*range(len(manifest.schema))], kept)
        held = pa.Table.from_arrays(stored, schema=manifest.schema)
        together = pa.concat_tables([held, columns])
        all_hashes = np.concatenate([*kept_hashes, hashes])
        row_keys = [pa.concat_arrays(together.column(i).chunks) for i in range(compared)]
        layer_rows = None
        if len(together):
            boxes = self._boxes if len(together) >= _BOXED else ()
            layer_rows = write_rows(
                self._build, "rows", manifest, all_hashes, together.column, boxes
            )
        has_rows = np.zeros(len(everything), np.bool_)
        has_rows[everything.find(all_hashes, row_keys)] = True
        gone = everything.chosen(~has_rows)
        if not absorbed:
            # What nothing below has need not be marked; but a compaction that has begun may
            # publish a base with the rows of layers that are absorbed here.
            gone = gone.chosen(self._first_rows(gone) >= 0)
        layer_gone = None
        if len(gone):
            layer_gone = write_gone(self._build, "gone", gone.hashes, gone.keys)
        layers = below
        if layer_rows is not None or layer_gone is not None:
            layers = (*below, Layer(layer_rows, layer_gone))
        stats = manifest.stats
        now_keys = int(has_rows[everything.find(touched.hashes, touched.keys)].sum())
        live = (
            stats.rows - had + len(rows) + len(hashes),
            stats.keys - had_keys + now_keys,
        )
        return replace(
            manifest,
            layers=layers,
            live=live if layers else None,
            unindexed=unindexed,
            base=manifest.base or self._build.name,  # that of earlier versions of bsjoin has none
        )

    def _first_rows(self, keys: Keys) -> Int64s:
        """The first row of each key; -1 for none."""
        return self._table.find(pa.array(keys.hashes, pa.int64()), keys.keys)

    # -- which rows stay ---------------------------------------------------------------------------

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns that tell rows apart that change together."""
        return self._identity or tuple(self._on)

    def _tokens_of(self, changes: ChangeSet) -> list[pa.Array]:
        """What tells the rows of changes apart."""
        columns = [whole(changes.rows.column(self.number(name))) for name in self._names]
        return columns or [_zeros(len(changes))]

    @property
    def _compared(self) -> range:
        return range(self._manifest.compared)

    def _touched(self, changes: ChangeSet) -> tuple[Int64s, list[pa.Array]]:
        """The join keys of the changes, and of the rows that they are of."""
        valid = np.flatnonzero(bools(changes.hashes.is_valid()))
        indices = pa.array(valid)
        hashes = [changes.hashes.take(indices).to_numpy()]
        keys = [[whole(changes.rows.column(i)).take(indices)] for i in self._compared]
        if self._identity and not set(self._on) <= set(self._identity):
            for number, segment in enumerate(self._table.segments):
                rows = np.flatnonzero(self._may_be_of(number, changes))
                hashes.append(row_hashes(segment).take(rows))
                for column, i in zip(keys, self._compared, strict=True):
                    column.append(segment.take(i, rows))
        return np.concatenate(hashes), [pa.concat_arrays(column) for column in keys]

    def _may_be_of(self, number: int, changes: ChangeSet) -> Bools:
        """The rows of a segment whose identity may be that of a change, by each of its columns."""
        segment, found = self._table.segments[number], None
        for name in self._identity:
            stored = values_of(segment.column(self.number(name)))
            wanted = pc.unique(values_of(whole(changes.rows.column(self.number(name)))))
            there = bools(pc.is_in(stored, value_set=wanted))
            found = there if found is None else found & there
        assert found is not None
        return found & self._table.visible(number)

    def _decided(self, changes: ChangeSet, rows: Int64s) -> tuple[Bools, ChangeSet, Int64s]:
        """Which rows stay, which changes count, and which rows that match nothing go.

        Args:
            changes: the last of each row.
            rows: int64[r], the rows of their keys.
        """
        apart = self._apart()
        tokens = self._tokens_of(changes)
        held = self._table.gather(self._names, rows) or [_zeros(len(rows))]
        others = [apart[name] for name in self._names]
        others = others or [_zeros(sum(info.rows for info in self._manifest.unindexed or ()))]
        groups = group_ids([joined(three) for three in zip(tokens, held, others, strict=True)])
        n, m = len(changes), len(rows)
        old = groups[n:]  # of the rows that are there
        counts = np.ones(n, np.bool_)
        if self._sequence is not None and changes.order is not None:
            stored = self._table.gather((self._sequence,), rows)[0]
            stored = joined([stored, apart[self._sequence]])
            order = order_codes(
                pa.concat_arrays([changes.order, stored.cast(changes.order.type)]), exact=False
            )
            # Null is no order: any change counts.
            known = bools(stored.is_valid())
            latest = np.full(int(groups.max(initial=0)) + 1, np.iinfo(np.int64).min)
            np.maximum.at(latest, old[known], order[n:][known])
            counts = order[:n] >= latest.take(groups[:n])
        changed = np.zeros(int(groups.max(initial=0)) + 1, np.bool_)
        changed[groups[:n][counts]] = True
        gone = changed.take(old)
        return ~gone[:m], changes.take(np.flatnonzero(counts)), np.flatnonzero(gone[m:])

    def _insertions(self, changes: ChangeSet) -> tuple[Int64s, pa.Table]:
        """The hashes and the columns of new rows that a look-up can find."""
        places = np.flatnonzero((changes.kinds == UPSERT) & self._is_indexed(changes))
        indices = pa.array(places)
        rows = changes.rows.take(indices).cast(self._manifest.schema).combine_chunks()
        return changes.hashes.take(indices).to_numpy(), rows

    def _is_indexed(self, changes: ChangeSet) -> Bools:
        """Which rows may match: no part of the key is null, nor the point."""
        valid = bools(changes.hashes.is_valid())
        if self._manifest.ranged is not None:
            point = changes.rows.column(self.number(self._manifest.ranged.names[0]))
            valid = valid & bools(whole(point).is_valid())
        return valid

    # -- rows that match nothing -------------------------------------------------------------------

    def _apart(self) -> dict[str, pa.Array]:
        """What tells rows that match nothing apart, and their order."""
        manifest, found = self._manifest, {}
        wanted = {*self._names, *([self._sequence] if self._sequence else ())}
        for name in wanted:
            number = manifest.columns.index(name)
            field = manifest.schema.field(manifest.compared + number)
            parts = [
                unindexed_column(self._build.location, info, number, field)
                for info in manifest.unindexed or ()
            ]
            found[name] = joined([*parts, pa.array([], field.type)])
        return found

    def _unindexed(self, changes: ChangeSet, gone: Int64s) -> tuple[UnindexedInfo, ...] | None:
        """The segments of rows that match nothing, written again if any comes or goes."""
        manifest = self._manifest
        if manifest.unindexed is None:  # they are left out
            return None
        places = np.flatnonzero((changes.kinds == UPSERT) & ~self._is_indexed(changes))
        if not len(places) and not len(gone):
            return manifest.unindexed
        new = changes.rows.take(pa.array(places))
        return with_rows_apart(self._build, manifest, manifest.unindexed, new, gone)

    # -- layers below ------------------------------------------------------------------------------

    def _absorbed(self, rows: int) -> int:
        """How many of the newest layers become a part of the next one."""
        layers = self._manifest.layers
        together: list[SegmentInfo] = []
        for count, layer in enumerate(reversed(layers)):
            together += layer.segments
            is_large = layer.size > _ABSORBED * rows and len(layers) - count < MOST_LAYERS
            if is_large or not fit_together(together):
                return count
            rows += layer.size
        return len(layers)

    def _others_of_layers(self, first: int, touched: Keys) -> Keys:
        """The keys of the layers from one on, without those that are touched."""
        layers = self._table.layers[first:]
        segments = [one for layer in layers for one in (layer.rows, layer.gone) if one is not None]
        found = Keys.of_segments(segments, len(self._compared))
        return found.chosen(touched.find(found.hashes, found.keys) < 0)


def _expanded(first: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """All rows of some keys, and which key each of them has.

    Args:
        first: int64[n], the first row of each key; -1 for none.
        counts: int64[n], how many there are.
    """
    of = np.repeat(np.arange(len(first)), counts)
    ends = np.cumsum(counts)
    return np.arange(len(of)) + np.repeat(first - (ends - counts), counts), of


def _zeros(count: int) -> pa.Array:
    return pa.array(np.zeros(count, np.int64))
