"""The public names: pinned, documented, and there."""

from __future__ import annotations

import ast
import dataclasses
import inspect

import pytest

import bsjoin
import bsjoin.errors

PUBLIC = [
    "AsOf",
    "BSJoinError",
    "Band",
    "BatchTable",
    "CacheProgress",
    "CycleProgress",
    "Cycles",
    "Full",
    "Hash",
    "HotSpot",
    "Incremental",
    "Overlaps",
    "PartitionProgress",
    "PlacementProgress",
    "RefreshProgress",
    "Stats",
    "Version",
    "Within",
    "cycles",
    "errors",
    "explain",
    "jar",
    "join",
    "progress",
    "reporting",
    "sources",
]
ERRORS = [
    "ArgumentError",
    "BSJoinError",
    "ColumnError",
    "DamagedTableError",
    "DataError",
    "DuplicateKeyError",
    "KeyTypeError",
    "LookupFailedError",
    "NotFollowedWarning",
    "NotReportedWarning",
    "SourceError",
    "StaleTableError",
    "StoreAccessError",
    "StoreError",
    "StoreFullError",
    "TableMismatchError",
    "TableNotFoundError",
    "VersionNotFoundError",
    "WorkerEnvironmentError",
]


def test_the_public_names_are_these() -> None:
    assert bsjoin.__all__ == PUBLIC == sorted(PUBLIC)
    assert bsjoin.errors.__all__ == [*ERRORS, "cause_of"]
    assert [*ERRORS] == sorted(ERRORS)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    thing = getattr(bsjoin, name)
    assert name in dir(bsjoin)
    documentation = inspect.getdoc(thing)
    assert documentation
    # What the class itself says, not the signature that a dataclass would make up.
    assert not documentation.startswith(f"{name}(")


def test_a_star_import_brings_them_all() -> None:
    namespace: dict[str, object] = {}
    exec("from bsjoin import *", namespace)
    assert sorted(set(namespace) - {"__builtins__"}) == PUBLIC


def test_type_checkers_and_the_documentation_see_them_all() -> None:
    """They read the imports under ``TYPE_CHECKING``, and run nothing."""
    module = ast.parse(inspect.getsource(bsjoin))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted({*PUBLIC} - imported) == []


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="jion"):
        bsjoin.jion  # noqa: B018


@pytest.mark.parametrize("thing", [bsjoin.BatchTable], ids=lambda thing: thing.__name__)
def test_public_methods_are_documented(thing: type) -> None:
    methods = [name for name in vars(thing) if not name.startswith("_")]
    assert {"build", "open", "join", "refresh", "versions", "verify", "stats", "vacuum"} <= {
        *methods
    }
    assert [name for name in methods if not inspect.getdoc(getattr(thing, name))] == []


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_documented_and_in_the_tree(name: str) -> None:
    error = getattr(bsjoin.errors, name)
    assert issubclass(error, bsjoin.BSJoinError | Warning)
    assert error.__doc__
    assert name in (bsjoin.errors.__doc__ or "")


def test_argument_errors_are_what_python_users_expect() -> None:
    assert issubclass(bsjoin.errors.ArgumentError, ValueError)
    assert issubclass(bsjoin.errors.KeyTypeError, TypeError)


@pytest.mark.parametrize(
    "options", [bsjoin.Full, bsjoin.HotSpot, bsjoin.Incremental], ids=lambda o: o.__name__
)
def test_options_are_frozen_and_keyword_only(options: type) -> None:
    parameters = inspect.signature(options).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert all(parameter.default is not inspect.Parameter.empty for parameter in parameters)
    # A cache without a bound is refused.
    bound = {"max_rows": 5} if options is bsjoin.Incremental else {}
    made = options(**bound)
    for field in dataclasses.fields(made):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field.name, None)
    assert made == options(**bound)
    assert hash(made) == hash(options(**bound))


@pytest.mark.parametrize(
    "name",
    [
        "CacheProgress",
        "CycleProgress",
        "PartitionProgress",
        "PlacementProgress",
        "Stats",
        "Version",
    ],
)
def test_what_is_handed_out_cannot_be_changed(name: str) -> None:
    assert getattr(bsjoin, name).__dataclass_params__.frozen


def test_the_parameters_of_join_are_these() -> None:
    parameters = inspect.signature(bsjoin.join).parameters
    options = ["when", "cache", "partition", "select", "suffix"]
    assert list(parameters) == ["stream", "batch", "on", "how", *options]  # as Spark's own join
    keywords = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert keywords == options


def test_cycles_takes_what_join_takes() -> None:
    joins = list(inspect.signature(bsjoin.join).parameters)
    assert set(inspect.signature(bsjoin.cycles).parameters) == {
        *joins,
        "sink",
        "placement",
        "scaler",
    } - {"stream"}
