"""Live placement on Spark: monitors a cluster and controls where its tasks run.

``bsjoin.cycles(..., placement=..., scaler=...)`` runs the control loop for a join; :class:`Loop`
runs it for any job with cycles. ``import scheduling`` does not import this package.
"""

from scheduling.spark.demand import CachesSeen
from scheduling.spark.executors import Executors
from scheduling.spark.loop import CycleContext, Loop
from scheduling.spark.once import LeverWarning
from scheduling.spark.pins import Pinned, pin
from scheduling.spark.placement import Placement, PlacementResult
from scheduling.spark.scaling import Scaling
from scheduling.spark.seen import Executor
from scheduling.spark.tiers import Tier, Tiers

__all__ = ["CachesSeen", "CycleContext", "Executor", "Executors", "LeverWarning", "Loop", "Pinned"]
__all__ += ["Placement", "PlacementResult", "Scaling", "Tier", "Tiers", "pin"]
