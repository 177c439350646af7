"""Live placement on Spark: monitors a cluster and controls where its tasks run.

``bsjoin.cycles(..., placement=..., scaler=...)`` runs the control loop for a join; :class:`Loop`
runs it for any job with cycles. ``import scheduling`` does not import this package.
"""

from scheduling.spark.cached import CachesSeen, EntriesSeen
from scheduling.spark.cycle import CycleContext
from scheduling.spark.fleet import Fleet
from scheduling.spark.levers import DryRun, Partitions, Pins
from scheduling.spark.loop import Loop
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.once import LeverWarning
from scheduling.spark.pins import Executor, Pinned, pin
from scheduling.spark.placement import Placement
from scheduling.spark.placement_result import PlacementResult
from scheduling.spark.probe import Reading
from scheduling.spark.tiers import Tier, Tiers, on_tier

__all__ = [
    "CachesSeen",
    "CycleContext",
    "DryRun",
    "EntriesSeen",
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
