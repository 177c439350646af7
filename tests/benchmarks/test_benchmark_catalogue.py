"""The catalogue: every entry can be run, its file is found by its name, and imports are acyclic."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from benchmarks.__main__ import CATALOGUE
from benchmarks.harness.outcome import Benchmark
from benchmarks.jobs.jobs import PLANS

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 20
SOURCES = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): ast.parse(path.read_text())
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
}


def test_names_are_unique_and_no_groups() -> None:
    names = [one.name for one in CATALOGUE]
    assert len(set(names)) == len(names)
    assert not set(names) & {one.group for one in CATALOGUE}


def test_all_quick_ones_take_less_than_twenty_minutes() -> None:
    assert sum(one.quick_s for one in CATALOGUE) < MINUTES * 60


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.name)
def test_an_entry_has_a_description_and_a_function_named_after_it(one: Benchmark) -> None:
    module, function = one.run.split(":")
    functions = {node.name for node in SOURCES[module].body if isinstance(node, ast.FunctionDef)}
    assert function in functions
    assert len(one.about) > 80
    assert one.title[0].isupper()
    if module.startswith("benchmarks.jobs."):
        assert module.endswith("workers") == one.name.endswith("-workers")
        assert one.name in PLANS
    else:
        words = one.name.replace("-", "_")
        assert words in one.run or words.endswith(function)


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {}
    for name, tree in SOURCES.items():
        imported = {
            f"{node.module}.{alias.name}"
            if f"{node.module}.{alias.name}" in SOURCES
            else node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        graph[name] = {module for module in imported if module in SOURCES}
    assert sum(map(len, graph.values())) > 100
    TopologicalSorter(graph).prepare()  # raises CycleError
