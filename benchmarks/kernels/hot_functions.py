"""The kernels as one benchmark: pytest-benchmark in a process of its own, read back as ratios.

Nanoseconds differ from machine to machine. So each kernel is compared with a plain way to do the
same, in the same run: ``np.searchsorted``, a dict, cachetools' ``LRUCache``, a sorted list.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Context, Figure, Outcome, Table

_OPTIONS = (
    "--benchmark-only -q -p no:cacheprovider --benchmark-disable-gc --benchmark-warmup=on "
    "--benchmark-warmup-iterations=2"
)
_QUICK = "--quick --benchmark-max-time=0.15 --benchmark-min-rounds=7"
_FULL = "--benchmark-max-time=1.5 --benchmark-min-rounds=15"
_TIMEOUT_S = 1_800


def run(context: Context) -> Outcome:
    """Run all kernels.

    Raises:
        RuntimeError: a kernel failed, or gave a wrong answer: nothing of it is shown.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.json"
        command = [sys.executable, "-m", "pytest", str(Path(__file__).parent)]
        command += f"{_OPTIONS} {context.pick(_QUICK, _FULL)} --benchmark-json={file}".split()
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-4_000:]}")
        measured = json.loads(file.read_text())["benchmarks"]
    return outcome(measured)


def outcome(measured: Sequence[dict[str, Any]]) -> Outcome:
    """From the ``benchmarks`` of pytest-benchmark's JSON to a table and ratios.

    Returns:
        A table of nanoseconds; and for each kernel with a reference its time over that of the
        reference, both for a key or row: less is better. It is the ratio of the shortest rounds,
        since everything else on a machine only makes rounds longer. The two are not measured
        alternately, so a busy machine may slow down one alone: the spread is from the least of one
        over the upper quartile of the other to the reverse.
    """
    kernels = {(one["group"], one["name"]): one for one in measured}
    figures, rows = [], []
    for (group, name), one in sorted(kernels.items()):
        extra = one["extra_info"]
        reference = kernels.get((group, extra["reference"]))
        row = {"group": group, "kernel": _named(name), "for a": extra["unit"]}
        for head, measure in (
            ("least", "min"),
            ("lower quartile", "q1"),
            ("median", "median"),
            ("upper quartile", "q3"),
        ):
            row[head] = round(_each(one, measure), 1)
        row |= {"rounds": one["stats"]["rounds"], "over": None, "ratio of the least": None}
        if reference is not None:
            figures.append(_ratio(group, name, one, reference))
            row |= {"over": _named(extra["reference"])}
            row |= {"ratio of the least": round(figures[-1].value, 4)}
        rows.append(row)
    note = (
        "On one core, in whole batches; the plain ways with one key at a time (dict, LRUCache, "
        "sorted list, loop) in one process, not shared with others."
    )
    raw = [
        {"group": one["group"], "name": one["name"], **one["extra_info"]}
        | {key: one["stats"][key] for key in ("min", "q1", "median", "q3", "max", "rounds")}
        for one in measured
    ]
    return Outcome(figures, [Table.of("Kernels, nanoseconds for one", rows, note)], measured=raw)


def _ratio(group: str, name: str, one: dict[str, Any], reference: dict[str, Any]) -> Figure:
    least = _each(one, "min") / _each(reference, "q3")
    most = _each(one, "q3") / _each(reference, "min")
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
