"""The words of the command line, and the help."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Context

__all__ = ["parser"]

_ABOUT = """\
Measure what was promised: ratios of ways to do the same, in turns in one run, results checked
equal before they are timed. Every benchmark leaves a record (JSON, with machine, versions, seed
and commit) below OUT/results/quick or OUT/results/full.
"""

_STATUS = """\
Exit status: 0 when all has run; 1 when a benchmark failed or a figure got worse than --against
says (with --strict also when a figure is missed; missed figures are printed in any case); 2 when
the command cannot be carried out; 130 when it was interrupted: the same command then goes on
where it stopped.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks``; an option's name is its attribute."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=_ABOUT,
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--out",
        type=Path,
        default=Path("out/benchmarks"),
        help="the folder of data, records and pictures; out/benchmarks",
    )
    sized = argparse.ArgumentParser(add_help=False)
    size = sized.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="sizes for seconds each")
    size.add_argument("--full", action="store_true", help="the sizes that the figures speak of")
    runs = argparse.ArgumentParser(add_help=False)
    runs.add_argument("--again", action="store_true", help="run also what has a record of the same")
    runs.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with this baseline when done"
    )
    runs.add_argument(
        "--seed",
        type=int,
        default=Context.seed,
        help="of all that is drawn: streams, range tables, clusters; the tables of TPC-H, the road "
        f"network and plain tables are the same for every seed; {Context.seed}",
    )
    runs.add_argument(
        "--strict", action="store_true", help="exit status 1 for a missed figure, too"
    )
    commands = found.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "list",
        parents=[where],
        help="all benchmarks, what they take, and their records",
        description="Print all benchmarks with group, what a quick run takes, and records.",
    )
    run = commands.add_parser(
        "run",
        parents=[where, sized, runs],
        help="run some benchmarks",
        description="Run benchmarks, each in a process of its own; quick unless --full is given. "
        "What has a record\nof the same size, seed, versions and code without an error is not "
        "run again, unless --again is given.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("names", nargs="+", metavar="NAME", help="a name, a group, or a glob of names")
    commands.add_parser(
        "all",
        parents=[where, sized, runs],
        help="run every benchmark; goes on where it stopped",
        description="Like `run` with every name: what was interrupted goes on where it stopped.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare = commands.add_parser(
        "compare",
        parents=[where, sized],
        help="hold records against a baseline",
        description="Name what got worse: ratios only, beyond the spread of both sides (15 % for "
        "a figure without a spread, never below 5 %).\nExit status 1 if something did.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument("baseline", type=Path, help="a record, a list of them, or a folder")
    compare.add_argument(
        "new", type=Path, nargs="?", help="the same; the records of the baseline's size in OUT"
    )
    baseline = commands.add_parser(
        "baseline",
        parents=[where, sized],
        help="write all records into one file, to compare with later",
        description="Write all records of a size, without the raw numbers, into one JSON file; "
        "the full ones, if there are any, unless a size is given.",
    )
    baseline.add_argument(
        "--out-file", type=Path, metavar="FILE", help="OUT/baseline-quick.json or -full.json"
    )
    commands.add_parser(
        "report",
        parents=[where, sized],
        help="one stand-alone HTML page of all records",
        description="Write OUT/report.html; of a benchmark's records the full one is shown if "
        "there is one. With a size only its records, in OUT/report-quick.html or -full.html.",
    )
    summary = commands.add_parser(
        "summary",
        parents=[where, sized],
        help="bring the README's table of figures up to date",
        description="Write the summary into the README; of a benchmark's records the full one "
        "counts if there is one. With a size only its records.",
    )
    summary.add_argument(
        "--check", action="store_true", help="change nothing; exit status 1 if it is out of date"
    )
    summary.add_argument(
        "--readme", type=Path, default=ROOT / "docs/figures.md", help="the file; that of the docs"
    )
    return found
