"""The kernels as one benchmark: pytest-benchmark in a process of its own, read back as ratios.

Nanoseconds differ from machine to machine. So each kernel is compared with ``np.searchsorted``, a
dict, cachetools' ``LRUCache`` or a sorted list in the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Context, Figure, Outcome, Table

QUICK = ("--rows=100000", "--benchmark-max-time=0.15", "--benchmark-min-rounds=7")
_HEADS = {"least": "min", "lower quartile": "q1", "median": "median", "upper quartile": "q3"}


def run(context: Context) -> Outcome:
    """Check and time all kernels; a wrong answer fails the benchmark."""
    return outcome(measured(context.pick(QUICK, ())))


def measured(options: Sequence[str]) -> list[dict[str, Any]]:
    """Nanoseconds for one key or row, of all kernels.

    Raises:
        RuntimeError: a kernel failed, or gave a wrong answer.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.json"
        command = [sys.executable, "-m", "pytest", Path(__file__).parent, *options]
        # Variables of a pytest that runs this one would disable the timing.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        done = subprocess.run(
            [*command, f"--benchmark-json={file}"], cwd=ROOT, env=environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-4_000:]}")
        found = json.loads(file.read_text("utf-8"))["benchmarks"]
    measures = [*_HEADS.values(), "max"]
    return [
        {"group": one["group"], "name": one["name"], "rounds": one["stats"]["rounds"]}
        | {key: one["stats"][key] / one["extra_info"]["many"] * 1e9 for key in measures}
        | one["extra_info"]
        for one in found
    ]


def outcome(measured: Sequence[dict[str, Any]]) -> Outcome:
    """A table of nanoseconds and, for each kernel with a reference, the ratio of the two.

    It is the ratio of the shortest rounds, since everything else on a machine only makes rounds
    longer. The two are not measured alternately, so a busy machine may slow down one alone: the
    spread is from the least of one over the upper quartile of the other to the reverse.
    """
    kernels = {(one["group"], one["name"]): one for one in measured}
    figures, rows = [], []
    for (group, name), one in sorted(kernels.items()):
        reference = kernels.get((group, one["reference"]))
        row = {"group": group, "kernel": name, "for a": one["unit"]}
        row |= {head: round(one[what], 1) for head, what in _HEADS.items()}
        row |= {"rounds": one["rounds"], "over": None, "ratio of the least": None}
        if reference is not None:
            value = one["min"] / reference["min"]
            spread = (one["min"] / reference["q3"], one["q3"] / reference["min"])
            what = f"{group}: {name} / {one['reference']}"
            figures.append(Figure(what, value, at_most=True, spread=spread))
            row |= {"over": one["reference"], "ratio of the least": round(value, 4)}
        rows.append(row)
    note = (
        "On one core, in whole batches; the plain ways with one key at a time (dict, LRUCache, "
        "sorted list, loop) in one process, not shared with others."
    )
    table = Table.of("Kernels, nanoseconds for one", rows, note)
    return Outcome(figures, [table], measured=list(measured))
