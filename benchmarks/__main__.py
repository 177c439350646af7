"""``python -m benchmarks``: the figures that were promised, as numbers, JSON and pictures."""

import sys
import tomllib
from pathlib import Path

from benchmarks.harness.commands import main
from benchmarks.harness.outcome import Benchmark

# In the order in which `all` runs them; the report shows them by group.
_ENTRIES = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
CATALOGUE = tuple(Benchmark(name, **entry) for name, entry in _ENTRIES.items())

if __name__ == "__main__":
    sys.exit(main(CATALOGUE))
