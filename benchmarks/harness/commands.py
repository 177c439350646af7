"""The command line: runs benchmarks and shows their results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Benchmark, Context
from benchmarks.harness.processes import run_all
from benchmarks.harness.records import (
    Record,
    RecordError,
    folder,
    read_all,
    size_of,
    written,
)
from benchmarks.harness.text import date, duration, overview, verdict
from benchmarks.report import kept, page, prose

_ABOUT = """\
Measure ratios of two ways to do the same, alternately in one run, results checked for equality
first. Every benchmark leaves a record (JSON) below OUT/results/quick or OUT/results/full.
"""
_STATUS = """\
Exit status: 0 when all has run; 1 when a benchmark failed (with --strict also when a figure misses
its bound; missed ones are printed in any case); 2 when the command cannot be carried out; 130 when
it was interrupted: the same command then resumes.
"""
# By name: what argparse is told of an option. Commands list the names that they take.
_OPTIONS: dict[str, dict[str, Any]] = {
    "names": {"nargs": "+", "metavar": "NAME", "help": "a name, a group, or a glob of names"},
    "--out": {
        "type": Path, "default": Path("out/benchmarks"),
        "help": "the folder of data, records and pictures; %(default)s",
    },
    "--quick": {"action": "store_true", "help": "small sizes, seconds each"},
    "--full": {"action": "store_true", "help": "the sizes of the promised figures"},
    "--again": {"action": "store_true", "help": "also run what has a record of the same run"},
    "--seed": {
        "type": int, "default": Context.seed,
        "help": "of streams, range tables and clusters, not of the other tables; %(default)s",
    },
    "--strict": {"action": "store_true", "help": "exit status 1 also for a missed bound"},
    "--check": {"action": "store_true", "help": "change nothing; exit status 1 if out of date"},
}  # fmt: skip
_RUN = "--out --quick --full --again --seed --strict"


class UsageError(Exception):
    """Invalid words of the command line."""


def parser() -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks``."""
    shape = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": _STATUS}
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=_ABOUT, **shape)
    commands = found.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, options, help_, more) in _COMMANDS.items():
        about = f"{help_.capitalize()}. {more}"
        one = commands.add_parser(name, help=help_, description=about, **shape)
        size = one.add_mutually_exclusive_group() if "--full" in options else one
        for option in options.split():
            of = size if option in ("--quick", "--full") else one
            of.add_argument(option, **_OPTIONS[option])
    return found


def main(catalogue: Sequence[Benchmark], words: Sequence[str] | None = None) -> int:
    """Carry out a command; the exit status."""
    arguments = parser()
    options = arguments.parse_args(words)
    if options.command is None:
        arguments.print_help(sys.stderr)
        return 2
    try:
        return _COMMANDS[options.command][0](catalogue, options)
    except (UsageError, RecordError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Records are kept; the same command resumes.", file=sys.stderr)
        return 130


def selected(catalogue: Sequence[Benchmark], words: Sequence[str]) -> list[Benchmark]:
    """The benchmarks that words name, in the order of the catalogue; each must name one."""
    chosen: set[str] = set()
    for word in words:
        found = {one.name for one in catalogue if word == one.group or fnmatchcase(one.name, word)}
        if not found:
            raise UsageError(f"{word!r} names no benchmark and no group: see `list`")
        chosen |= found
    return [one for one in catalogue if one.name in chosen]


def _list(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    width = max((len(one.name) for one in catalogue), default=0)
    for group in dict.fromkeys(one.group for one in catalogue):
        print(group)
        for one in (one for one in catalogue if one.group == group):
            print(f"  {one.name:<{width}}  {duration(one.quick_s):>12}  {one.title}")
            for record in (written(options.out, quick, one.name) for quick in (True, False)):
                if record is not None:
                    took = (
                        f"{size_of(record.quick)}, {date(record.when)}, {duration(record.seconds)}"
                    )
                    print(f"  {'':<{width}}  {took}: {verdict(record)}")
    total = duration(sum(one.quick_s for one in catalogue))
    print(f"{len(catalogue)} benchmarks; quick about {total} in all")
    return 0


def _run(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    return _all(selected(catalogue, options.names), options)


def _all(listed: Sequence[Benchmark], options: argparse.Namespace) -> int:
    quick = not options.full
    say = partial(print, flush=True)
    records = run_all(
        listed, quick=quick, seed=options.seed, out=options.out, again=options.again, say=say
    )
    print(overview(records))
    print(f"\nRecords and pictures are in {folder(options.out, quick)}.")
    missed = not all(figure.reached for record in records for figure in record.figures)
    return int(any(record.error for record in records) or (options.strict and missed))


def _report(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    names = [one.name for one in catalogue]
    sizes = [options.quick] if options.quick or options.full else [False, True]
    records = [record for quick in sizes for record in read_all(options.out, quick, names)]
    if not records:
        raise UsageError(
            f"{options.out} has no such records: `python -m benchmarks all` writes them"
        )
    suffix = f"-{size_of(*sizes)}" if len(sizes) == 1 else ""
    file = page.write(records, options.out / f"report{suffix}.html", options.out)
    print(f"The report of {len(records)} records is {file}.")
    return 0


def present(catalogue: Sequence[Benchmark], out: Path) -> list[Record]:
    """The full records of the benchmarks that there still are."""
    names = [one.name for one in catalogue]
    return [one for one in read_all(out, False, names) if one.name in names]


def _prose(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    """With records they are kept first; without, the figures that are kept stay."""
    try:
        there = [] if options.check else present(catalogue, options.out)
        records = kept.current(there)
        for one in there:
            if one not in records and one.error is None:
                print(f"{one.name}: the record of {date(one.when)} is older than what is kept")
        known = kept.load() if options.check else kept.remember(records)
        changed = prose.update(known, options.check, records)
    except ValueError as error:
        raise UsageError(str(error)) from error
    print("\n".join(changed) or "All pages have the figures that were measured.")
    if options.check and changed:
        print("These pages are out of date: run `python -m benchmarks prose`.")
    typed = prose.typed_by_hand() if options.check else []
    for one in typed:
        print(f"{one}: a measured number that names no figure (see benchmarks/report/prose.py)")
    return int(options.check and bool(changed or typed))


_COMMANDS: dict[str, tuple[Callable[..., int], str, str, str]] = {
    "list": (_list, "--out", "list all benchmarks, their quick durations and records", ""),
    "run": (
        _run, f"names {_RUN}", "run some benchmarks",
        "Quick unless --full is given. What has a record of the same size, seed,\nmachine, versions"
        " and code without an error is not run again, unless --again is given.",
    ),
    "all": (_all, _RUN, "run every benchmark; resumes an interrupted run", ""),
    "report": (
        _report, "--out --quick --full", "write one stand-alone HTML page of all records",
        "OUT/report.html; a full record takes\nprecedence over a quick one. With a size: only its "
        "records, in OUT/report-quick.html or -full.html.",
    ),
    "prose": (
        _prose, "--out --check", "update the numbers in the text of the documentation",
        "They are those of the last full runs, which are kept in benchmarks/figures.json.",
    ),
}  # fmt: skip
"""By name: what carries it out, its options, its help, and more of it."""
