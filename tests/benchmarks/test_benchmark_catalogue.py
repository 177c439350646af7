"""The catalogue: every entry can be run and says what it is."""

from __future__ import annotations

import ast
from importlib.util import find_spec

import pytest

from benchmarks.catalogue import CATALOGUE
from benchmarks.harness.outcome import Benchmark

MINUTES = 10


def test_names_are_unique_and_no_groups() -> None:
    names = [one.name for one in CATALOGUE]
    assert len(set(names)) == len(names)
    assert not set(names) & {one.group for one in CATALOGUE}


def test_all_quick_ones_take_less_than_ten_minutes() -> None:
    assert sum(one.quick_s for one in CATALOGUE) < MINUTES * 60


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.name)
def test_its_module_has_a_function_run_and_the_entry_a_description(one: Benchmark) -> None:
    spec = find_spec(one.module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "run" in functions
    assert len(one.about) > 80
    assert one.title[0].isupper()
