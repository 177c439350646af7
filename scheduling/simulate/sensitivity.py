"""How the comparison of LBA-CE and Default depends on constants that the paper does not give.

The least busyness (epsilon) and the CPU cost of a record from another host are halved and doubled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduling.load import EPSILON
from scheduling.policies import policy
from scheduling.protocols import Policy
from scheduling.simulate import flink
from scheduling.simulate.flink_claims import change
from scheduling.simulate.jobs import Job
from scheduling.simulate.published import DEFAULT, LBA_CE
from scheduling.simulate.workloads import wordcount

__all__ = ["rows"]

_FACTORS = (0.5, 1.0, 2.0)


def rows(*, seeds: int = 3, records: float = 5e6) -> list[tuple[str, ...]]:
    """The table: a row per combination of epsilon and remote cost, the first its head.

    Args:
        seeds: the draws of Default.
        records: how many are processed.
    """
    found: list[tuple[str, ...]] = [
        ("epsilon", "remote cost", "cost against Default, %", "S against Default, %")
    ]
    for epsilon in _FACTORS:
        for remote in _FACTORS:
            if epsilon != 1 and remote != 1:
                continue
            outcomes = flink.compare(
                _job(remote), 60_000.0, _maker(epsilon), seeds=seeds, hashes=1, records=records
            )
            differences = (change(outcomes, what, LBA_CE, DEFAULT) for what in ("cost", "S"))
            shown = [f"{difference:.1f}" for difference in differences]
            found.append((f"x {epsilon:g}", f"x {remote:g}", *shown))
    return found


def _job(remote: float) -> Job:
    job = wordcount()
    operators = tuple(replace(one, remote_cpu_s=remote * one.remote_cpu_s) for one in job.operators)
    return replace(job, operators=operators)


def _maker(epsilon: float) -> Any:
    def make(name: str, **options: Any) -> Policy:
        if name == "lba-ce":
            options["epsilon"] = epsilon * EPSILON
        return policy(name, **options)

    return make
