"""All benchmarks, read from ``catalogue.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

from benchmarks.harness.outcome import Benchmark

CATALOGUE = tuple(
    Benchmark(name, **entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
)
"""In the order in which ``all`` runs them; the report shows them by group."""
