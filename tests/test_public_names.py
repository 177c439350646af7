"""The public names are pinned, and say what a caller must know; so do the internal contracts.

A docstring has a summary; an entry in ``Args:`` for each parameter, which says what a default of
None means (the reference shows all other defaults); what comes back; the errors that are raised;
and an example for the names with which users begin.
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
import bsjoin.functions
import bsjoin.index
import bsjoin.kafka
import bsjoin.monitoring
import bsjoin.sources
import scheduling
import scheduling.errors
import scheduling.spark
from bsjoin import cache, partitioning, storage
from bsjoin.storage.range_index import RangeIndex


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


PUBLIC = words("""
AsOf BSJoinError Band BatchTable CacheProgress CycleProgress Cycles Full Hash HotSpot Incremental
Overlaps PartitionProgress PlacementProgress RefreshProgress SourceVersion Stats Version Within
cycles dashboard errors explain functions jar join kafka monitoring progress reporting sources
""")
ERRORS = words("""
ArgumentError BSJoinError ColumnError DamagedTableError DataError DuplicateKeyError KeyTypeError
LookupFailedError NotFollowedWarning NotReportedWarning SourceError StaleTableError StoreAccessError
StoreError StoreFullError TableMismatchError TableNotFoundError VersionNotFoundError
WorkerEnvironmentError
""")
PACKAGES = (
    bsjoin,
    bsjoin.functions,
    bsjoin.kafka,
    bsjoin.monitoring,
    bsjoin.sources,
    partitioning,
    bsjoin.index,
    scheduling,
    scheduling.spark,
)
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
WITH_EXAMPLE = words("""
bsjoin.AsOf bsjoin.Band bsjoin.Full bsjoin.Hash bsjoin.HotSpot bsjoin.Incremental bsjoin.BatchTable
bsjoin.BatchTable.build bsjoin.BatchTable.join bsjoin.BatchTable.open bsjoin.Overlaps bsjoin.cycles
bsjoin.dashboard
bsjoin.explain bsjoin.functions.network_end bsjoin.functions.network_start bsjoin.join
bsjoin.kafka.route bsjoin.Within
bsjoin.progress bsjoin.sources.Source bsjoin.sources.Source.scan
bsjoin.sources.delta bsjoin.sources.function bsjoin.sources.iceberg
bsjoin.sources.parquet bsjoin.sources.redis bsjoin.sources.sql scheduling.CETSA
scheduling.Controller scheduling.CostModel scheduling.DS2 scheduling.LBACE scheduling.OERA
scheduling.Snapshot scheduling.StStream scheduling.policy scheduling.priced
scheduling.spark.Placement scheduling.spark.Tier cache.HostCache storage.RangeIndex
storage.StorageLocation
""")
# A method that is documented by reference: to its protocol, or to a method with the same arguments.
BY_REFERENCE = re.compile(r"(?:see|as|as in) :(?:class|meth):`", re.IGNORECASE)
NONE_IS_EXPLAINED = re.compile(rf"None|default|{BY_REFERENCE.pattern}", re.IGNORECASE)
SECTION = re.compile(r"(?m)^(\w+):\n((?:    .*\n?|\n)+)")
BEGINS_WITH_A_VERB = re.compile(
    r"(?:Give|Find|Look up|Return|Read|Write|Claim|Store|Apply)\b"
)  # a summary in the form of a noun says what comes back


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
    for package in PACKAGES:
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield from members(f"{package.__name__}.{name}", thing)
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


def undocumented(thing: Any, documentation: str) -> Iterator[str]:
    """What is wrong with the parameters of a docstring."""
    parts = re.split(r"(?m)^(\*{0,2}\w+):", sections(documentation).get("Args", ""))[1:]
    known = dict(zip(parts[::2], parts[1::2], strict=True))
    needed = parameters(thing)
    if inspect.isfunction(thing) and not known:
        # The summary of a method with few parameters may name them.
        left = [one for one in needed if f"``{one.name}``" not in documentation]
        if len(left) > 1:
            yield f"does not describe {', '.join(map(str, left))}"
        return
    for one in needed:
        if one.name not in known:
            yield f"lacks {one.name} in Args"
        elif one.default is None and not NONE_IS_EXPLAINED.search(known[one.name]):
            yield f"what is {one.name}=None?"


def raised(thing: Any) -> set[str]:
    """The errors of the packages that a function, or the making of an object, raises itself."""
    made = [thing]
    if inspect.isclass(thing):
        made = [vars(thing).get(name) for name in ("__init__", "__post_init__")]
    found = set()
    for function in filter(inspect.isfunction, made):
        file = function.__code__.co_filename
        if file.startswith("<") or "site-packages" in file:
            continue  # made by dataclasses, or not ours
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        rest = list(ast.iter_child_nodes(tree))
        while rest:  # without functions inside it
            node = rest.pop()
            if not isinstance(node, ast.FunctionDef | ast.Lambda):
                rest += ast.iter_child_nodes(node)
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    found.add(ast.unparse(node.exc.func).rpartition(".")[2])
    return found & {*bsjoin.errors.__all__, *scheduling.errors.__all__}


def faults(name: str, thing: Any) -> Iterator[str]:
    """What a docstring does not say."""
    documentation = inspect.cleandoc(inspect.getdoc(thing) or "")
    if not documentation or not thing.__doc__:
        yield "has no docstring"
        return
    if not documentation.split("\n")[0].rstrip().endswith((".", ":")):
        yield "has no summary"
    known = sections(documentation)
    if not BY_REFERENCE.search(documentation):
        yield from undocumented(thing, documentation)
        returns = inspect.isfunction(thing) and thing.__annotations__.get("return", "None")
        untold = (
            BEGINS_WITH_A_VERB.match(documentation) and not {"Returns", "Yields"} & known.keys()
        )
        if returns and returns != "None" and untold:
            yield "does not say what comes back"
    yield from (f"raises {one}" for one in raised(thing) if one not in documentation)
    if name in WITH_EXAMPLE and ">>> " not in documentation:
        yield "has no example"


def test_public_names_and_contracts_are_documented() -> None:
    assert set(WITH_EXAMPLE) <= NAMES.keys()
    assert len(NAMES) > 150
    found = [f"{name} {told}" for name, thing in NAMES.items() for told in faults(name, thing)]
    assert found == []


def test_the_public_names_are_these_wherever_one_looks() -> None:
    assert bsjoin.__all__ == PUBLIC == sorted(PUBLIC)
    assert bsjoin.errors.__all__ == [*ERRORS, "cause_of"]
    assert set(PUBLIC) <= {*dir(bsjoin)}
    namespace: dict[str, object] = {}
    exec("from bsjoin import *", namespace)
    assert sorted(set(namespace) - {"__builtins__"}) == PUBLIC
    # Type checkers read the imports under TYPE_CHECKING, and run nothing.
    nodes = [
        n for n in ast.walk(ast.parse(inspect.getsource(bsjoin))) if isinstance(n, ast.ImportFrom)
    ]
    assert set(PUBLIC) <= {alias.asname or alias.name for node in nodes for alias in node.names}
    with pytest.raises(AttributeError, match="jion"):
        bsjoin.jion  # noqa: B018
    for name in ERRORS:
        error = getattr(bsjoin.errors, name)
        assert issubclass(error, bsjoin.BSJoinError | Warning)
        assert error.__doc__
        assert name in (bsjoin.errors.__doc__ or "")
    assert issubclass(bsjoin.errors.ArgumentError, ValueError)
    assert issubclass(bsjoin.errors.KeyTypeError, TypeError)


def test_options_and_what_is_handed_out_cannot_be_changed() -> None:
    for options in (bsjoin.Full, bsjoin.HotSpot, bsjoin.Incremental):
        parameters = inspect.signature(options).parameters.values()
        assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
        assert all(parameter.default is not inspect.Parameter.empty for parameter in parameters)
        # A cache without a bound is refused.
        bound = {"max_rows": 5} if options is bsjoin.Incremental else {}
        made = options(**bound)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, dataclasses.fields(made)[0].name, None)
        assert made == options(**bound)
        assert hash(made) == hash(options(**bound))
    for name in PUBLIC:
        if name.endswith("Progress") or name in ("Stats", "Version"):
            assert getattr(bsjoin, name).__dataclass_params__.frozen, name


def test_the_three_entry_points_take_the_same_arguments() -> None:
    """In the same order and with the same defaults; a table has no ``batch`` and ``cache``."""
    join, of_table, cycles = (
        {n: (p.kind, p.default, p.annotation) for n, p in inspect.signature(f).parameters.items()}
        for f in (bsjoin.join, bsjoin.BatchTable.join, bsjoin.cycles)
    )
    options = words("when cache partition select suffix nulls_equal where indicator")
    assert list(join) == ["stream", "batch", "on", "how", *options]  # first as Spark's own
    named = inspect.Parameter.KEYWORD_ONLY
    assert [name for name, (kind, *_) in join.items() if kind is named] == options
    shared = [name for name in join if name not in ("batch", "cache")]
    assert [name for name in of_table if name != "self"] == shared
    assert {name: of_table[name] for name in shared} == {name: join[name] for name in shared}
    assert {*cycles} == {*join, "sink", "placement", "scaler"} - {"stream"}
    for name in {*join} - {"stream", "how"}:
        assert cycles[name] == join[name], name
    assert cycles["how"][1:] == join["how"][1:]
