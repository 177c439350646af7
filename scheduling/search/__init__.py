"""Local search under the objective of the control loop (:mod:`scheduling.objective`)."""

from scheduling.search.improvement import improve
from scheduling.search.state import PlacementState

__all__ = ["PlacementState", "improve"]
