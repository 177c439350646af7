"""Run random SQL around stored tables: ``python -m tests.fuzz.plans --plans 500 --seed 1``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests import sessions
from tests.fuzz.plans.run import draw_plan, running

_ROOT = Path(__file__).parents[3]
_LONG = 300
"""So many plans gain by code that the JVM compiles well."""


def main() -> int:
    """Run plans; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.plans", description=__doc__)
    parser.add_argument("--plans", type=int, default=100, help="how many; default 100")
    parser.add_argument("--seed", type=int, default=0, help="of the first; default 0")
    parser.add_argument("--show", action="store_true", help="print every query")
    arguments = parser.parse_args()

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(_ROOT)  # what the workers import
    long = arguments.plans >= _LONG
    spark = sessions.session("local[2]", sessions.LONG if long else sessions.SETTINGS)
    begun, counts = time.monotonic(), Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="bsjoin-plans-") as folder,
        running(spark, Path(folder)) as runner,
    ):
        for seed in range(arguments.seed, arguments.seed + arguments.plans):
            plan = draw_plan(seed)
            outcome = runner.outcome(plan)
            counts["answered by the index"] += outcome.lookups > 0
            counts["with no row"] += not outcome.rows
            counts["refused by Spark"] += outcome.refused is not None
            counts["failed"] += outcome.wrong is not None
            if arguments.show or outcome.wrong:
                query = runner.sql(plan, plan.naming)
                print(f"\nseed {seed}, {dict(plan.settings)}:\n{query}\n{outcome}", flush=True)
                print(outcome.wrong or "", flush=True)
    spark.stop()
    print(f"{arguments.plans} plans in {time.monotonic() - begun:.0f} s: {dict(counts)}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
