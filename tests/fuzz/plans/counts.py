"""What was run: how many plans, by what they have, and how many of them the index answered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark

from tests.fuzz.plans.run import Outcome, Plan

__all__ = ["Counts"]


class Counts:
    """Counts of plans."""

    def __init__(self) -> None:
        self.plans = self.by_index = self.lookups = self.empty = 0
        self.failed: list[int] = []
        self.refused: Counter[str] = Counter()
        self.features: dict[str, list[int]] = {}

    def add(self, plan: Plan, outcome: Outcome) -> None:
        """Count a plan."""
        self.plans += 1
        if outcome.wrong is not None:
            self.failed.append(plan.seed)
        elif outcome.refused is not None:
            self.refused[outcome.refused] += 1
        self.empty += not outcome.rows
        self.by_index += outcome.lookups > 0
        self.lookups += outcome.lookups
        for feature in plan.features:
            count = self.features.setdefault(feature, [0, 0])
            count[0] += 1
            count[1] += outcome.lookups > 0

    def shown(self) -> dict[str, Any]:
        """The counts by name; of each feature the plans, and those that the index answered."""
        return {
            "spark": pyspark.__version__,
            "plans": self.plans,
            "answered by the index": self.by_index,
            "joins answered by the index": self.lookups,
            "with no row": self.empty,
            "refused by Spark": dict(sorted(self.refused.items())),
            "failed": self.failed,
            "features": {name: self.features[name] for name in sorted(self.features)},
        }

    def write(self, path: Path, **more: Any) -> None:
        """Write the counts to a file."""
        path.write_text(json.dumps(self.shown() | more, indent=1) + "\n")
