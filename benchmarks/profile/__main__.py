"""``python -m benchmarks.profile``: where the time of your own sizes of micro-batches goes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import charts
from benchmarks.harness.outcome import Context
from benchmarks.harness.text import figure_lines, table_lines
from benchmarks.profile.pipelines import BASELINES
from benchmarks.profile.profile import profile

_SIZES = {
    "rows": (10_000, "rows of a micro-batch"),
    "table": (100_000, "rows of the table"),
    "batches": (10, "micro-batches of a run"),
    "rounds": (1, "runs of each pipeline"),
}


def main(args: Sequence[str] | None = None) -> int:
    """Profile, print the tables, draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    for name, (default, text) in _SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (%(default)s)")
    help_ = "a kind of join; may be repeated; default all"
    parser.add_argument("--kind", action="append", choices=tuple(BASELINES), help=help_)
    parser.add_argument("--quick", action="store_true", help="one baseline less")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options = parser.parse_args(args)
    for name in _SIZES:
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more, not {getattr(options, name)}")
    data = options.out / "data"
    data.mkdir(parents=True, exist_ok=True)
    context = Context(quick=options.quick, out=options.out, data=data)
    kinds = options.kind or tuple(BASELINES)
    found = profile(context, options.rows, options.table, kinds, options.rounds, options.batches)
    for table in found.tables:
        print("\n".join(["", *table_lines(table), table.note]))
    print("\n".join(["", *figure_lines(found.figures)]))
    (picture,) = charts.draw(found.tables, options.out / "profile.svg")
    print(f"\nThe picture is {picture}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
