"""Hot keys: measures the skew of the partitions' loads and computes a rule that balances them.

Pure: numpy only, independent of Spark. Keys are 64-bit codes, see docs/decisions/0007-hotspot.md.
"""

from bsjoin.partitioning.controller import Controller
from bsjoin.partitioning.cycle import Collector, CycleStatistics, added
from bsjoin.partitioning.options import Hash, HotSpot
from bsjoin.partitioning.range_rules import algorithm_2, whole_keys
from bsjoin.partitioning.reservoir import Reservoir
from bsjoin.partitioning.routing import Router
from bsjoin.partitioning.rule import HotKey, Rule
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.skew import beyond_chance, chance, rarely_by_chance, skew
from bsjoin.partitioning.spreading import spread_keys

__all__ = [
    "Collector",
    "Controller",
    "CycleStatistics",
    "Hash",
    "HotKey",
    "HotSpot",
    "Reservoir",
    "Router",
    "Rule",
    "Sample",
    "added",
    "algorithm_2",
    "beyond_chance",
    "chance",
    "rarely_by_chance",
    "skew",
    "spread_keys",
    "whole_keys",
]
