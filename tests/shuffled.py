"""Which tests run, and in which order: fixtures take turns, files come at random, by a seed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
# Files of these folders run in one process, which starts the servers that they share.
TOGETHER = ("sources",)


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Order the files at random; the tests of a file, and the files of a folder, stay together."""

    def drawn(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    def file_of(item: pytest.Item) -> tuple[bytes, bytes]:
        folder = item.path.parent
        group = folder if folder.name in TOGETHER else item.path
        return drawn(os.path.relpath(group, TESTS)), drawn(item.path.name)

    items.sort(key=file_of)


def at_its_turn(item: pytest.Item) -> bool:
    """Whether a test runs with the value that a fixture has in it.

    Where a module or a test is marked ``in_turns("runtime")``, each case runs with one of the
    fixture's two or more values instead of all of them: neighbours in the file have other ones,
    and so all values meet the module. The values are texts. Which one it is depends on the case
    alone, not on what else has been collected, so that a test that failed can be run again.

    With ``others="long"`` the cases with other values are long ones, and are not left out.
    """
    call, mark = getattr(item, "callspec", None), item.get_closest_marker("in_turns")
    if mark is None or call is None or mark.args[0] not in call.params:
        return True
    (fixture,) = mark.args
    tests = [name for name in vars(item.module) if name.startswith("test_")]  # type: ignore[attr-defined]
    place = tests.index(item.originalname)  # type: ignore[attr-defined]
    for given in item.iter_markers("parametrize"):
        name = given.args[0].split(",")[0] if isinstance(given.args[0], str) else given.args[0][0]
        place += call.indices[name] % len(given.args[1])  # those of a fixture's next value go on
    values = item.session._fixturemanager.getfixturedefs(fixture, item)
    assert values, fixture
    has_turn = place % len(values[-1].params or ()) == call.indices[fixture]
    if not has_turn and mark.kwargs:
        item.add_marker(pytest.mark.long)
    return has_turn or bool(mark.kwargs)
