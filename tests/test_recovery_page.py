"""The page on failures: what it names is tested, and it has every warning of the engine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.schedule import FAULTS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/how-to/recovery.md").read_text("utf-8")
TESTED, _, WARNINGS = PAGE.partition("## Warnings in the log")


def holders() -> list[str]:
    """The tests and faults that the last columns of the tables name."""
    rows = re.findall(r"^\|.*\| (`.+`) \|$", TESTED, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def calls(package: str, *names: str) -> Iterator[ast.expr]:
    """What methods of these names are called with first, in the sources of a package."""
    for path in sorted((ROOT / package).rglob("*.py")):
        text = path.read_text("utf-8")
        if not any(f".{one}(" in text for one in names):
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in names
                and node.args
            ):
                yield node.args[0]


def warnings() -> Iterator[str]:
    """The text of every warning in the log of the engine, as its source has it."""
    for text in calls("bsjoin", "warning"):
        if isinstance(text, ast.Constant):
            yield str(text.value)


def placement_warnings() -> Iterator[str]:
    """What ``scheduling`` warns of once, with its values left out."""
    for text in calls("scheduling", "warn", "warning"):
        parts = text.values if isinstance(text, ast.JoinedStr) else [text]
        shown = [str(one.value) if isinstance(one, ast.Constant) else "%s" for one in parts]
        if shown != ["%s"]:
            yield "".join(shown)


def test_every_statement_names_a_test_or_a_fault_that_exists() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    defined = set(re.findall(r"def (\w+)\(", code))
    named = holders()
    assert len(named) > 40
    assert [name for name in named if name not in defined and name not in FAULTS] == []


def test_every_fault_of_the_chaos_run_is_on_the_page() -> None:
    # A killed process and a slow or broken network are what a look-up sees of several faults.
    elsewhere = {"worker process killed", "executor killed", "refresh", "vacuum"}
    elsewhere |= {"another application", "database slow", "network delays", "network loses"}
    assert set(FAULTS) - elsewhere <= set(holders())


def test_every_warning_is_on_the_page() -> None:
    for text in (*warnings(), *placement_warnings()):
        # How the message begins, and what a short one has behind its first value.
        parts = [part.strip(" ;:(),") for part in re.split(r"%\w|;", text)]
        told = [part for part in parts if len(part) > 6][: 2 if len(text) < 90 else 1]
        pattern = ".*".join(re.escape(" ".join(part.split()[:4])) for part in told)
        if text.removeprefix("bsjoin: ") == "%s":  # the message is that of the error
            pattern = "did not answer"
        assert re.search(pattern, WARNINGS), text


def test_every_warning_of_the_jar_is_on_the_page() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "bsjoin").rglob("*.java"))
    begun = re.findall(r'\.warn\(\s*"(bsjoin: [^",]{7,})', code)
    assert len(begun) > 2
    assert [text for text in begun if text not in WARNINGS] == []
