"""The page on the papers: it has all that they have, and what it names is there."""

from __future__ import annotations

import functools
import importlib
import re
import tomllib
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/from-the-papers.md").read_text("utf-8")
HELD = {  # by paper: its numbered equations, algorithms, tables and figures
    "CETSA and LBA-CE": {"Eq": 31, "Alg": 2, "Table": 6, "Fig": 23},
    "St-Stream": {"Eq": 13, "Alg": 2, "Table": 5, "Fig": 17},
    "OERA": {"Eq": 2, "Alg": 1, "Fig": 9},
    "Twister2": {},
    "BS-Join": {"Eq": 5, "Alg": 5, "Table": 8, "Fig": 13},
}
SHOWN = ("measured live", "simulated", "computed", "not reproduced")


def rows(paper: str) -> list[list[str]]:
    """The rows of a paper's table: item, what, how far it is shown, code, test."""
    section = PAGE.partition(f"\n## {paper}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def numbers(item: str) -> tuple[str, list[int]] | None:
    """The kind and the numbers of ``Eqs. 3 to 5``, ``Tables 1, 2`` or ``Fig. 9``; None of a text.

    >>> numbers("Eqs. 1, 3 to 5"), numbers("section 2")
    (('Eq', [1, 3, 4, 5]), None)
    """
    found = re.fullmatch(r"(Eq|Alg|Table|Fig)s?\.? ([\d, to]+)", item)
    if found is None:
        return None
    ends = [[int(end) for end in part.split(" to ")] for part in found[2].split(", ")]
    return found[1], [number for one in ends for number in range(one[0], one[-1] + 1)]


@functools.cache
def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one; a field of a class, too."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if part in getattr(found, "__dataclass_fields__", {}):
                return part == parts[-1]
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_numbered_item_of_a_paper_is_on_the_page_once() -> None:
    for paper, counts in HELD.items():
        seen: dict[str, list[int]] = {}
        for row in rows(paper):
            kind, found = numbers(row[0]) or ("", [])
            seen.setdefault(kind, []).extend(found)
        assert seen, paper
        for kind, count in counts.items():
            assert seen.pop(kind) == [*range(1, count + 1)], (paper, kind)
        assert not any(seen.values()), paper


def test_what_the_rows_name_is_there() -> None:
    benchmarks = tomllib.loads((ROOT / "benchmarks/catalogue.toml").read_text("utf-8"))
    for row in (row for paper in HELD for row in rows(paper)):
        check_row(row, benchmarks.keys())
    assert is_there("scheduling.model.Move.gain")
    assert not is_there("scheduling.load.fatness")
    assert not is_there("scheduling.nowhere.at_all")


def check_row(row: list[str], benchmarks: Collection[str]) -> None:
    _, _, shown, code, tests = row
    named = re.findall(r"`([^`]+)`", code)
    assert [name for name in named if not is_there(name)] == [], row[0]
    assert [name for name in re.findall(r"`(test_\w+)`", f"{tests} {shown}")
            if name not in defined()] == []  # fmt: skip
    words = re.findall(r"\*\*([^*]+)\*\*", shown)
    assert shown.startswith("**")
    assert words
    assert set(words) <= set(SHOWN)
    for name in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", shown):
        assert name in benchmarks, name
    # What is shown has code, and a test that holds it.
    assert (named and "`test_" in tests) or words == ["not reproduced"]


@functools.cache
def defined() -> frozenset[str]:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    return frozenset(re.findall(r"def (\w+)\(", code))
