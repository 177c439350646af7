"""A simulated streaming query, on which policies, controllers and scalers run as on Spark.

:class:`Simulation` runs :class:`Operator` stages on executors; :class:`SimMonitor` and
:class:`SimActuator` are a :class:`scheduling.Controller`'s monitor and actuator, and
:func:`scaled` lets an :class:`~scheduling.elastic.Elastic` choose the executors.
"""

from scheduling.simulate.arrivals import Arrivals
from scheduling.simulate.engine import Batch, Executor, Simulation
from scheduling.simulate.job import Operator, demands
from scheduling.simulate.steering import SimActuator, SimMonitor, progress, scaled

__all__ = [
    "Arrivals",
    "Batch",
    "Executor",
    "Operator",
    "SimActuator",
    "SimMonitor",
    "Simulation",
    "demands",
    "progress",
    "scaled",
]
