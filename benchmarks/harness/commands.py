"""The command line: running benchmarks, comparing and showing what they found."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.harness.arguments import parser
from benchmarks.harness.guard import SizeError, compared, refuse_other_sizes
from benchmarks.harness.outcome import Benchmark
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
from benchmarks.harness.running import run_all
from benchmarks.harness.screen import duration, summed_up, verdict

__all__ = ["UsageError", "main", "selected"]


class UsageError(Exception):
    """Words of the command line that mean nothing."""


def main(catalogue: Sequence[Benchmark], words: Sequence[str] | None = None) -> int:
    """Carry out a command.

    Args:
        catalogue: the benchmarks that there are.
        words: the words after ``python -m benchmarks``; those of the process unless given.

    Returns:
        The exit status; see ``--help``.
    """
    arguments = parser()
    options = arguments.parse_args(words)
    if options.command is None:
        arguments.print_help(sys.stderr)
        return 2
    try:
        return _COMMANDS[options.command](catalogue, options)
    except (UsageError, RecordError, SizeError) as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Records written so far are kept; the same command goes on from here.",
            file=sys.stderr,
        )
        return 130


def selected(catalogue: Sequence[Benchmark], words: Sequence[str]) -> list[Benchmark]:
    """The benchmarks that words name, in the order of the catalogue.

    Args:
        catalogue: all there are.
        words: names, groups, or globs of names.

    Raises:
        UsageError: a word that names none.
    """
    chosen: set[str] = set()
    for word in words:
        found = {one.name for one in catalogue if word == one.group or fnmatchcase(one.name, word)}
        if not found:
            known = [*(one.name for one in catalogue), *sorted({one.group for one in catalogue})]
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"{word!r} names no benchmark and no group: {hint}`list` shows what there is"
            )
        chosen |= found
    return [one for one in catalogue if one.name in chosen]


def _list(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    wide = max((len(one.name) for one in catalogue), default=0)
    for group in dict.fromkeys(one.group for one in catalogue):
        print(group)
        for one in catalogue:
            if one.group != group:
                continue
            print(f"  {one.name:<{wide}}  {duration(one.quick_s):>12}  {one.title}")
            for quick in (True, False):
                record = written(options.out, quick, one.name)
                if record is not None:
                    when = record["when"][:16].replace("T", " ")
                    took = duration(record["seconds"])
                    print(f"  {'':<{wide}}  {size_of(quick)}, {when}, {took}: {verdict(record)}")
    total = duration(sum(one.quick_s for one in catalogue))
    print(f"{len(catalogue)} benchmarks; quick about {total} in all")
    return 0


def _run(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    listed = list(catalogue)
    if options.command == "run":
        listed = selected(catalogue, options.names)
    quick = not options.full
    names = {one.name for one in listed}
    before: list[Record] = []
    if options.against is not None:
        before = [one for one in read_any(options.against) if one["name"] in names]
        if not before:
            raise UsageError(
                f"{options.against} has no record of what is to be run: name other benchmarks"
            )
        refuse_other_sizes(before, [{"quick": quick}])
    records = run_all(
        listed, quick=quick, seed=options.seed, out=options.out, again=options.again, say=_say
    )
    print(summed_up(records))
    print(f"\nRecords and pictures are in {folder(options.out, quick)}.")
    status = 1 if any(record["error"] for record in records) else 0
    if options.strict and not all(f.reached for record in records for f in figures_of(record)):
        status = 1
    if before:
        print(f"\nAgainst {options.against}:")
        status = max(status, _told(before, records))
    return status


def _say(line: str) -> None:
    print(line, flush=True)


def _told(before: Sequence[Record], after: Sequence[Record]) -> int:
    found = compared(before, after)
    print("\n".join(f"  {line}" for line in found.lines()))
    return 1 if found.worse else 0


def _compare(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    before = read_any(options.baseline)
    if options.new is not None:
        return _told(before, read_any(options.new))
    quick = before[0]["quick"] if before else True
    if options.quick or options.full:
        quick = options.quick
    return _told(before, _records(catalogue, options.out, quick))


def _baseline(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    quick = options.quick or not (options.full or any(folder(options.out, False).glob("*.json")))
    records = _records(catalogue, options.out, quick)
    file = options.out_file or options.out / f"baseline-{size_of(quick)}.json"
    write(file, [{**record, "measured": None} for record in records])
    print(f"{len(records)} records are in {file}: compare with it by --against {file}.")
    return 0


def _report(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    from benchmarks.report import html

    records, sizes = _shown(catalogue, options)
    file = html.write(records, options.out / f"report{sizes}.html")
    print(f"The report of {len(records)} records is {file}.")
    return 0


def _summary(catalogue: Sequence[Benchmark], options: argparse.Namespace) -> int:
    from benchmarks.report import summary

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
    """The records to show, with the folders of their pictures, and what a file's name says of them.

    Without a size those of both; who shows them takes full ones first.
    """
    sizes = [options.quick] if options.quick or options.full else [False, True]
    if len(sizes) > 1:
        sizes = [quick for quick in sizes if any(folder(options.out, quick).glob("*.json"))]
    found = [
        {**record, "folder": str(folder(options.out, quick))}
        for quick in sizes or [True]
        for record in _records(catalogue, options.out, quick)
    ]
    return found, f"-{size_of(options.quick)}" if options.quick or options.full else ""


def _records(catalogue: Sequence[Benchmark], out: Path, quick: bool) -> list[Record]:
    records = read_all(out, quick, [one.name for one in catalogue])
    if not records:
        raise UsageError(
            f"{folder(out, quick)} has no records: `python -m benchmarks all --{size_of(quick)}` "
            "writes them"
        )
    return records


_COMMANDS = {
    "list": _list,
    "run": _run,
    "all": _run,
    "compare": _compare,
    "baseline": _baseline,
    "report": _report,
    "summary": _summary,
}
