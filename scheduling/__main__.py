"""``python -m scheduling example|plan|explain|simulate``: placements of a cluster file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduling.cluster_file import read
from scheduling.errors import ArgumentError, SchedulingError
from scheduling.policies import POLICIES, policy
from scheduling.tables import explained, planned, simulations

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: the words after ``python -m scheduling``; those of the process unless given.

    Returns:
        0; 1 when a task has no room; 2 when the arguments or the file cannot be used.
    """
    try:
        return _run(_parser().parse_args(args))
    except (SchedulingError, ImportError) as error:
        print(f"python -m scheduling: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduling", description="Place the tasks of a job on priced workers."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("example", help="print a cluster file to begin with")
    names = ", ".join(POLICIES)
    for name, told, seconds in (
        ("plan", "place the job: a table, reasons, costs", 3600.0),
        ("explain", "ranks of the workers, and every policy's cost", 3600.0),
        ("simulate", "run the job under each policy", 300.0),
    ):
        command = commands.add_parser(name, help=told)
        command.add_argument("file", help="a cluster file (YAML); see scheduling.cluster_file")
        told = f"how long the job runs; {seconds:g}"
        command.add_argument("--seconds", type=float, default=seconds, help=told)
        if name == "plan":
            command.add_argument("--policy", default="lba-ce", help=f"of {names}; lba-ce")
        if name == "simulate":
            command.add_argument("--policy", action="append", help=f"of {names}; all but exact")
            command.add_argument("--seeds", type=int, default=3, help="runs with other arrivals; 3")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.command == "example":
        print(Path(__file__).with_name("example.yaml").read_text("utf-8"), end="")
        return 0
    cluster, seconds = read(options.file), options.seconds
    if options.command == "explain":
        print(explained(cluster, seconds))
        return 0
    if options.command == "simulate":
        if not seconds >= 10 or options.seeds < 1:
            told = f"--seconds {seconds:g} --seeds {options.seeds}"
            raise ArgumentError(f"{told}: give at least 10 and 1")
        print(simulations(cluster, options.policy, seconds, options.seeds))
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
