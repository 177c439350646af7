"""The data model: tasks, workers, snapshots, plans.

A task is one join partition; a worker is a Spark executor, or a cloud host in the simulator. All
classes are frozen; units are in the names; a *share* is in [0, 1].
"""

from scheduling.model.cluster import DataNode, Reserved, Resources, Snapshot, Utilisation, Worker
from scheduling.model.job import Assignment, Edge, JobGraph, Move, Plan, Receipt, Task, Unplaced

__all__ = ["DataNode", "Reserved", "Resources", "Snapshot", "Utilisation", "Worker"]
__all__ += ["Assignment", "Edge", "JobGraph", "Move", "Plan", "Receipt", "Task", "Unplaced"]
