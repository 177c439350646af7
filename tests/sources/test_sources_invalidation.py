"""Invalidations of keys: what others put into their folder forgets too much at worst."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from bsjoin.sources import invalidation
from bsjoin.sources.invalidation import InvalidationLog, key_table
from bsjoin.storage import StorageLocation
from bsjoin.storage.versioned_folder import VersionedFolder

KEYS = pa.schema(
    [
        ("i", pa.int64()), ("s", pa.string()), ("b", pa.binary()), ("d", pa.decimal128(38, 2)),
        ("t", pa.timestamp("us", "UTC")), ("f", pa.float64()), ("o", pa.bool_()),
    ]
)  # fmt: skip
KEY = (-1, "ä", b"\x00", Decimal("1.25"), datetime(2026, 1, 1, tzinfo=UTC), 0.5, True)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InvalidationLog:
    monkeypatch.setattr(invalidation, "now_us", lambda: 10_000_000)  # the first number is 1
    return InvalidationLog(StorageLocation.of(tmp_path), KEYS)


def test_keys_come_back_as_they_were_given(log: InvalidationLog) -> None:
    given = key_table([KEY, (5, *KEY[1:])], KEYS, "keys")
    assert log.forget(given) == 1
    assert log.forget(None) == 2
    assert log.forget(key_table([], KEYS, "keys")) == 3
    assert log.since(0) == [(1, given), (2, None), (3, given.slice(0, 0))]
    assert log.since(2) == [(3, given.slice(0, 0))]
    # In the same folder, of a join by other keys.
    assert not InvalidationLog(log.location, pa.schema([("s", pa.string())])).since(0)


def test_a_listing_that_overlaps_two_publications_loses_none(
    log: InvalidationLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is created during a listing may be in it or not."""
    for _ in range(3):
        log.forget(None)
    complete = log._folder.numbers()
    for first, seen in (([2], [1, 2]), ([3], [1, 2, 3]), ([], []), ([1], [1])):
        listings = [first, complete]
        with monkeypatch.context() as patched:
            patched.setattr(VersionedFolder, "numbers", lambda _, left=listings: left.pop(0))
            assert [number for number, _ in log.since(0)] == seen


def broken_text() -> bytes:
    """A key whose text lies outside of the file's data."""
    key = key_table([(KEY[0], "x" * 77_777, *KEY[2:])], KEYS, "keys")
    content = key.to_batches()[0].serialize().to_pybytes()
    end = content.rindex((77_777).to_bytes(4, "little"))
    return content[:end] + b"\xff\xff\xff\x7f" + content[end + 4 :]


class Hostile(pa.ExtensionType):  # type: ignore[misc]
    """A type that an application has registered, and that runs code when it is read."""

    ran = False

    def __init__(self) -> None:
        super().__init__(pa.int64(), "bsjoin.hostile")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Hostile:
        cls.ran = True
        return cls()


def extension() -> bytes:
    sink = pa.BufferOutputStream()
    storage = pa.array([1, 2], pa.int64())
    batch = pa.record_batch([pa.ExtensionArray.from_storage(Hostile(), storage)], ["i"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    "content", [b"x", b"\xff" * 100, broken_text(), extension(), b"\x00" * 8],
    ids=["letter", "bytes", "text outside", "extension", "zeros"],
)  # fmt: skip
def test_an_invalidation_that_cannot_be_read_forgets_all_keys(
    log: InvalidationLog, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    pa.register_extension_type(Hostile())
    try:
        Hostile.ran = False
        log.location.create(log._folder.name(1), content)
        assert log.since(0) == [(1, None)]
        assert not Hostile.ran
    finally:
        pa.unregister_extension_type("bsjoin.hostile")
    assert "is not a list of keys" in caplog.text


def test_an_invalidation_that_was_removed_is_one_of_all_keys(
    log: InvalidationLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who cleans the folder, whose numbers are others then; or by the log, as an old one."""
    for _ in range(3):
        log.forget(None)
    (tmp_path / log._folder.name(2)).unlink()
    assert log.since(2) == log.since(1) == [(3, None)]
    for path in tmp_path.iterdir():
        path.unlink()
    assert log.since(3) == [(0, None)]
    monkeypatch.setattr(invalidation, "now_us", lambda: 1_000_000_000)
    key = key_table([KEY], KEYS, "keys")
    assert log.forget(key) == 100
    assert log.since(3) == [(100, None)]
    assert log.since(0) == [(100, key)]
    monkeypatch.setattr(invalidation, "_KEPT", 4)
    monkeypatch.setattr(invalidation, "_AT_ONCE", 2)
    for _ in range(9):
        log.forget(key)
    assert log._folder.numbers() == list(range(105, 110))
    assert log.since(100) == log.since(105) == [(109, None)]
    assert log.since(108) == [(109, key)]


def test_the_first_ones_by_two_clocks_are_both_read(
    log: InvalidationLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found the folder empty; the greater number has been read."""
    log.location.create(log._folder.name(5), b"")
    found, last = [0], VersionedFolder.last
    monkeypatch.setattr(VersionedFolder, "last", lambda one: found.pop() if found else last(one))
    assert log.forget(None) == 6
    assert log.since(5) == [(6, None)]


def test_files_that_are_no_invalidations_are_passed_over(
    log: InvalidationLog, tmp_path: Path
) -> None:
    for number in ("²0000001", "a", "1", "9" * 50):
        (tmp_path / f"{number}{log._folder.ending}").write_bytes(b"x")
    for name in ("00000001.txt", "00000001.forget"):
        (tmp_path / name).write_bytes(b"x")
    assert log.last() == 0
    assert log.since(0) == []
