"""Tables that change, beside a plain list of their rows: what layers have to be equal to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from pyspark.sql.pandas.types import from_arrow_schema

from bsjoin.index import hashes_of_integers
from bsjoin.storage import (
    KeyColumn,
    Manifest,
    RangeColumns,
    StorageLocation,
    builds,
    versions,
    write_unindexed,
)
from bsjoin.storage.layers.applying import with_changes
from bsjoin.storage.layers.change_set import DELETE, UPSERT, ChangeSet
from bsjoin.storage.layers.compacting import compacted, rebased
from bsjoin.storage.layers.entries import Applied
from bsjoin.storage.layers.writing import write_rows
from bsjoin.storage.manifest import compared_fields
from bsjoin.storage.open_table import OpenTable

Row = dict[str, Any]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("k", pa.int64()),
        pa.field("p", pa.int64()),
        pa.field("e", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("k0", pa.int64()),  # as the compared key is called
    ]
)


@dataclass(frozen=True)
class Form:
    """What a table is for.

    Args:
        key: ``"direct"`` (integers close together), ``"hashed"``, ``"text"`` (hashes collide), or
            ``"none"``.
        ranged: ``""``, ``"point"`` or ``"interval"``.
        real: whether texts have the hashes that Spark gives them. Default: few, which collide.
    """

    key: str
    ranged: str
    real: bool = False

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table; a text key is a column of texts."""
        key = pa.field("k", pa.string() if self.key == "text" else pa.int64())
        return COLUMNS.set(1, key)

    def key_of(self, number: int) -> Any:
        """A key."""
        return {"text": f"key {number}", "hashed": number * 1_000_003}.get(self.key, number)

    def hash_of(self, key: Any) -> int | None:
        """The hash of a key; of a text one that others have, too."""
        if self.key == "none":
            return 0
        if key is None:
            return None
        if self.key == "text" and self.real:
            digest = xxhash.xxh64_intdigest(key.encode(), 42)
            return digest - (1 << 64) if digest >> 63 else digest
        if self.key == "text":
            return len(key) * 7 + ord(key[-1]) % 3
        return int(hashes_of_integers(np.array([key]))[0])


FORMS = [
    Form(key, ranged)
    for key in ("direct", "hashed", "text", "none")
    for ranged in ("", "point", "interval")
    if key != "none" or ranged
]
IDENTITIES: list[tuple[str, ...]] = [("id",), ("k", "id"), ("k", "p"), ()]


@dataclass
class Sample:
    """A stored table and the rows that it has to have.

    Args:
        location: of the table.
        form: what it is for.
        identity: what tells its rows apart.
        ordered: whether changes have a sequence that the table stores.
        draw: random numbers.
        segment_bytes: how large segments grow.
    """

    location: StorageLocation
    form: Form
    identity: tuple[str, ...]
    ordered: bool
    draw: random.Random
    segment_bytes: int = 1 << 30
    rows: list[Row] = field(default_factory=list)
    ids: int = 0
    clock: int = 0
    open: list[OpenTable] = field(default_factory=list)

    # -- a build -----------------------------------------------------------------------------------

    def row(self, key: int | None = None) -> Row:
        """A new row."""
        self.ids += 1
        number = self.draw.randrange(12) if key is None else key
        start = self.draw.randrange(8)
        return {
            "id": self.ids,
            "k": None if self.draw.random() < 0.05 and self.form.key != "none"
            else self.form.key_of(number),
            "p": None if self.draw.random() < 0.05 and "p" not in self.identity else start,
            "e": self.draw.choice([None, start, start + 1, start + 5]),
            "seq": 10 * self.clock,
            "v": self.draw.choice([None, "", "a", "b", "ä" * 9]),
            "k0": self.draw.randrange(9),
        }  # fmt: skip

    def build(self, rows: list[Row]) -> Manifest:
        """Publish a version of some rows alone, as a build does."""
        self.rows = rows
        return self.publish(self.draft(rows))

    def draft(self, rows: Sequence[Row], begun: builds.Build | None = None) -> Manifest:
        """A version of some rows alone; its files are of a build, which goes on, or of their own.

        Args:
            rows: the rows.
            begun: the build; default None: one that ends here.
        """
        form = self.form
        keys = {"text": [KeyColumn("k", "string")], "none": []}.get(
            form.key, [KeyColumn("k", "long")]
        )
        ranged = {
            "point": RangeColumns(("p",), ("long",), None),
            "interval": RangeColumns(("p", "e"), ("long", "long"), "left", (), ordered=True),
        }.get(form.ranged)
        compared = compared_fields(keys)
        manifest = Manifest(
            version=0, activates_at_us=0, created_at_us=0, build_s=0.0, keys=tuple(keys),
            compared=len(compared), unique=False, schema=pa.schema([*compared, *form.columns]),
            spark_schema=from_arrow_schema(form.columns).json(), segments=(), ranged=ranged,
            row=tuple(COLUMNS.names) if ranged else None, unindexed=(),
        )  # fmt: skip
        build = begun or builds.begin(self.location)
        found = [row for row in rows if self.is_found(row)]
        if found:
            table = self.table(found)
            hashes = np.array([form.hash_of(row["k"]) for row in found], np.int64)
            # The base has several segments where there are rows for them.
            cuts = [np.iinfo(np.int64).min, *np.unique(hashes)[6:7].tolist()]
            segments = []
            for number, cut in enumerate(cuts):
                part = hashes >= cut
                if number + 1 < len(cuts):
                    part &= hashes < cuts[number + 1]
                if part.any():
                    some = table.filter(pa.array(part))
                    info = write_rows(build, f"{number:04d}", manifest, hashes[part], some.column)
                    segments.append(info)
            manifest = replace(manifest, segments=tuple(segments))
        others = [row for row in rows if not self.is_found(row)]
        if others:
            table = pa.Table.from_pylist(others, form.columns)
            name = f"{build.folder}/u0000"
            info = write_unindexed(self.location, name, np.arange(len(others)), table)
            manifest = replace(manifest, unindexed=(info,))
        if begun is None:
            build.published()
        return manifest

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Rows as they are stored: compared keys, then columns."""
        table = pa.Table.from_pylist(list(rows), self.form.columns)
        if self.form.key == "text":
            table = table.add_column(0, "k0", table.column("k"))
        return table

    def is_found(self, row: Row) -> bool:
        """Whether a look-up can find a row."""
        return (self.form.key == "none" or row["k"] is not None) and (
            not self.form.ranged or row["p"] is not None
        )

    # -- changes -----------------------------------------------------------------------------------

    def changes(self, many: int) -> list[tuple[int, Row, int]]:
        """Some changes: what they are, the row, and their order."""
        found = []
        for _ in range(many):
            self.clock += 1
            kind = self.draw.choice([UPSERT, UPSERT, DELETE])
            if self.rows and self.draw.random() < 0.6:
                row = dict(self.draw.choice(self.rows))
                if kind == UPSERT:
                    new = self.row()
                    row |= {name: new[name] for name in new if name not in ("id", "seq")}
                    if "k" in self.identity and row["k"] is None:
                        row["k"] = self.form.key_of(3)
            else:
                row = self.row()
            if any(row[name] is None for name in self.identity):
                continue
            if not self.identity and self.form.key != "none" and row["k"] is None:
                continue
            # Some come late, behind changes with a greater order.
            order = 10 * self.clock - (self.draw.choice([0, 0, 0, 75]) if self.ordered else 0)
            found.append((kind, row | {"seq": order}, order))
        return found

    def change_set(self, changes: Sequence[tuple[int, Row, int]]) -> ChangeSet:
        rows = [row for _, row, _ in changes]
        hashes = pa.array([self.form.hash_of(row["k"]) for row in rows], pa.int64())
        return ChangeSet(
            hashes,
            self.table(rows),
            np.array([kind for kind, _, _ in changes], np.int8),
            pa.array([order for _, _, order in changes], pa.int64()),
        )

    def token(self, row: Row) -> tuple[Any, ...]:
        """What tells a row apart."""
        names = self.identity or (() if self.form.key == "none" else ("k",))
        return tuple(row[name] for name in names)

    def model(self, changes: Sequence[tuple[int, Row, int]]) -> None:
        """Change the list of rows."""
        last: dict[tuple[Any, ...], list[tuple[int, Row, int]]] = {}
        for change in changes:
            there = last.setdefault(self.token(change[1]), [])
            if there and self.better(change, there[0]):
                there.clear()
            if not there or not self.better(there[0], change):
                there[:] = [*there, change] if not self.identity else [change]
        for token, group in last.items():
            old = [row for row in self.rows if self.token(row) == token]
            order = group[0][2]
            if self.ordered and any(row["seq"] > order for row in old):
                continue
            self.rows = [row for row in self.rows if not any(row is one for one in old)]
            self.rows += [row for kind, row, _ in group if kind == UPSERT]

    def better(self, one: tuple[int, Row, int], other: tuple[int, Row, int]) -> bool:
        """Whether a change comes after another one of the same row."""
        if self.identity:
            return one[2] > other[2]
        return (one[2], one[0]) > (other[2], other[0])

    def apply(self, changes: Sequence[tuple[int, Row, int]]) -> Manifest:
        """Apply changes to the table and to the list of rows."""
        before = versions.latest(self.location)
        build = builds.begin(self.location)
        draft = with_changes(
            build,
            self.opened(before),
            self.change_set(changes),
            self.identity,
            "seq" if self.ordered else None,
        )
        count = 0 if before.changes is None else before.changes.count
        found = self.publish(replace(draft, changes=Applied(count + 1, self.identity)))
        build.published()
        self.model(changes)
        return found

    def refresh(self) -> Manifest:
        """Publish what the source has now: some rows are gone, and some are new."""
        kept = [row for row in self.rows if self.draw.random() < 0.8]
        new = [self.row() for _ in range(5)]
        new = [row for row in new if all(row[name] is not None for name in self.identity)]
        if self.identity:
            return self.build([*{self.token(row): row for row in [*kept, *new]}.values()])
        return self.build([*kept, *new])

    def compact(self, meanwhile: int = 0) -> Manifest:
        """Compact, with changes that come while the base is written."""
        before = versions.latest(self.location)
        build = builds.begin(self.location)
        base = compacted(build, self.opened(before), self.segment_bytes)
        for _ in range(meanwhile):
            self.apply(self.changes(4))
        now = versions.latest(self.location)
        draft = rebased(now, before, base)
        if draft is None:  # of layers alone one has been absorbed
            assert not before.segments
            build.abandon()
            return now
        found = self.publish(draft)
        build.published()
        return found

    def publish(self, draft: Manifest) -> Manifest:
        """Publish without the wait for activation."""
        number = max(versions.numbers(self.location), default=0) + 1
        manifest = draft.published_as(number, number, number)
        assert self.location.create(f"versions/{number:08d}.json", manifest.to_bytes())
        return versions.load(self.location, number)

    def opened(self, manifest: Manifest) -> OpenTable:
        """Open a version, which shares the segments of those before."""
        found = OpenTable(self.location, manifest, self.open[-2:])
        self.open.append(found)
        return found

    # -- comparison --------------------------------------------------------------------------------

    def contents(self, table: OpenTable) -> dict[Any, list[tuple[Any, ...]]]:
        """The rows of each key in the order of its run, with the codes that searches use."""
        keys: list[Any] = [self.form.key_of(number) for number in range(14)]
        if self.form.key == "none":
            keys = [None]
        hashes = pa.array([self.form.hash_of(key) for key in keys], pa.int64())
        compared = [pa.array(keys, pa.string())] if self.form.key == "text" else []
        # For few keys each layer is searched, for more of them one index of all.
        places = range(len(keys))
        alone = [
            table.find(hashes[i : i + 1], [key[i : i + 1] for key in compared]) for i in places
        ]
        first = table.find(hashes, compared)
        assert np.concatenate(alone).tolist() == first.tolist()
        counts = table.run_lengths(first)
        found = {}
        for key, row, count in zip(keys, first.tolist(), counts.tolist(), strict=True):
            rows = np.arange(row, row + count)
            columns = [c.to_pylist() for c in table.gather(tuple(COLUMNS.names), rows)]
            beside: list[list[Any]] = []
            if self.form.ranged and count:
                ((_, index, first_row),) = table.groups(np.array([row]))
                beside.append(index.starts.values[rows - first_row].tolist())
                if index.places is not None:
                    beside.append(index.places[rows - first_row].tolist())
            found[key] = [*zip(*columns, *beside, strict=True)]
        return found

    def check(self, manifest: Manifest, rows: list[Row]) -> None:
        """Compare a version with a build of the rows that it has to have."""
        table = self.opened(manifest)
        built = OpenTable(self.location, replace(self.draft(rows), version=1))
        found, wanted = self.contents(table), self.contents(built)
        if not self.form.ranged:  # rows of a key are in the order of their source
            found, wanted = (
                {key: sorted(some, key=repr) for key, some in one.items()}
                for one in (found, wanted)
            )
        assert found == wanted
        stats = manifest.stats
        there = [row for row in rows if self.is_found(row)]
        keys = {self.form.key != "none" and row["k"] for row in there}
        assert (stats.rows, stats.keys) == (len(there), len(keys))
        assert stats.unindexed == len(rows) - len(there)
        shown = []
        for number, segment in enumerate(table.segments):
            some = np.flatnonzero(table.visible(number))
            compared = manifest.compared
            shown += zip(
                *(segment.take(compared + i, some).to_pylist() for i in range(len(COLUMNS))),
                strict=True,
            )
        assert sorted(shown, key=repr) == sorted((tuple(r.values()) for r in there), key=repr)
