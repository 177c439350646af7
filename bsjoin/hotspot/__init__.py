"""Hot keys: measures the skew of the partitions' loads and computes a rule that balances them.

Pure: numpy only, independent of Spark. Keys are 64-bit codes, see docs/decisions/0007-hotspot.md.
"""

from bsjoin.hotspot.controller import Controller, Observation
from bsjoin.hotspot.cycle import Collector, CycleStatistics, added
from bsjoin.hotspot.options import Hash, HotSpot
from bsjoin.hotspot.range_rules import algorithm_2, whole_keys
from bsjoin.hotspot.reservoir import Reservoir
from bsjoin.hotspot.routing import Router
from bsjoin.hotspot.rule import HotKey, Rule
from bsjoin.hotspot.sample import Sample
from bsjoin.hotspot.skew import beyond_chance, chance, rarely_by_chance, skew
from bsjoin.hotspot.spreading import spread_keys

__all__ = [
    "Collector",
    "Controller",
    "CycleStatistics",
    "Hash",
    "HotKey",
    "HotSpot",
    "Observation",
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
