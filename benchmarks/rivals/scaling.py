"""More workers: what was measured on few of them, and a model of the rest.

The model has two laws. Where nothing is shared but the driver, a micro-batch takes
``fixed + work / N`` on N workers (Amdahl); both numbers come from one and two workers. Where every
record asks a database, N workers are N times as fast until the database's cores are busy
(P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", 1978: the
bounds of a closed network with one bottleneck): ``X(N) = min(N X(1), cores / demand)`` and
``R(N) = max(R(1), N demand / cores)``, with the demand of one record that was measured at the
server's processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Context
from benchmarks.harness.session import ROOT

__all__ = ["DATABASE_CORES", "WORKERS", "Database", "Fixed", "in_a_session", "speed_up"]

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
"""The paper's numbers of TaskManagers, each with one core."""

DATABASE_CORES = 16
"""Of the modelled database: a host of the paper's cluster has two processors of eight cores."""

_TIMEOUT_S = 3_600


@dataclass(frozen=True)
class Fixed:
    """A micro-batch that takes ``fixed_s + work_s / N`` on N workers.

    Args:
        fixed_s: the part that more workers do not shorten.
        work_s: the part that they share.

    Example:
        >>> model = Fixed.of(one_s=1.0, two_s=0.6)
        >>> round(model.seconds(1), 9), round(model.seconds(2), 9), round(model.seconds(4), 9)
        (1.0, 0.6, 0.4)
    """

    fixed_s: float
    work_s: float

    @classmethod
    def of(cls, one_s: float, two_s: float) -> Fixed:
        """From the seconds on one worker and on two.

        Two that are slower than one share nothing; two that are more than twice as fast have
        nothing fixed.
        """
        if not (one_s > 0 and two_s > 0):
            raise ValueError(f"one_s={one_s!r}, two_s={two_s!r}: both must be above 0")
        fixed = min(max(2 * two_s - one_s, 0.0), one_s)
        return cls(fixed, one_s - fixed)

    def seconds(self, workers: int) -> float:
        """What a micro-batch takes."""
        return self.fixed_s + self.work_s / workers


@dataclass(frozen=True)
class Database:
    """Records that each ask a shared database.

    Args:
        record_s: what a record takes where one worker asks alone.
        demand_s: the processor time of the database for it.
        cores: of the database.

    Example:
        >>> model = Database(record_s=2e-3, demand_s=1e-3, cores=4)
        >>> [model.rate(n) for n in (1, 4, 8, 16)]
        [500.0, 2000.0, 4000.0, 4000.0]
    """

    record_s: float
    demand_s: float
    cores: int = DATABASE_CORES

    def rate(self, workers: int) -> float:
        """Records a second."""
        free = workers / self.record_s
        return min(free, self.cores / self.demand_s) if self.demand_s else free

    def latency_s(self, workers: int) -> float:
        """What one record takes."""
        return max(self.record_s, workers * self.demand_s / self.cores)


def speed_up(rates: Mapping[int, float]) -> dict[int, float]:
    """The paper's Formula 5: the throughput of N workers over that of one.

    Raises:
        ValueError: there is no throughput of one worker.
    """
    if 1 not in rates:
        raise ValueError(f"rates has {sorted(rates)}: the throughput of 1 worker is needed")
    return {workers: rate / rates[1] for workers, rate in rates.items()}


def in_a_session(context: Context, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Measure in a process and Spark session of its own.

    Args:
        context: of the benchmark; its session is not used.
        spec: for :mod:`benchmarks.rivals.one_session`.

    Raises:
        RuntimeError: the process failed, with the end of what it printed, or took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.json", Path(folder) / "answered.json"
        asked.write_text(json.dumps(dict(spec)), "utf-8")
        command = [sys.executable, "-m", "benchmarks.rivals.one_session", asked, answered]
        paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])
        try:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{spec['master']}: not done after {_TIMEOUT_S} s") from error
        if done.returncode or not answered.exists():
            said = (done.stdout + done.stderr)[-1500:]
            raise RuntimeError(
                f"{spec['master']}: the process ended with {done.returncode}: {said}"
            )
        found: dict[str, Any] = json.loads(answered.read_text("utf-8"))
    for line in found.pop("said"):
        context.say(line)
    return found
