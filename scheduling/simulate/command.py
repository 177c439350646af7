"""``python -m scheduling simulate``: the papers' comparisons, as text, JSON and pictures."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduling.policies import policy
from scheduling.simulate import (
    container_runs,
    disturbed_runs,
    elastic_runs,
    flink,
    flink_claims,
    published,
    sensitivity,
    skewed_runs,
)
from scheduling.simulate.report import Statement, as_json, lines, summary
from scheduling.simulate.workloads import fixwindow, wordcount
from scheduling.table import table

__all__ = ["main", "measure"]


def measure(*, quick: bool) -> tuple[list[Statement], dict[str, Any]]:
    """Run every comparison.

    Args:
        quick: fewer draws of the default, one hash of the keys, 60,000 records/s only.

    Returns:
        The statements of the papers, measured, and the outcomes that the pictures are drawn from.
    """
    jobs = (wordcount(), fixwindow())
    seeds, hashes = (6, 1) if quick else (6, 4)
    by_rate = {
        rate: {
            job.name: flink.compare(
                job,
                float(rate),
                policy,
                seeds=seeds,
                hashes=hashes if rate == 60_000 else 1,
                clock=time.perf_counter,
            )
            for job in jobs
        }
        for rate in ((60_000,) if quick else (60_000, 40_000, 20_000))
    }
    skewed = skewed_runs.compare()
    elastic = elastic_runs.compare()
    containers = container_runs.compare()
    disturbed = disturbed_runs.compare()
    statements = [
        *flink_claims.replay(policy),
        *flink_claims.statements(by_rate[60_000]),
        *(
            one
            for rate in list(by_rate)[1:]
            for one in flink_claims.statements_at(rate, by_rate[rate])
        ),
        *skewed_runs.statements(skewed),
        *elastic_runs.statements(elastic),
        *container_runs.statements(containers),
        *disturbed_runs.statements(disturbed),
    ]
    outcomes = {
        "flink": by_rate,
        "skewed": skewed,
        "elastic": elastic,
        "containers": containers,
        "disturbed": disturbed,
    }
    return statements, outcomes


def draw(outcomes: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw every picture into a folder.

    Raises:
        ImportError: matplotlib is missing.
    """
    from scheduling.simulate import pictures

    return [
        *pictures.draw_flink(outcomes["flink"], folder),
        *pictures.draw_skewed(outcomes["skewed"], folder),
        *pictures.draw_elastic(outcomes["elastic"], folder),
        *pictures.draw_containers(outcomes["containers"], folder),
        *pictures.draw_disturbed(outcomes["disturbed"], folder),
    ]


def main(args: Sequence[str] | None = None) -> int:
    """Run the comparisons, print the papers' statements with the simulated values, draw charts.

    Args:
        args: the words after ``simulate``: ``--out FOLDER`` (``out/simulated`` unless given),
            ``--quick``, ``--no-pictures``.

    Returns:
        0. Values that are not the papers' are printed as such, with the difference.
    """
    parser = argparse.ArgumentParser(
        prog="python -m scheduling simulate",
        epilog="With a cluster file first its own job is run: python -m scheduling simulate "
        "cluster.yaml --help says how.",
        description="Run the papers' comparisons in the simulator; print and draw them.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/simulated"), help="folder for JSON and pictures"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--no-pictures", action="store_true", help="text and JSON only")
    options = parser.parse_args(args)
    statements, outcomes = measure(quick=options.quick)
    for line in lines(statements):
        print(line)
    print("\nContradictions in the papers:", *published.CONTRADICTIONS, sep="\n  - ")
    if not options.quick:
        print("\nLBA-CE under other constants (Wordcount at 60,000 records/s):")
        print(table(sensitivity.rows()))
    print(f"\n{summary(statements)}")
    options.out.mkdir(parents=True, exist_ok=True)
    report = options.out / "simulated.json"
    report.write_text(json.dumps(as_json(statements), indent=1) + "\n", encoding="utf-8")
    print(f"written: {report}")
    if not options.no_pictures:
        try:
            drawn = draw(outcomes, options.out)
        except ImportError as error:
            print(f"no pictures ({error}): pip install 'bsjoin[plots]' brings matplotlib")
        else:
            print(*(f"drawn:   {path}" for path in drawn), sep="\n")
    return 0
