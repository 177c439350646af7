"""``python -m scheduling example|plan|explain|simulate``: placements of a cluster file.

``plan`` places the job and prints who goes where and why, what it costs, and what the next best
policy would cost. ``explain`` prints what each policy would do, and how the ranks come about.
``simulate`` runs the job under each policy. ``example`` prints a cluster file to begin with.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from scheduling.cluster_file import read
from scheduling.errors import ArgumentError, SchedulingError
from scheduling.example_cluster import EXAMPLE
from scheduling.policies import POLICIES, policy
from scheduling.tables import explained, planned, simulations

__all__ = ["main"]

_NAMES = ", ".join(POLICIES)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: the words after ``python -m scheduling``; those of the process unless given.

    Returns:
        0; 1 when a task has no room; 2 when the arguments or the file cannot be used.
    """
    options = _parser().parse_args(args)
    if options.command == "example":
        print(EXAMPLE, end="")
        return 0
    try:
        return _run(options)
    except (SchedulingError, ImportError) as error:
        print(f"python -m scheduling: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduling", description="Place the tasks of a job on priced workers."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("example", help="print a cluster file to begin with")
    for name, seconds, told in (
        ("plan", 3600.0, "place the job: a table, reasons, costs"),
        ("explain", 3600.0, "ranks of the workers, and every policy's cost"),
        ("simulate", 300.0, "run the job under each policy"),
    ):
        one = commands.add_parser(name, help=told)
        one.add_argument("file", help="a cluster file (YAML); see scheduling.cluster_file")
        told = f"how long the job runs; {seconds:g}"
        one.add_argument("--seconds", type=float, default=seconds, help=told)
        if name == "plan":
            one.add_argument("--policy", default="lba-ce", help=f"of {_NAMES}; lba-ce")
        if name == "simulate":
            one.add_argument("--policy", action="append", help=f"of {_NAMES}; all but exact")
            one.add_argument("--seeds", type=int, default=3, help="runs with other arrivals; 3")
    return parser


def _run(options: argparse.Namespace) -> int:
    cluster, seconds = read(options.file), options.seconds
    if options.command == "explain":
        print(explained(cluster, seconds))
        return 0
    if options.command == "simulate":
        if not seconds >= 10 or options.seeds < 1:
            raise ArgumentError(
                f"--seconds {seconds:g} --seeds {options.seeds}: give at least 10 and 1"
            )
        names = options.policy or [name for name in POLICIES if name != "exact"]
        print(simulations(cluster, names, seconds, options.seeds))
        return 0
    began = time.perf_counter()
    plan = policy(options.policy).plan(cluster.graph, cluster.snapshot)
    plan = replace(plan, scheduling_time_s=time.perf_counter() - began)
    if plan.fallback:
        print(f"warning: {plan.policy} fell back to {plan.fallback}", file=sys.stderr)
    print(planned(cluster, plan, seconds))
    return 1 if plan.unplaced else 0


if __name__ == "__main__":
    sys.exit(main())
