"""What the scheduling papers say of what is measured on a live Spark: see ``live_claims.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CLAIMS", "SCALERS", "Claim"]

_READ = tomllib.loads(Path(__file__).with_name("live_claims.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Claim:
    """What a paper says of a system on a job, against another.

    Args:
        way: the system.
        job: its name.
        measure: of ``benchmarks.papers.scheduling.placement_live_figures.MEASURES``.
        against: the other system.
        change: by how much it is less (below 0) or more, as a share.
        where: the place in the paper.
    """

    way: str
    job: str
    measure: str
    against: str
    change: float
    where: str


CLAIMS = tuple(Claim(**one) for one in _READ["claims"])
"""Of policies and of St-Stream."""

SCALERS: list[dict[str, Any]] = _READ["scalers"]
"""Of OERA's scaler: measure, against, change, what."""
