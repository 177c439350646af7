"""How old rows may be: a pure function of time, versions and marks, and repeatable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_tables import numbered, put

from bsjoin import Full
from bsjoin.errors import StaleTableError
from bsjoin.following.looks import Following
from bsjoin.storage import Manifest, SourceVersion, StorageLocation, freshness, versions
from bsjoin.storage.freshness import Mark
from bsjoin.storage.versioned_folder import active_at


def version(number: int, read: int, created: int) -> Manifest:
    """A version that activates 5 after it was published; times are in seconds."""
    made = numbered(_LOCATION, number)
    made = replace(made, build_s=float(created - read), segments=())
    return made.published_as(number, created * _S, (created + 5) * _S)


_S = 1_000_000
_LOCATION = StorageLocation.of("/tmp")


@pytest.fixture(autouse=True, scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _LOCATION
    _LOCATION = StorageLocation.of(tmp_path_factory.mktemp("table"))


def chosen(
    entries: list[Manifest], marks: list[tuple[int, int, int]], time: int, limit: int
) -> int | None:
    """The number of the version for a micro-batch; None for an error."""
    seen = [Mark(number, read * _S, noted * _S) for number, read, noted in marks]
    active = active_at(time * _S, entries) or entries[0]
    try:
        found = freshness.fresh_version(_LOCATION, active, entries, seen, time * _S, limit * _S)
    except StaleTableError:
        return None
    return found.version


def test_which_version_is_fresh_enough() -> None:
    one, two = version(1, 90, 100), version(2, 190, 200)
    assert chosen([one], [], 150, 60) == 1
    assert chosen([one], [], 151, 60) is None
    with pytest.raises(StaleTableError, match=r"1970-01-01 00:01:30 UTC, 61.0 s before .* is 60 s"):
        freshness.fresh_version(_LOCATION, one, [one], [], 151 * _S, 60 * _S)
    # Its source was read again at 120, and was the same.
    assert chosen([one], [(1, 120, 125)], 180, 60) == 1
    assert chosen([one], [(1, 120, 125)], 181, 60) is None
    # The micro-batch failed; a refresh that came later makes it run, with the same rows,
    assert chosen([one], [(1, 190, 195)], 181, 60) == 1
    # or with the next version, since it has had no rows of this one.
    assert chosen([one, two], [], 181, 60) == 2
    # One that had rows gets them again, whatever has come since.
    assert chosen([one, two], [], 150, 60) == 1
    # A mark that was made after the next version was published says nothing.
    assert chosen([one, two], [(1, 170, 201)], 181, 60) == 2
    assert chosen([one, two], [(1, 170, 199)], 181, 60) == 1
    # One that was made before it is of another that was withdrawn, and had its number.
    assert chosen([two], [(2, 195, 199)], 252, 60) is None
    assert chosen([two], [(2, 195, 200)], 252, 60) == 2
    # A build may take longer than the limit.
    slow = version(2, 110, 300)
    assert chosen([one, slow], [], 181, 60) is None
    assert chosen([one, slow, version(3, 290, 310)], [], 181, 60) == 3


@settings(max_examples=12)
@given(st.data())
def test_a_micro_batch_that_has_had_rows_gets_the_same_again(data: st.DataObject) -> None:
    """Versions and marks come one after the other; what was answered once stays."""
    limit = data.draw(st.integers(1, 40))
    entries, marks, answered, now = [version(1, 0, 1)], [], {}, 10
    for _ in range(data.draw(st.integers(1, 12))):
        now += data.draw(st.integers(1, 20))
        read = now - data.draw(st.integers(0, 15))
        if data.draw(st.booleans()):
            entries = [*entries, version(entries[-1].version + 1, read, now)]
        else:  # by a slow refresh of any version that it had found
            marks = [*marks, (data.draw(st.sampled_from(entries)).version, read, now)]
        for time in range(0, now + 1, 3):
            found = chosen(entries, marks, time, limit)
            before = answered.get(time)
            assert before is None or found == before
            # Before it begins, nobody has asked.
            if found is not None and time >= now - 20:
                answered[time] = found


@pytest.mark.parametrize("number", [1, 2])
def test_a_look_confirms_the_version_that_it_was_taken_for(
    location: StorageLocation, number: int
) -> None:
    """While it asks the source, another application takes the table over.

    The number may be the same: the version was withdrawn.
    """
    one, other = (SourceVersion(name, "1") for name in ("one", "other"))
    put(location, replace(numbered(location, 1), source=one), 1, 1)

    class Followed:
        def version(self) -> SourceVersion:
            if number == 1:
                location.remove("versions/00000001.json")
            put(location, replace(numbered(location, 2), source=other), number, 2)
            return one

        def has(self, version: SourceVersion, until: SourceVersion) -> bool:
            return version == until

    source: Any = Followed()
    options = Full(max_staleness="1 hour")
    Following(location, source, options, adds=False, tidy=lambda _: None).look()
    marks = freshness.marks_in(freshness.mark_names(location))
    assert [mark.version for mark in marks] == ([] if number == 1 else [1])


def test_marks_are_kept_small_and_go_with_their_versions(location: StorageLocation) -> None:
    first, second = put(location, numbered(location, 1), 1, 1), None
    for read in range(5):
        freshness.confirm(location, first, read)
    assert sorted(mark.read_us for mark in freshness.marks_in(freshness.mark_names(location))) == [
        3,
        4,
    ]
    second = put(location, numbered(location, 2), 2, 2)
    freshness.confirm(location, second, 9)
    versions.vacuum(location, 1 << 61, 1)
    (left,) = freshness.marks_in(freshness.mark_names(location))
    assert (left.version, left.read_us) == (2, 9)
    assert freshness.marks_in(["x", "00000001-1", "00000001-1-2", "1-2-3"]) == [Mark(1, 1, 2)]
