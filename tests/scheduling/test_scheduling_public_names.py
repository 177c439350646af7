"""The public names of scheduling: pinned, documented, pure."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import scheduling
import scheduling.errors

PUBLIC = [
    "CETSA",
    "DS2",
    "GSBFD",
    "LBACE",
    "OERA",
    "POLICIES",
    "Actuator",
    "Assignment",
    "Bounds",
    "Clock",
    "Controller",
    "CostModel",
    "Costs",
    "DataLocality",
    "DataNode",
    "Decision",
    "Edge",
    "Elastic",
    "Exact",
    "FirstFit",
    "JobGraph",
    "Load",
    "LocalSearch",
    "Monitor",
    "Move",
    "Objective",
    "PlacementCost",
    "Plan",
    "Policy",
    "Price",
    "Probe",
    "Random",
    "Rebalancer",
    "Receipt",
    "Reserved",
    "ResourceAware",
    "Resources",
    "RoundRobin",
    "Scaler",
    "SchedulingError",
    "Snapshot",
    "Spread",
    "StStream",
    "Static",
    "Task",
    "Unplaced",
    "Utilisation",
    "Worker",
    "busyness",
    "errors",
    "policy",
    "priced",
]
ERRORS = [
    "ActuatorError",
    "ArgumentError",
    "ClusterFileError",
    "InfeasibleError",
    "SchedulingError",
    "TooLargeError",
]
PURE = [
    module.name
    for module in pkgutil.walk_packages(scheduling.__path__, "scheduling.")
    if not module.name.startswith(("scheduling.simulate", "scheduling.spark"))
    and module.name != "scheduling.__main__"
]


def test_the_public_names_are_these() -> None:
    assert sorted(scheduling.__all__) == sorted(PUBLIC)
    assert scheduling.errors.__all__ == ERRORS == sorted(ERRORS)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    thing = getattr(scheduling, name)
    if name in ("POLICIES", "Clock"):
        return
    documentation = inspect.getdoc(thing)
    assert documentation
    assert not documentation.startswith(f"{name}(")


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_documented_and_in_the_tree(name: str) -> None:
    error = getattr(scheduling.errors, name)
    assert issubclass(error, scheduling.SchedulingError)
    assert error.__doc__
    assert name in (scheduling.errors.__doc__ or "")


@pytest.mark.parametrize("name", ["scheduling", *PURE])
def test_the_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_core_needs_neither_spark_nor_yaml() -> None:
    code = (
        "import sys, scheduling\n"
        "found = {name.split('.')[0] for name in sys.modules}\n"
        "assert not found & {'pyspark', 'py4j', 'pandas', 'yaml', 'bsjoin'}, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
