"""Placement of join tasks on cost-ranked, load-balanced workers.

A policy places the tasks of a :class:`JobGraph` on the workers of a :class:`Snapshot` and returns
a :class:`Plan`; a rebalancer balances running tasks; a :class:`Controller` follows both in a
cluster. A scaler tells how many cores a load needs, :class:`Elastic` when to ask for them. The
package is pure: clocks and seeds are parameters, and only :mod:`scheduling.spark` needs Spark.

>>> workers = tuple(
...     Worker(name, Resources(4, 8192), slots=2, price_per_s=price)
...     for name, price in (("a", 0.3), ("b", 0.1))
... )
>>> tasks = tuple(Task(f"join-{i}", "join", i, Resources(1, 512)) for i in range(2))
>>> plan = CETSA(by_price=True).plan(JobGraph(tasks), Snapshot(0.0, workers))
>>> plan.placement
{'join-0': 'b', 'join-1': 'b'}
>>> plan.score
0.1
"""

from scheduling import errors
from scheduling.controller import Controller
from scheduling.cost import CostModel, Costs, Price, priced
from scheduling.elastic import Bounds, Elastic
from scheduling.errors import SchedulingError
from scheduling.history import Decision
from scheduling.load import busyness
from scheduling.model.cluster import DataNode, Reserved, Resources, Snapshot, Utilisation, Worker
from scheduling.model.job import Assignment, Edge, JobGraph, Move, Plan, Receipt, Task, Unplaced
from scheduling.objective import Objective, PlacementCost
from scheduling.policies import POLICIES, policy
from scheduling.policies.baselines import FirstFit, Random, RoundRobin, Spread
from scheduling.policies.cetsa import CETSA
from scheduling.policies.data_locality import DataLocality
from scheduling.policies.exact import Exact
from scheduling.policies.gs_bfd import GSBFD
from scheduling.policies.lba_ce import LBACE
from scheduling.policies.local_search import LocalSearch
from scheduling.policies.resource_aware import ResourceAware
from scheduling.protocols import Actuator, Clock, Monitor, Policy, Rebalancer
from scheduling.rebalance import StStream
from scheduling.scalers import DS2, OERA, Load, Probe, Scaler, Static

__all__ = ["DataNode", "Edge", "JobGraph", "Reserved", "Resources", "Snapshot", "Task", "Worker"]
__all__ += ["Assignment", "Move", "Plan", "Receipt", "Unplaced", "Utilisation", "busyness"]
__all__ += ["CETSA", "GSBFD", "LBACE", "DataLocality", "Exact", "FirstFit", "LocalSearch", "Random"]
__all__ += ["POLICIES", "ResourceAware", "RoundRobin", "Spread", "StStream", "policy"]
__all__ += ["DS2", "OERA", "Bounds", "Elastic", "Load", "Probe", "Static"]
__all__ += ["Controller", "CostModel", "Costs", "Decision", "Objective", "PlacementCost"]
__all__ += ["Actuator", "Clock", "Monitor", "Policy", "Price", "Rebalancer", "Scaler"]
__all__ += ["SchedulingError", "errors", "priced"]
