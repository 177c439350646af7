"""Tables 6 to 8 of the BS-Join paper: a band join by size of the table and TaskManagers."""

from __future__ import annotations

from benchmarks.skip_lists.searches import FLAT_MAP, RANDOM, SORTED

TABLES = {FLAT_MAP: "Table 6", RANDOM: "Table 7", SORTED: "Table 8"}

CELLS = tuple((1 << exponent, many) for exponent in (21, 22, 23) for many in (8, 32, 128))
"""The rows of each of the tables: records of the table, TaskManagers."""

THROUGHPUT = {
    FLAT_MAP: (16.32, 72.09, 187.28, 14.59, 69.91, 176.08, 12.43, 58.38, 168.77),
    RANDOM: (65.71, 186.19, 447.82, 62.00, 173.45, 419.77, 55.66, 161.40, 382.11),
    SORTED: (87.33, 233.85, 506.02, 81.59, 213.22, 476.40, 74.71, 193.89, 442.76),
}
"""Thousand rows a second by the rows of ``CELLS``."""

LATENCY_MS = {
    FLAT_MAP: (301.40, 283.36, 372.55, 311.98, 304.42, 397.42, 351.11, 344.53, 420.08),
    RANDOM: (171.52, 164.01, 220.08, 179.66, 169.98, 228.89, 191.63, 178.92, 236.01),
    SORTED: (149.63, 144.00, 194.63, 156.34, 148.89, 200.88, 165.32, 155.47, 204.43),
}


def ratios(name: str, above: str, below: str) -> list[float]:
    """Ratios of one way to another, by the rows of ``CELLS``; of ``rate`` or ``latency_ms``."""
    values = THROUGHPUT if name == "rate" else LATENCY_MS
    return [a / b for a, b in zip(values[above], values[below], strict=True)]
