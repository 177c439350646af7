"""Near the data: Twister2's data locality scheduler, whose distance ignores how much is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduling.model import DataNode, JobGraph, Snapshot, Task
from scheduling.model.checks import grouped
from scheduling.policies.baselines import Greedy
from scheduling.room import Room


@dataclass(frozen=True)
class DataLocality(Greedy):
    """Place each task on the worker with room whose transfer of its input is fastest.

    Args:
        data_nodes: hosts that store data and run no worker; default none. An unknown host is as
            fast as the reading worker.

    Complexity: O(tasks x workers x log workers).
    """

    data_nodes: Sequence[DataNode] = ()
    name: ClassVar[str] = "data-locality"
    weights: ClassVar[tuple[float, float, float]] = (0.0, 1.0, 1.0)

    def _place(self, room: Room, graph: JobGraph, snapshot: Snapshot) -> None:
        seconds_of = self.transfer_s(snapshot)
        for task in graph.tasks:
            seconds = seconds_of(task).tolist()

            def why(passed: int, i: int, seconds: list[float] = seconds) -> str:
                nearer = sum(other < seconds[i] for other in seconds)
                spilt = f", {nearer} nearer ones have no room" if nearer else ""
                return f"its input is there in {seconds[i]:.3g} s{spilt}"

            room.first(task, sorted(room.open, key=seconds.__getitem__), why)

    def transfer_s(self, snapshot: Snapshot) -> Callable[[Task], NDArray[np.float64]]:
        """A function for the seconds of a task's input from its nearest host to each worker.

        Two latencies, and the bytes at the slower bandwidth; 0 if the worker of the ``snapshot``
        stores them, or without input.
        """
        own = [(one.bandwidth_bytes_per_s, one.latency_s) for one in snapshot.workers]
        rates, latencies = np.array(own, float).reshape(-1, 2).T
        named = [(name, i) for i, one in enumerate(snapshot.workers) for name in (one.id, one.host)]
        there = grouped(named)
        # The first of a name counts, workers before nodes.
        known = {one.host: (one.bandwidth_bytes_per_s, one.latency_s) for one in self.data_nodes}
        known |= {name: own[places[0]] for name, places in there.items()}

        def seconds(task: Task) -> NDArray[np.float64]:
            found = np.full(len(own), np.inf if task.preferred else 0.0)
            for holder in task.preferred:
                rate, away = known.get(holder, (rates, latencies))
                took = away + latencies + task.input_bytes / np.minimum(rate, rates)
                found = np.minimum(found, took)
            for holder in task.preferred:
                found[list(there.get(holder, ()))] = 0.0
            return found

        return seconds
