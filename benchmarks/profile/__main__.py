"""``python -m benchmarks.profile``: where the time of your own sizes of micro-batches goes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.outcome import Context, Table
from benchmarks.profile.kinds import JOINS
from benchmarks.profile.microbatch import profile

__all__ = ["main", "printed"]


def main(args: Sequence[str] | None = None) -> int:
    """Profile, print the tables, draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="of a micro-batch (%(default)s)")
    parser.add_argument("--table", type=int, default=100_000, help="its rows (%(default)s)")
    parser.add_argument(
        "--kind",
        action="append",
        choices=JOINS,
        help="a kind of join; may be repeated; default all",
    )
    parser.add_argument("--batches", type=int, default=10, help="of a run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each (%(default)s)")
    parser.add_argument(
        "--flame",
        action="store_true",
        help="write the workers' stacks, for speedscope and the like",
    )
    parser.add_argument("--quick", action="store_true", help="one pipeline less to compare with")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options = parser.parse_args(args)
    for name in ("rows", "table", "batches", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is to be 1 or more, not {getattr(options, name)}")
    data = options.out / "data"
    data.mkdir(parents=True, exist_ok=True)
    context = Context(quick=options.quick, out=options.out, data=data)
    outcome = profile(
        context,
        options.rows,
        options.table,
        options.kind or JOINS,
        options.rounds,
        options.batches,
        flame=options.flame,
    )
    for table in outcome.tables:
        print("\n" + printed(table))
    for figure in outcome.figures:
        print(f"{figure.name:<72} {figure.value:7.3f}")
    print(f"\nThe picture is {outcome.pictures[0]}.")
    return 0


def printed(table: Table) -> str:
    """A table for the screen."""
    rows = [tuple("" if cell is None else str(cell) for cell in row) for row in table.rows]
    columns = list(zip(table.columns, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (table.columns, *rows)
    ]
    return "\n".join([table.title, *lines, *([table.note] if table.note else [])])


if __name__ == "__main__":
    sys.exit(main())
