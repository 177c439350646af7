"""Docstrings of the public names, and of the internal contracts, state what a caller must know.

The rules: a summary; an entry in ``Args:`` for each parameter, which says what a default of None
means (the reference shows all other defaults); what comes back; the errors that are raised; and an
example for the names with which users begin.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import bsjoin
import bsjoin.errors
import bsjoin.index
import bsjoin.sources
import scheduling
import scheduling.errors
import scheduling.policies
import scheduling.simulate
import scheduling.spark
from bsjoin import cache, partitioning, storage
from bsjoin.storage.range_index import RangeIndex

PUBLIC = (bsjoin, bsjoin.sources, partitioning, bsjoin.index, scheduling, scheduling.spark)
CONTRACTS = (
    cache.HostCache,
    cache.CacheLimits,
    cache.Found,
    storage.Manifest,
    storage.Segment,
    storage.StorageLocation,
    RangeIndex,
    partitioning.Controller,
)
# Entry points: a user begins with these.
WITH_EXAMPLE = {
    "bsjoin.AsOf",
    "bsjoin.Band",
    "bsjoin.Full",
    "bsjoin.Hash",
    "bsjoin.HotSpot",
    "bsjoin.Incremental",
    "bsjoin.BatchTable",
    "bsjoin.BatchTable.build",
    "bsjoin.BatchTable.join",
    "bsjoin.BatchTable.open",
    "bsjoin.Overlaps",
    "bsjoin.cycles",
    "bsjoin.explain",
    "bsjoin.join",
    "bsjoin.Within",
    "bsjoin.progress",
    "bsjoin.sources.Source",
    "bsjoin.sources.Source.scan",
    "bsjoin.sources.function",
    "bsjoin.sources.parquet",
    "bsjoin.sources.redis",
    "bsjoin.sources.sql",
    "scheduling.CETSA",
    "scheduling.Controller",
    "scheduling.CostModel",
    "scheduling.DS2",
    "scheduling.LBACE",
    "scheduling.OERA",
    "scheduling.Snapshot",
    "scheduling.StStream",
    "scheduling.policy",
    "scheduling.priced",
    "scheduling.spark.Placement",
    "scheduling.spark.Tier",
    "cache.HostCache",
    "storage.RangeIndex",
    "storage.StorageLocation",
}
# A method that is documented by reference: to its protocol, or to a method with the same arguments.
BY_REFERENCE = re.compile(r"(?:see|as|as in) :(?:class|meth):`", re.IGNORECASE)
NONE_IS_EXPLAINED = re.compile(rf"None|default|{BY_REFERENCE.pattern}", re.IGNORECASE)
SECTION = re.compile(r"(?m)^(\w+):\n((?:    .*\n?|\n)+)")


def members(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """A name, and the public methods that its class itself defines."""
    yield name, thing
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if isinstance(value, classmethod | staticmethod):
                value = value.__func__
            if inspect.isfunction(value) and not member.startswith("_"):
                yield f"{name}.{member}", value


def documented() -> Iterator[tuple[str, Any]]:
    for package in PUBLIC:
        for name in package.__all__:
            path = f"{package.__name__}.{name}"
            thing = getattr(package, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield from members(path, thing)
    for thing in CONTRACTS:
        yield from members(f"{thing.__module__.split('.')[1]}.{thing.__name__}", thing)


NAMES = dict(documented())


def parameters(thing: Any) -> list[inspect.Parameter]:
    """What a caller passes; none for errors, protocols, tuples with names, and private classes."""
    if inspect.isclass(thing) and (
        "Not to be constructed" in (thing.__doc__ or "")
        or issubclass(thing, BaseException | tuple)
        or getattr(thing, "_is_protocol", False)
        or (not dataclasses.is_dataclass(thing) and "__init__" not in vars(thing))
    ):
        return []
    found = inspect.signature(thing).parameters.values()
    return [one for one in found if one.name not in ("self", "cls") and one.name[0] != "_"]


def sections(documentation: str) -> dict[str, str]:
    return {title: textwrap.dedent(body) for title, body in SECTION.findall(documentation + "\n")}


def entries(section: str) -> dict[str, str]:
    """The parameters of ``Args:`` with their text."""
    parts = re.split(r"(?m)^(\*{0,2}\w+):", section)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def body(function: Any) -> list[ast.AST]:
    """The nodes of a function, those of functions inside it left out."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    found: list[ast.AST] = []
    rest: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while rest:
        node = rest.pop()
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            found.append(node)
            rest += ast.iter_child_nodes(node)
    return found


def raised(thing: Any) -> set[str]:
    """The errors of the packages that a function, or the making of an object, raises itself."""
    functions = [thing]
    if inspect.isclass(thing):
        made = ("__init__", "__post_init__")
        functions = [
            vars(thing)[name] for name in made if inspect.isfunction(vars(thing).get(name))
        ]
        functions = [one for one in functions if "site-packages" not in inspect.getfile(one)]
    found = set()
    for function in functions:
        if function.__code__.co_filename.startswith("<"):
            continue  # made by dataclasses
        for node in body(function):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                found.add(ast.unparse(node.exc.func).rpartition(".")[2])
    return found & {*bsjoin.errors.__all__, *scheduling.errors.__all__}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented(name: str) -> None:
    thing = NAMES[name]
    documentation = inspect.cleandoc(thing.__doc__ or "")
    assert documentation, f"{name} has no docstring"
    assert documentation.split("\n")[0].rstrip().endswith((".", ":")), f"{name}: no summary"


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_documented_and_what_none_means(name: str) -> None:
    documentation = inspect.getdoc(NAMES[name]) or ""
    if BY_REFERENCE.search(documentation):
        return
    known = entries(sections(documentation).get("Args", ""))
    needed = parameters(NAMES[name])
    if inspect.isfunction(NAMES[name]) and not known:
        # The summary of a method with few parameters may name them.
        needed = [one for one in needed if f"``{one.name}``" not in documentation]
        assert len(needed) <= 1, f"{name} does not describe {', '.join(map(str, needed))}"
        return
    for one in needed:
        assert one.name in known, f"{name} lacks {one.name} in Args"
        if one.default is None:
            assert NONE_IS_EXPLAINED.search(known[one.name]), f"{name}: what is {one.name}=None?"


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(NAMES[name])])
def test_what_comes_back_is_documented(name: str) -> None:
    function = NAMES[name]
    documentation = inspect.getdoc(function) or ""
    found = function.__annotations__.get("return", "None")
    if found == "None" or BY_REFERENCE.search(documentation):
        return
    # A summary in the form of a noun says it; one that begins with a verb does not.
    stated = not re.match(
        r"(?:Give|Find|Look up|Return|Read|Write|Claim|Store|Apply)\b", documentation
    )
    assert stated or {"Returns", "Yields"} & sections(documentation).keys(), (
        f"{name} does not say what comes back"
    )


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_documented(name: str) -> None:
    documentation = inspect.getdoc(NAMES[name]) or ""
    known = sections(documentation).get("Raises", "")
    for error in raised(NAMES[name]):
        assert error in known or error in documentation, f"{name} raises {error}"


@pytest.mark.parametrize("name", sorted(WITH_EXAMPLE))
def test_an_entry_point_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(NAMES[name]) or ""), f"{name} has no example"


def test_the_errors_are_documented() -> None:
    for module in (bsjoin.errors, scheduling.errors):
        for name in module.__all__:
            thing = getattr(module, name)
            assert inspect.getdoc(thing)
            assert not inspect.isclass(thing) or vars(thing).get("__doc__"), name
