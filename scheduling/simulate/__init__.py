"""A simulated streaming query, on which policies, controllers and scalers run as on Spark."""

from scheduling.simulate.engine import Arrivals, Batch, Executor, Simulation
from scheduling.simulate.steering import SimCluster, progress, scaled

__all__ = ["Arrivals", "Batch", "Executor", "SimCluster", "Simulation", "progress", "scaled"]
