"""The data model: tasks, workers, snapshots, plans.

A task is one join partition, a key range of one operator; a worker is a Spark executor, or a cloud
host in the simulator. All classes are frozen; units are in the names. A *share* is in [0, 1].
"""

from scheduling.model.cluster import DataNode, Reserved, Resources, Snapshot, Utilisation, Worker
from scheduling.model.job import Edge, JobGraph, Task
from scheduling.model.plan import Assignment, Move, Plan, Receipt, Unplaced

__all__ = [
    "Assignment",
    "DataNode",
    "Edge",
    "JobGraph",
    "Move",
    "Plan",
    "Receipt",
    "Reserved",
    "Resources",
    "Snapshot",
    "Task",
    "Unplaced",
    "Utilisation",
    "Worker",
]
