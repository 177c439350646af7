"""The kernels as one benchmark: pytest-benchmark in a process of its own, read back as ratios.

Nanoseconds differ from machine to machine. So each kernel is held against a plain way to do the
same, of the same run: ``np.searchsorted``, a dict, cachetools' ``LRUCache``, a sorted list.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.session import ROOT

__all__ = ["outcome", "run"]

_FOLDER = Path(__file__).resolve().parent
_QUICK = ("--quick", "--benchmark-max-time=0.15", "--benchmark-min-rounds=7")
_FULL = ("--benchmark-max-time=1.5", "--benchmark-min-rounds=15")
_TIMEOUT_S = 1_800
_MEASURES = ("min", "q1", "median", "q3")


def run(context: Context) -> Outcome:
    """Run all kernels.

    Args:
        context: what a benchmark is given.

    Raises:
        RuntimeError: a kernel failed, or answered wrongly: nothing of it is shown.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.json"
        command = [
            sys.executable, "-m", "pytest", str(_FOLDER), "--benchmark-only", "-q",
            "-p", "no:cacheprovider", "--benchmark-disable-gc", "--benchmark-warmup=on",
            "--benchmark-warmup-iterations=2", f"--benchmark-json={file}",
            *(_QUICK if context.quick else _FULL),
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-4_000:]}")
        measured = json.loads(file.read_text())["benchmarks"]
    found = outcome(measured)
    context.say(f"  {len(measured)} kernels, each checked against a plain way first")
    for figure in found.figures:
        context.say(f"  {figure.name:<72} {figure.value:8.3f}")
    return found


def outcome(measured: Sequence[dict[str, Any]]) -> Outcome:
    """From what pytest-benchmark wrote to a table and ratios.

    Args:
        measured: the ``benchmarks`` of its JSON.

    Returns:
        A table of nanoseconds; and for each kernel with a reference its time over that of the
        reference, both for a key or row: less is better. It is the ratio of the shortest rounds,
        since whatever else a machine does only makes rounds longer. The two are not measured in
        turns, so a busy machine may slow down one alone: the spread goes from the least of one
        over the upper quartile of the other to the reverse.
    """
    kernels = {(one["group"], one["name"]): one for one in measured}
    figures, rows = [], []
    for (group, name), one in sorted(kernels.items()):
        extra = one["extra_info"]
        reference = kernels.get((group, extra["reference"]))
        ratio = None
        if reference is not None:
            figures.append(_ratio(group, name, one, reference))
            ratio = round(figures[-1].value, 4)
        rows.append(
            (
                group,
                _named(name),
                extra["unit"],
                *(round(_each(one, measure), 1) for measure in _MEASURES),
                one["stats"]["rounds"],
                None if reference is None else _named(extra["reference"]),
                ratio,
            )
        )
    table = Table(
        "Kernels, nanoseconds for one",
        (
            "group", "kernel", "for a", "least", "lower quartile", "median", "upper quartile",
            "rounds", "over", "ratio of the least",
        ),
        tuple(rows),
        "On one core, in whole batches; the plain ways with one key at a time (dict, LRUCache, "
        "sorted list, loop) in one process, and they share nothing with others.",
    )  # fmt: skip
    raw = [
        {
            "group": one["group"],
            "name": one["name"],
            **one["extra_info"],
            **{key: one["stats"][key] for key in ("min", "q1", "median", "q3", "max", "rounds")},
        }
        for one in measured
    ]
    return Outcome(figures=figures, tables=[table], measured=raw)


def _ratio(group: str, name: str, one: dict[str, Any], reference: dict[str, Any]) -> Figure:
    least, most = (
        _each(one, mine) / _each(reference, other) for mine, other in (("min", "q3"), ("q3", "min"))
    )
    return Figure(
        f"{group}: {_named(name)} / {_named(reference['name'])}",
        _each(one, "min") / _each(reference, "min"),
        at_most=True,
        spread=(least, most),
    )


def _each(one: dict[str, Any], measure: str) -> float:
    """Nanoseconds for one key or row."""
    return float(one["stats"][measure] / one["extra_info"]["many"] * 1e9)


def _named(test: str) -> str:
    """A test's name in print."""
    name, _, case = test.removeprefix("test_").partition("[")
    return name.replace("_", " ") + (f", {case.rstrip(']')}" if case else "")
