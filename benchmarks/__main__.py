"""``python -m benchmarks``: the figures that were promised, as numbers, JSON and pictures."""

from __future__ import annotations

import sys

from benchmarks.catalogue import CATALOGUE
from benchmarks.harness.commands import main

if __name__ == "__main__":
    sys.exit(main(CATALOGUE))
