"""Any sequence of changes, compactions, refreshes and vacuums equals a build of the result."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from layer_samples import FORMS, IDENTITIES, Form, Row, Sample

from bsjoin.errors import ArgumentError, DamagedTableError
from bsjoin.storage import Manifest, StorageLocation, builds, versions
from bsjoin.storage.layers import overlay
from bsjoin.storage.layers.applying import with_changes
from bsjoin.storage.layers.change_set import DELETE, UPSERT, ChangeSet, group_ids
from bsjoin.storage.layers.compacting import compacted, is_due, rebased
from bsjoin.storage.open_table import OpenTable
from tests.fuzz.values import KINDS

# Each form with two of the identities: with one of them changes have a sequence.
QUICK = (1, 3, 8, 10, 12)  # each kind of key, range and identity at least once
CASES = [
    pytest.param(
        form,
        identity,
        (number // 3 + other) % 2 == 0,
        id=f"{form.key}{form.ranged}-{'-'.join(identity) or 'replace'}",
        marks=[pytest.mark.long] * (other or number not in QUICK),
    )
    for number, form in enumerate(FORMS)
    for other, identity in enumerate((IDENTITIES[-number % 4], IDENTITIES[(3 - number) % 4]))
]


@pytest.mark.parametrize(("form", "identity", "ordered"), CASES)
def test_changes_and_compactions_equal_a_build(
    tmp_path: Path, form: Form, identity: tuple[str, ...], ordered: bool
) -> None:
    """Changes have a sequence, or have none and come in their order."""
    identity = form.told_by(identity)
    draw = random.Random(f"{form}{identity}{ordered}")
    sample = Sample(StorageLocation.of(tmp_path), form, identity, ordered, draw, 1 << 12)
    history = [(sample.begin(), [*sample.rows])]
    for _ in range(7):
        history.append((sample.step(), [*sample.rows]))
        if draw.random() < 0.2:
            gone = sample.vacuum(4)
            history = [(one, rows) for one, rows in history if one.version not in gone]
    for manifest, rows in history[1::2]:  # whatever came later, a version stays what it was
        sample.check(manifest, rows)
    there = versions.numbers(sample.location)
    sample.vacuum(4)
    kept = versions.numbers(sample.location)
    assert kept == there[-4:]
    sample.open.clear()
    for manifest, rows in history[-2:]:
        assert manifest.version in kept
        versions.verify(sample.location, manifest)
        sample.check(manifest, rows)


def test_a_compaction_of_few_changes_equals_a_build(tmp_path: Path) -> None:
    """Some segments stay, of others rows are gone, or have come, also of the greatest hash."""
    draw, kept = random.Random(2), 0
    for number, form in enumerate([Form("hashed", ""), Form("text", "point")] * 8):
        location = StorageLocation.of(tmp_path / str(number))
        sample = Sample(location, form, ("k", "id"), False, draw, draw.choice([1 << 10, 1 << 30]))
        sample.build([sample.row(key) for key in [*range(12), *range(4)]])
        before = {segment.name for segment in sample.apply(sample.changes(2)).segments}
        now = sample.compact()
        kept += sum(segment.name in before for segment in now.segments)
        sample.check(now, sample.rows)
        sample.vacuum(1)  # of a build that shares segments the others go
        there = {str(one.relative_to(location.url)) for one in Path(location.url).glob("data/*/*")}
        assert there == {name for name, _, _ in now.files}
    assert kept


def test_damage_of_each_file_of_bases_and_layers_is_told(tmp_path: Path) -> None:
    form = Form("text", "interval")
    sample = Sample(StorageLocation.of(tmp_path), form, (), False, random.Random(3))
    sample.build([sample.row() for _ in range(40)])
    sample.apply(sample.changes(12))
    row = next(row for row in sample.rows if sample.is_found(row))
    manifest = sample.apply([(DELETE, row, 1)])
    assert any(layer.gone for layer in manifest.layers)
    for name, *_ in manifest.files:
        path = tmp_path / name
        content = path.read_bytes()
        for wrong, says in (
            (None, "missing"),
            (content[:-1], "bytes instead of"),
            (content + b"x", "bytes instead of"),
            (content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "checksum"),
        ):
            path.unlink()
            if wrong is not None:
                path.write_bytes(wrong)
            with pytest.raises(DamagedTableError, match=says) as caught:
                versions.verify(sample.location, manifest)
            assert all(one in str(caught.value) for one in (repr(name), str(sample.location)))
            path.write_bytes(content)
    versions.verify(sample.location, manifest)
    # A layer says of itself what its files say.
    first, last = manifest.layers
    wrong_keys = replace(first, rows=replace(first.rows, keys=first.rows.keys - 1))
    with pytest.raises(DamagedTableError, match="as rows, keys, longest_run"):
        OpenTable(sample.location, replace(manifest, layers=(wrong_keys, last)))


def test_segments_are_opened_once(tmp_path: Path) -> None:
    sample = Sample(
        StorageLocation.of(tmp_path), Form("hashed", "point"), ("id",), False, random.Random(4)
    )
    first = sample.opened(sample.build([sample.row() for _ in range(40)]))
    second = sample.opened(sample.apply(sample.changes(3)))
    third = sample.opened(sample.apply(sample.changes(1)))
    assert all(ours is theirs for ours, theirs in zip(first.segments, third.segments, strict=False))
    assert third.layers[0].rows in second.segments or len(third.layers) == 1
    assert OpenTable(sample.location, third.manifest).segments[0] is not first.segments[0]


class _OfAllTypes(Form):
    @property
    def columns(self) -> pa.Schema:
        return pa.schema([*super().columns, *((name, kind.arrow) for name, kind in KINDS.items())])


def test_columns_of_all_types_are_read_through_a_layer(tmp_path: Path) -> None:
    form = _OfAllTypes("hashed", "")
    sample = Sample(StorageLocation.of(tmp_path), form, (), False, random.Random(8))
    value = dt.timedelta(seconds=1)
    sample.build([sample.row(number) | {"interval": value} for number in range(5)])
    manifest = sample.apply([(UPSERT, sample.row(3), 1)])
    table = sample.opened(manifest)
    rows = np.array([5, 0, -1])  # the first is of the layer
    found = dict(zip(KINDS, table.gather((*KINDS,), rows), strict=True))
    assert {name: one.type for name, one in found.items()} == {
        name: kind.arrow for name, kind in KINDS.items()
    }
    assert found.pop("interval").to_pylist() == [None, value, None]
    assert all(one.null_count == 3 for one in found.values())


def test_changes_are_told_apart_by_values_that_python_does_not_have() -> None:
    """NaN, texts that are not UTF-8, and dates after 9999; a message shows them."""

    def changes(texts: Sequence[bytes], keys: Sequence[int | None] = (7, 7)) -> ChangeSet:
        rows = pa.table(
            {
                "k": pa.array(keys, pa.int64()),
                "x": [math.nan] * 2,
                "name": pa.array(texts, pa.binary()).view(pa.string()),
                "day": pa.array([4_000_000] * 2, pa.int32()).cast(pa.date32()),
            }
        )
        order, kinds = pa.array([1, 1]), np.full(2, UPSERT, np.int8)
        return ChangeSet(pa.array([5, 5], pa.int64()), rows, kinds, order)

    groups = group_ids([pa.array([7, 7])])
    assert len(changes([b"\xff", b"\xff"]).last(groups, several=False)) == 1
    with pytest.raises(ArgumentError, match="two changes of one row have the sequence 1 both"):
        changes([b"\xff", b"\xfe"]).last(groups, several=False)
    with pytest.raises(ArgumentError, match=r"null in 'k', .* 'x': nan, 'name': .* 12921-08-18}"):
        changes([b"\xff", b"\xfe"], [None, 7]).check_identity({"k": 0})


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: {"a": [x, None]}, lambda x: [("k", x)]])
def test_of_two_zeros_each_is_another_change(
    kind: pa.DataType, wrapped: Callable[[float], Any]
) -> None:
    """Which one stays would be that of the order in which they arrive."""
    zero = wrapped(0.0)
    of = {dict: pa.struct({"a": pa.list_(kind)}), list: pa.map_(pa.string(), kind)}

    def left(*values: float) -> int:
        rows = pa.table({"x": pa.array(map(wrapped, values), of.get(type(zero), kind))})
        n = len(values)
        hashes, order = pa.array([5] * n, pa.int64()), pa.array([1] * n)
        changes = ChangeSet(hashes, rows, np.full(n, UPSERT, np.int8), order)
        return len(changes.last(np.arange(n) // 2, several=False))

    assert left(0.0, 0.0, -0.0, -0.0, math.nan, math.nan) == 3
    with pytest.raises(ArgumentError, match="the sequence 1 both"):
        left(0.0, -0.0, math.nan, math.nan)
    with pytest.raises(ArgumentError, match="the sequence 1 both"):
        left(math.nan, math.nan, 0.0, -0.0)


@pytest.mark.parametrize("identity", [("id",), ("v",)])
def test_texts_of_more_than_an_array_holds_are_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: tuple[str, ...]
) -> None:
    """Of layers, and of rows that match nothing: here an array has 16 KiB at the most."""
    concat = pa.concat_arrays

    def limited(arrays: Sequence[pa.Array]) -> pa.Array:
        found = concat(arrays)
        if found.type == pa.string() and found.nbytes > 1 << 14:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return found

    def check(manifest: Manifest) -> None:
        with monkeypatch.context() as unlimited:  # it is compared with a build in one segment
            unlimited.setattr(pa, "concat_arrays", concat)
            sample.check(manifest, sample.rows)

    monkeypatch.setattr("bsjoin.storage.segment_entries.TOGETHER_BYTES", 1 << 13)
    monkeypatch.setattr("bsjoin.values.retype.LARGEST", 1 << 14)
    monkeypatch.setattr(pa, "concat_arrays", limited)
    draw = random.Random(f"{identity}")
    sample = Sample(StorageLocation.of(tmp_path), Form("text", ""), identity, False, draw, 1 << 13)

    def row() -> Row:
        found = sample.row(sample.ids) | {"v": f"{sample.ids} {'v' * 300}"}
        return found | ({"k": None} if draw.random() < 0.3 else {})

    sample.build([row() for _ in range(9)])
    for order in range(24):
        changes = [(UPSERT, row(), order) for _ in range(7)]
        gone = draw.choice(sample.rows)
        manifest = sample.apply([*changes, (DELETE, gone, order)])
    assert len(manifest.layers) > 2
    assert len(manifest.unindexed) > 1
    check(manifest)
    table = sample.opened(manifest)
    above = np.arange(table.manifest.segments[0].rows, sum(s.info.rows for s in table.segments))
    texts = [table.gather(("v",), some)[0].to_pylist() for some in np.array_split(above, 9)]
    stored = (segment.column(6).to_pylist() for segment in table.segments[1:])
    assert [*chain(*texts)] == [*chain(*stored)]
    assert is_due(replace(manifest, layers=manifest.layers[:1] * 9))
    assert not is_due(replace(manifest, layers=manifest.layers[:1] * 8))
    check(sample.compact())


def test_a_compaction_makes_segments_whose_texts_fit_into_an_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they may be nearly as large; here an array has 1 MiB at the most."""
    concat, most = pa.concat_arrays, 1 << 20

    def limited(arrays: Sequence[pa.Array]) -> pa.Array:
        found = concat(arrays)
        if found.type == pa.string() and found.nbytes > most:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return found

    monkeypatch.setattr("bsjoin.storage.layers.compacting.LARGEST", most)
    location = StorageLocation.of(tmp_path)
    sample = Sample(location, Form("hashed", ""), ("id",), False, random.Random(7), most - 1)

    def row(number: int) -> Row:
        return sample.row() | sample.form.values(number % 3) | {"v": str(number) * 20_000}

    sample.build([row(number) for number in range(10, 34)])
    sample.apply([(UPSERT, row(number), number) for number in range(40, 46)])
    with monkeypatch.context() as patched:
        patched.setattr(pa, "concat_arrays", limited)
        manifest = sample.compact()
    assert len(manifest.segments) == 2
    sample.check(manifest, sample.rows)


@pytest.mark.parametrize("again", [False, True])
def test_a_compaction_brings_nothing_back_that_a_refresh_has_removed(
    tmp_path: Path, again: bool
) -> None:
    """Nothing was in the base, nor is it then."""
    form = Form("hashed", "")
    sample = Sample(StorageLocation.of(tmp_path), form, ("id",), False, random.Random(6))
    sample.build([])
    before = sample.apply([(UPSERT, sample.row(1), 1)])
    build = builds.begin(sample.location)
    base = compacted(build, sample.opened(before), 1 << 30)
    assert base
    now = sample.build([])
    if again:
        now = sample.apply([(UPSERT, sample.row(2), 2)])
    for one, other in ((now, before), (replace(now, base=None), replace(before, base=None))):
        assert rebased(one, other, base, build.name) is None
        assert rebased(other, other, base, build.name) is not None
    build.abandon()


@pytest.mark.parametrize("older", [False, True])
def test_a_table_that_begins_empty_is_compacted_while_changes_absorb_layers(
    tmp_path: Path, older: bool
) -> None:
    """Also one that a version of bsjoin began that gave bases no names: from a change on."""
    form = Form("hashed", "")
    sample = Sample(StorageLocation.of(tmp_path), form, ("id",), False, random.Random(6))
    begun = sample.build([])
    if older:
        sample.publish(replace(begun, base=None))
    before = sample.apply([(UPSERT, sample.row(number), 1) for number in range(5)])
    first, second = builds.begin(sample.location), builds.begin(sample.location)
    base = compacted(first, sample.opened(before), 1 << 30)
    gone = [(DELETE, dict(row), 2) for row in sample.rows]
    now = sample.apply(gone)
    assert before.layers[0] not in now.layers
    # Another compaction is faster, and leaves no rows.
    none = compacted(second, sample.opened(now), 1 << 30)
    fastest = rebased(now, now, none, second.name)
    assert (fastest.segments, fastest.layers) == ((), ())
    assert rebased(fastest, before, base, first.name) is None
    draft = rebased(now, before, base, first.name)
    assert draft.segments == base
    sample.check(sample.publish(draft), sample.rows)
    first.published()
    second.abandon()


@pytest.mark.parametrize(
    ("key", "bounds"),
    [("direct", {}), ("hashed", {}), ("hashed", {"KEYS": 10_799}), ("text", {"BYTES": 10_000})],
)
def test_no_key_of_many_is_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, bounds: dict[str, int]
) -> None:
    """The keys of layers are more than the bitmap is made of at once.

    Above a bound there is no index of all of them, nor where a version is read as a whole.
    """
    for name, value in bounds.items():
        monkeypatch.setattr(overlay, f"_MOST_{name}", value)
    form = Form(key, "", real=True)
    sample = Sample(StorageLocation.of(tmp_path), form, ("k",), False, random.Random(5))
    rows = [sample.row(0) | form.values(number) for number in range(12_000)]
    before = sample.opened(sample.build(rows))
    changes = [
        (DELETE if number % 5 == 0 else UPSERT, row | {"id": -number}, number)
        for number, row in enumerate(rows)
        if number % 10 < 9
    ]
    build = builds.begin(sample.location)
    changed = with_changes(build, before, sample.change_set(changes), ("k",))
    build.published()
    table = sample.opened(sample.publish(changed))
    wanted = {form.key_of(row): row["id"] for row in rows}
    wanted |= {form.key_of(row): None if kind == DELETE else row["id"] for kind, row, _ in changes}
    shown = sum(int(table.visible(number).sum()) for number in range(len(table.segments)))
    assert shown == sum(number is not None for number in wanted.values())
    assert table.overlay._together is None
    hashes, ids = np.array([*map(form.hash_of, wanted)]), [*wanted.values()]
    compared = form.compared([*wanted])
    for some in (slice(100), slice(None), slice(None, None, -1)):  # few, then more than there are
        indices = pa.array(np.arange(len(ids))[some])
        found = table.find(pa.array(hashes[some]), [column.take(indices) for column in compared])
        assert table.gather(("id",), found)[0].to_pylist() == ids[some]
    assert (table.overlay._together is None) == bool(bounds)


@pytest.mark.long
@pytest.mark.parametrize("form", ["text", "direct"])
def test_writers_may_be_killed_at_any_operation_and_beside_each_other(
    request: pytest.FixtureRequest, form: str
) -> None:
    """At some of 400 here, by the seed; ``make kills`` is for all of them."""
    tests, seed = Path(__file__).parent.parent, request.config.option.hypothesis_seed
    first = random.Random(f"{seed} {form}").randrange(90)
    options = f"--form {form} --every 90 --first {first} --batches 3".split()
    found = subprocess.run(
        [sys.executable, tests / "kill_checks.py", *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    operations, killed = map(int, found.stdout.split())
    assert operations > 300
    assert killed
