"""A simulated cluster, and the experiments of the papers on it.

:class:`Simulation` runs a :class:`Job` on workers as a fluid, step by step, the same each time;
:class:`SimMonitor` and :class:`SimActuator` connect it to policies and controllers as a real
cluster would be. :func:`main` runs the papers' comparisons.
"""

from scheduling.simulate.clusters import table_4
from scheduling.simulate.command import main
from scheduling.simulate.engine import Failure, Simulation
from scheduling.simulate.flow import Physics
from scheduling.simulate.jobs import Job, Operator, demands
from scheduling.simulate.steering import SimActuator, SimMonitor
from scheduling.simulate.streams import Bursts, Steps, constant
from scheduling.simulate.trace import Trace
from scheduling.simulate.workloads import fixwindow, join_job, wordcount

__all__ = [
    "Bursts",
    "Failure",
    "Job",
    "Operator",
    "Physics",
    "SimActuator",
    "SimMonitor",
    "Simulation",
    "Steps",
    "Trace",
    "constant",
    "demands",
    "fixwindow",
    "join_job",
    "main",
    "table_4",
    "wordcount",
]
