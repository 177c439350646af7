"""Live on Spark: what a cluster looks like, and the levers that place work on it.

``bsjoin.cycles(..., placement=..., scaler=...)`` closes the loop for a join; :class:`Loop` does it
for any job that runs in cycles. Nothing here is imported by ``import scheduling``.
"""

from scheduling.spark.fleet import Fleet
from scheduling.spark.landing import Landing
from scheduling.spark.levers import DryRun, LeverWarning, Partitions, Pins
from scheduling.spark.loop import Loop, Turn
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.pins import Executor, Pinned, pin
from scheduling.spark.placement import Placement
from scheduling.spark.probe import Reading
from scheduling.spark.tiers import Tier, Tiers, on_tier

__all__ = [
    "DryRun",
    "Executor",
    "Fleet",
    "Landing",
    "LeverWarning",
    "Loop",
    "Partitions",
    "Pinned",
    "Pins",
    "Placement",
    "Reading",
    "SparkMonitor",
    "Tier",
    "Tiers",
    "Turn",
    "on_tier",
    "pin",
]
