"""The command line: runs benchmarks, compares and shows their results."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.baseline import SizeError, compare, refuse_other_sizes
from benchmarks.harness.machine import ROOT
from benchmarks.harness.outcome import Benchmark, Context
from benchmarks.harness.processes import run_all
from benchmarks.harness.records import (
    Record,
    RecordError,
    figures_of,
    folder,
    read_all,
    read_any,
    size_of,
    write,
    written,
)
from benchmarks.harness.text import duration, overview, verdict
from benchmarks.report import page, summary

_ABOUT = """\
Measure what was promised: ratios of two ways to do the same, measured alternately in one run,
results checked for equality before they are timed. Every benchmark leaves a record (JSON, with
machine, versions, seed and commit) below OUT/results/quick or OUT/results/full.
"""
_STATUS = """\
Exit status: 0 when all has run; 1 when a benchmark failed or a figure is worse than --against
says (with --strict also when a figure misses its bound; missed ones are printed in any case);
2 when the command cannot be carried out; 130 when it was interrupted: the same command then
resumes.
"""
_SEED = (
    "of everything that is drawn: streams, range tables, clusters; the tables of TPC-H, the road "
    f"network and plain tables do not depend on it; {Context.seed}"
)
_OUT = "the folder of data, records and pictures; out/benchmarks"

# By name: what argparse is told of an option. Commands list the names that they take.
_OPTIONS: dict[str, dict[str, Any]] = {
    "--out": {"type": Path, "default": Path("out/benchmarks"), "help": _OUT},
    "--quick": {"action": "store_true", "help": "small sizes, seconds each"},
    "--full": {"action": "store_true", "help": "the sizes of the promised figures"},
    "--again": {"action": "store_true", "help": "also run what has a record of the same run"},
    "--against": {"type": Path, "metavar": "FILE", "help": "compare with this baseline at the end"},
    "--seed": {"type": int, "default": Context.seed, "help": _SEED},
    "--strict": {"action": "store_true", "help": "exit status 1 also for a missed bound"},
    "names": {"nargs": "+", "metavar": "NAME", "help": "a name, a group, or a glob of names"},
    "baseline": {"type": Path, "help": "a record, a list of them, or a folder"},
    "new": {"type": Path, "nargs": "?", "help": "the same; default: OUT's records"},
    "--out-file": {
        "type": Path, "metavar": "FILE", "help": "OUT/baseline-quick.json or -full.json",
    },
    "--check": {"action": "store_true", "help": "change nothing; exit status 1 if out of date"},
    "--readme": {
        "type": Path, "default": ROOT / "docs/figures.md", "help": "the file; docs/figures.md",
    },
}  # fmt: skip
_RUN = "--out --quick --full --again --against --seed --strict"
_COMMANDS: dict[str, tuple[Callable[..., int], str, str, str]] = {}
"""By name: what carries it out, its options, its help, and more of it."""


class UsageError(Exception):
    """Invalid words of the command line."""


def _command(name: str, options: str, help_: str, more: str = "") -> Callable[[Any], Any]:
    """Register a function as a command."""

    def register(function: Callable[..., int]) -> Callable[..., int]:
        _COMMANDS[name] = (function, options, help_, more)
        return function

    return register


def parser() -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks``."""
    kept = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": _STATUS}
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=_ABOUT, **kept)
    commands = found.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, options, help_, more) in _COMMANDS.items():
        about = f"{help_.capitalize()}. {more}"
        one = commands.add_parser(name, help=help_, description=about, **kept)
        size = one.add_mutually_exclusive_group()
        for option in options.split():
            group = size if option in ("--quick", "--full") else one
            group.add_argument(option, **_OPTIONS[option])
    return found


def main(catalogue: Sequence[Benchmark], words: Sequence[str] | None = None) -> int:
    """Carry out a command.

    Returns:
        The exit status; see ``--help``.
    """
    arguments = parser()
    options = arguments.parse_args(words)
    if options.command is None:
        arguments.print_help(sys.stderr)
        return 2
    try:
        return _COMMANDS[options.command][0](catalogue, options)
    except (UsageError, RecordError, SizeError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        told = "\nInterrupted. Records written so far are kept; the same command resumes."
        print(told, file=sys.stderr)
        return 130


def selected(catalogue: Sequence[Benchmark], words: Sequence[str]) -> list[Benchmark]:
    """The benchmarks that words name, in the order of the catalogue.

    Raises:
        UsageError: a word that names none.
    """
    chosen: set[str] = set()
    for word in words:
        found = {one.name for one in catalogue if word == one.group or fnmatchcase(one.name, word)}
        if not found:
            known = [*(one.name for one in catalogue), *sorted({one.group for one in catalogue})]
            close = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"{word!r} names no benchmark and no group: {hint}`list` shows what there is"
            )
        chosen |= found
    return [one for one in catalogue if one.name in chosen]


@_command("list", "--out", "list all benchmarks, their quick durations and records")
def _list(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    width = max((len(one.name) for one in catalogue), default=0)
    for group in dict.fromkeys(one.group for one in catalogue):
        print(group)
        for one in (one for one in catalogue if one.group == group):
            print(f"  {one.name:<{width}}  {duration(one.quick_s):>12}  {one.title}")
            for quick in (True, False):
                if (record := written(options.out, quick, one.name)) is not None:
                    when = record["when"][:16].replace("T", " ")
                    took = duration(record["seconds"])
                    print(f"  {'':<{width}}  {size_of(quick)}, {when}, {took}: {verdict(record)}")
    total = duration(sum(one.quick_s for one in catalogue))
    print(f"{len(catalogue)} benchmarks; quick about {total} in all")
    return 0


@_command(
    "run",
    f"names {_RUN}",
    "run some benchmarks",
    "Quick unless --full is given. What has a record of the same size, seed,\nversions and code "
    "without an error is not run again, unless --again is given.",
)
def _run(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    return _all(selected(catalogue, options.names), options)


@_command("all", _RUN, "run every benchmark; resumes an interrupted run")
def _all(listed: Sequence[Benchmark], options: argparse.Namespace) -> int:
    quick, names, before = not options.full, {one.name for one in listed}, []
    if options.against is not None:
        before = [one for one in read_any(options.against) if one["name"] in names]
        if not before:
            raise UsageError(
                f"{options.against} has no record of these benchmarks: name other benchmarks"
            )
        refuse_other_sizes(before, [{"quick": quick}])
    kept = {"quick": quick, "seed": options.seed, "out": options.out, "again": options.again}
    records = run_all(listed, **kept, say=partial(print, flush=True))
    print(overview(records))
    print(f"\nRecords and pictures are in {folder(options.out, quick)}.")
    missed = not all(f.reached for record in records for f in figures_of(record))
    status = int(any(record["error"] for record in records) or (options.strict and missed))
    if before:
        print(f"\nAgainst {options.against}:")
        status = max(status, _print_comparison(before, records))
    return status


def _print_comparison(before: Sequence[Record], after: Sequence[Record]) -> int:
    found = compare(before, after)
    print("\n".join(f"  {line}" for line in found.lines()))
    return 1 if found.worse else 0


@_command(
    "compare",
    "baseline new --out --quick --full",
    "compare records with a baseline",
    "Names what got worse: ratios only, beyond the spread of both\nsides (15 % for a figure "
    "without a spread, never below 5 %).",
)
def _compare(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    before = read_any(options.baseline)
    if options.new is not None:
        return _print_comparison(before, read_any(options.new))
    quick = before[0]["quick"] if before else True
    if options.quick or options.full:
        quick = options.quick
    return _print_comparison(before, _records(catalogue, options.out, quick))


@_command(
    "baseline",
    "--out --quick --full --out-file",
    "write all records into one file, to compare with later",
    "Without the raw\nnumbers; the full ones, if there are any, unless a size is given.",
)
def _baseline(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    quick = options.quick or not (options.full or any(folder(options.out, False).glob("*.json")))
    records = _records(catalogue, options.out, quick)
    file = options.out_file or options.out / f"baseline-{size_of(quick)}.json"
    write(file, [{**record, "measured": None} for record in records])
    print(f"{len(records)} records are in {file}: compare with it by --against {file}.")
    return 0


@_command(
    "report",
    "--out --quick --full",
    "write one stand-alone HTML page of all records",
    "OUT/report.html; a full record takes\nprecedence over a quick one. With a size: only its "
    "records, in OUT/report-quick.html or -full.html.",
)
def _report(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    records, suffix = _shown(catalogue, options)
    file = page.write(records, options.out / f"report{suffix}.html")
    print(f"The report of {len(records)} records is {file}.")
    return 0


@_command(
    "summary",
    "--out --quick --full --check --readme",
    "update the table of figures in the documentation",
)
def _summary(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    records, _ = _shown(catalogue, options)
    try:
        current = summary.update(records, options.readme, options.check)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if options.check and not current:
        print(f"{options.readme} is out of date: run `python -m benchmarks summary`.")
        return 1
    print(f"{options.readme} has the summary of {len(records)} records.")
    return 0


def _shown(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> tuple[list[Record], str]:
    """The records to show, each with the folder of its pictures, and the suffix of the file.

    Without a size: those of both.
    """
    given = options.quick or options.full
    sizes = [options.quick] if given else [False, True]
    if len(sizes) > 1:
        sizes = [quick for quick in sizes if any(folder(options.out, quick).glob("*.json"))]
    found = [
        {**record, "folder": str(folder(options.out, quick))}
        for quick in sizes or [True]
        for record in _records(catalogue, options.out, quick)
    ]
    return found, f"-{size_of(options.quick)}" if given else ""


def _records(catalogue: Sequence[Benchmark], out: Path, quick: bool) -> list[Record]:
    records = read_all(out, quick, [one.name for one in catalogue])
    if not records:
        raise UsageError(
            f"{folder(out, quick)} has no records: `python -m benchmarks all --{size_of(quick)}` "
            "writes them"
        )
    return records
