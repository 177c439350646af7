"""Tables that change, beside a plain list of their rows: what layers have to be equal to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
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
from tests.fuzz.collisions import EXTREMES, TEXTS, hash_of, second_of_pair

Row = dict[str, Any]
Change = tuple[int, Row, int]
"""What it is, the row, and its order."""

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
        key: ``"direct"`` (integers close together), ``"hashed"``, ``"text"``, ``"two"`` (a text and
            an integer), or ``"none"``. Of texts and pairs some have one hash; of integers that are
            hashed some have the least and the greatest hashes.
        ranged: ``""``, ``"point"`` or ``"interval"``.
        real: whether texts and pairs have the hashes that Spark gives them. Default: few, of which
            many have the same.
    """

    key: str
    ranged: str
    real: bool = False

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table; a text key is a column of texts."""
        text = self.key in ("text", "two")
        return COLUMNS.set(1, pa.field("k", pa.string() if text else pa.int64()))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the join key."""
        return {"none": (), "two": ("k", "k0")}.get(self.key, ("k",))

    def values(self, number: int) -> Row:
        """The columns of a key."""
        if self.key == "two":
            text = f"key {number % 5}"
            # The first two have one hash.
            return {"k": text, "k0": second_of_pair("key 0", 0, text) if number == 1 else number}
        if self.key == "text":
            return {"k": TEXTS[number] if number < len(TEXTS) else f"key {number}"}
        if self.key == "hashed":
            return {"k": EXTREMES[number] if number < len(EXTREMES) else number * 1_000_003}
        return {"k": number}

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """The join key of a row."""
        return tuple(row[name] for name in self.keys)

    def compared(self, keys: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        """What is compared of join keys whose hashes may be equal: texts, and hashes of numbers."""
        if self.key not in ("text", "two"):
            return []
        texts = pa.array([key[0] for key in keys], pa.string())
        numbers = pa.array([_hash(key[1]) for key in keys if len(key) > 1], pa.int64())
        return [texts, numbers][: len(self.keys)]

    def hash_of(self, key: tuple[Any, ...]) -> int | None:
        """The hash of a join key; of compared ones that which others have, too."""
        if None in key:
            return None
        if not key:
            return 0
        if self.key not in ("text", "two"):
            return _hash(*key)
        if not self.real:
            return sum(map(ord, repr(key))) % 5 * 7
        found = 42
        for value in key:
            found = hash_of(value, found)
        return found - (1 << 64) if found >> 63 else found

    def told_by(self, identity: tuple[str, ...]) -> tuple[str, ...]:
        """One of :data:`IDENTITIES` with all columns of this form's key."""
        if "k" not in identity or self.keys == ("k",):
            return identity
        return (*self.keys, *identity[1:]) if self.keys else ("id", "p")


def _hash(number: int | None) -> int | None:
    return None if number is None else int(hashes_of_integers(np.array([number]))[0])


FORMS = [
    Form(key, ranged)
    for key in ("direct", "hashed", "text", "none", "two")
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

    def begin(self) -> Manifest:
        """Publish the first version, of up to 60 rows."""
        rows = {}
        for _ in range(self.draw.randrange(60)):
            row = self.row()
            if not any(row[name] is None for name in self.identity):
                rows[self.token(row) if self.identity else self.ids] = row
        return self.build([*rows.values()])

    def step(self) -> Manifest:
        """Publish the next version, of changes, a compaction or a refresh."""
        what = self.draw.random()
        if what < 0.25:
            return self.compact(self.draw.randrange(3))
        if what < 0.4:
            return self.refresh()
        return self.apply(self.changes(self.draw.choice([1, 3, 20])))

    def vacuum(self, keep: int) -> list[int]:
        """Remove all but the newest versions; the numbers of those that have gone."""
        return versions.vacuum(self.location, 1 << 60, keep)

    # -- a build -----------------------------------------------------------------------------------

    def row(self, key: int | None = None) -> Row:
        """A new row."""
        self.ids += 1
        number = self.draw.randrange(12) if key is None else key
        start = self.draw.randrange(8)
        found = {
            "id": self.ids,
            "k": None,
            "p": None if self.draw.random() < 0.05 and "p" not in self.identity else start,
            "e": self.draw.choice([None, start, start + 1, start + 5]),
            "seq": 10 * self.clock,
            "v": self.draw.choice([None, "", "a", "b", "ä" * 9]),
            "k0": self.draw.randrange(9),
        } | self.form.values(number)  # fmt: skip
        for name in self.form.keys:
            if self.draw.random() < 0.05:
                found[name] = None
        return found

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
        types = {name: str(form.columns.field(name).type) for name in form.keys}
        keys = [KeyColumn(name, {"int64": "long"}.get(one, one)) for name, one in types.items()]
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
        manifest = replace(manifest, base=build.name)
        found = [row for row in rows if self.is_found(row)]
        if found:
            table = self.table(found)
            hashes = np.array([form.hash_of(form.key_of(row)) for row in found], np.int64)
            # The base has several segments where there are rows for them.
            cuts = [np.iinfo(np.int64).min, *np.unique(hashes)[3::3].tolist()]
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
            info = write_unindexed(build.location, name, np.arange(len(others)), table)
            manifest = replace(manifest, unindexed=(info,))
        if begun is None:
            build.published()
        return manifest

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Rows as they are stored: compared keys, then columns."""
        table = pa.Table.from_pylist(list(rows), self.form.columns)
        compared = self.form.compared([*map(self.form.key_of, rows)])
        names = [f"k{place}" for place in range(len(compared))]
        return pa.table([*compared, *table.columns], [*names, *table.column_names])

    def is_found(self, row: Row) -> bool:
        """Whether a look-up can find a row."""
        has_point = not self.form.ranged or row["p"] is not None
        return has_point and None not in self.form.key_of(row)

    # -- changes -----------------------------------------------------------------------------------

    def changes(self, many: int) -> list[Change]:
        """Some changes; of a few every third time nothing but deletions."""
        found = []
        kinds = self.draw.choice([*[(UPSERT, UPSERT, DELETE)] * 2, *[(DELETE,)] * (many < 10)])
        for _ in range(many):
            # All rows of a key are replaced by those that come together.
            self.clock += bool(self.identity) or self.draw.random() < 0.6
            kind = self.draw.choice(kinds)
            if self.rows and self.draw.random() < 0.6:
                row = dict(self.draw.choice(self.rows))
                if kind == UPSERT:
                    new = self.row()
                    row |= {name: new[name] for name in new if name not in ("id", "seq")}
                    if any(name in self.identity and row[name] is None for name in self.form.keys):
                        row |= self.form.values(3)
            else:
                row = self.row()
            if any(row[name] is None for name in self.identity):
                continue
            if not self.identity and None in self.form.key_of(row):
                continue
            # Some come late, behind changes with a greater order.
            order = 10 * self.clock - (self.draw.choice([0, 0, 0, 75]) if self.ordered else 0)
            found.append((kind, row | {"seq": order}, order))
        return found

    def change_set(self, changes: Sequence[Change]) -> ChangeSet:
        rows = [row for _, row, _ in changes]
        hashes = pa.array([self.form.hash_of(self.form.key_of(row)) for row in rows], pa.int64())
        return ChangeSet(
            hashes,
            self.table(rows),
            np.array([kind for kind, _, _ in changes], np.int8),
            pa.array([order for _, _, order in changes], pa.int64()),
        )

    def token(self, row: Row) -> tuple[Any, ...]:
        """What tells a row apart."""
        return tuple(row[name] for name in self.identity or self.form.keys)

    def model(self, changes: Sequence[Change]) -> None:
        """Change the list of rows."""
        last: dict[tuple[Any, ...], list[Change]] = {}
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

    def better(self, one: Change, other: Change) -> bool:
        """Whether a change comes after another one of the same row."""
        if self.identity:
            return one[2] > other[2]
        return (one[2], one[0]) > (other[2], other[0])

    def apply(self, changes: Sequence[Change]) -> Manifest:
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
        draft = rebased(now, before, base, build.name)
        assert draft is not None  # changes are no build
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
        probes = [self.form.values(number) | {"id": 0} for number in range(14)]
        keys = [*dict.fromkeys(map(self.form.key_of, probes))]
        hashes = pa.array([self.form.hash_of(key) for key in keys], pa.int64())
        compared = self.form.compared(keys)
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
        with builds.begun(StorageLocation.of(f"{self.location.url}-built")) as build:
            built = OpenTable(build.location, replace(self.draft(rows, build), version=1))
            found, wanted = self.contents(table), self.contents(built)
        if not self.form.ranged:  # rows of a key are in the order of their source
            found, wanted = (
                {key: sorted(some, key=repr) for key, some in one.items()}
                for one in (found, wanted)
            )
        assert found == wanted
        self.check_counts(manifest, rows)
        there = [row for row in rows if self.is_found(row)]
        shown = []
        for number, segment in enumerate(table.segments):
            some = np.flatnonzero(table.visible(number))
            compared = manifest.compared
            shown += zip(
                *(segment.take(compared + i, some).to_pylist() for i in range(len(COLUMNS))),
                strict=True,
            )
        assert sorted(shown, key=repr) == sorted((tuple(r.values()) for r in there), key=repr)

    def check_counts(self, manifest: Manifest, rows: Sequence[Row]) -> None:
        """Compare what a version says of its rows and keys with the rows that it has to have."""
        there = [row for row in rows if self.is_found(row)]
        keys = {self.form.key_of(row) for row in there}
        stats = manifest.stats
        assert (stats.rows, stats.keys) == (len(there), len(keys))
        assert stats.unindexed == len(rows) - len(there)
