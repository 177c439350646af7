"""A simulated streaming query, on which policies, controllers and scalers run as on Spark.

:class:`Simulation` runs :class:`Operator` stages on executors; :class:`SimMonitor` and
:class:`SimActuator` are a :class:`scheduling.Controller`'s monitor and actuator, and
:func:`progress` with ``Simulation.busy_s``, ``there`` and ``resize`` what a scaler needs.
"""

from scheduling.simulate.arrivals import Arrivals
from scheduling.simulate.engine import Batch, Executor, Simulation
from scheduling.simulate.job import Operator, demands
from scheduling.simulate.steering import SimActuator, SimMonitor, progress

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
]
