"""Live on Spark: what a cluster looks like, and the levers that place work on it.

``bsjoin.cycles(..., placement=..., scaler=...)`` closes the loop for a join; :class:`Loop` does it
for any job that runs in cycles. Nothing here is imported by ``import scheduling``.
"""

from scheduling.spark.fleet import Fleet
from scheduling.spark.levers import DryRun, LeverWarning, Partitions, Pins
from scheduling.spark.loop import CycleContext, Loop
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.pins import Executor, Pinned, pin
from scheduling.spark.placement import Placement
from scheduling.spark.placement_result import PlacementResult
from scheduling.spark.probe import Reading
from scheduling.spark.tiers import Tier, Tiers, on_tier

__all__ = [
    "CycleContext",
    "DryRun",
    "Executor",
    "Fleet",
    "LeverWarning",
    "Loop",
    "Partitions",
    "Pinned",
    "Pins",
    "Placement",
    "PlacementResult",
    "Reading",
    "SparkMonitor",
    "Tier",
    "Tiers",
    "on_tier",
    "pin",
]
