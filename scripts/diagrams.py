"""Draws the diagrams of the documentation into ``docs/images``, for light and for dark pages.

    python scripts/diagrams.py            # write them
    python scripts/diagrams.py --check    # fail if what is there is not what would be written

The chart shows the figures of ``full-latency`` in ``benchmarks/figures.json``, which
``python -m benchmarks prose`` takes from the records of full runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import drawings
import number_lines
from latency_chart import chart
from svg import PALETTES, Canvas

_ROOT = Path(__file__).resolve().parent.parent
IMAGES = _ROOT / "docs" / "images"
_FIGURES = _ROOT / "benchmarks" / "figures.json"
_CONDITIONS = (
    number_lines.band, number_lines.aggregates, number_lines.where, number_lines.several,
    number_lines.within, number_lines.take, number_lines.overlaps, number_lines.relations,
    number_lines.as_of, number_lines.collect, number_lines.networks, number_lines.keys,
    number_lines.latest,
)  # fmt: skip


def drawn() -> dict[str, str]:
    """Every picture by the name of its file."""
    latency = json.loads(_FIGURES.read_text("utf-8"))["full-latency"]["figures"]
    functions: dict[str, Callable[[dict[str, str]], Canvas]] = {
        "build": drawings.build,
        "latency": partial(chart, figures=latency),
        "shared-cache": drawings.shared_cache,
        "versions": drawings.versions,
        "which-call": drawings.which_call,
        **{f"condition-{one.__name__}".replace("_", "-"): one for one in _CONDITIONS},
    }
    return {
        f"{name}-{scheme}.svg": draw(colors).written()
        for name, draw in functions.items()
        for scheme, colors in PALETTES.items()
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pictures; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one differs")
    check = parser.parse_args(arguments).check
    changed = []
    for name, text in drawn().items():
        file = IMAGES / name
        if not file.exists() or file.read_text("utf-8") != text:
            changed.append(name)
            if not check:
                file.write_text(text, "utf-8")
    if check and changed:
        print(f"{', '.join(changed)}: not as drawn; run `python scripts/diagrams.py`")
        return 1
    print(f"{len(changed)} of {len(drawn())} pictures written" if not check else "all as drawn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
