"""The simulator: a clocked model of a job on a cluster, in which records are a fluid.

A step has five parts, each vectorised over the tasks: sources take in what is offered; the CPU of
each host is distributed; the network cuts what exceeds a host's bandwidth; back-pressure cuts
what does not fit the buffers downstream (or the buffers drop it); records move. A record takes
one step from operator to operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.errors import ArgumentError
from scheduling.model import Worker
from scheduling.simulate.counters import RecordCounters
from scheduling.simulate.flow import Physics, Wiring
from scheduling.simulate.jobs import Job, task_id
from scheduling.simulate.streams import Rate
from scheduling.simulate.trace import Trace

__all__ = ["Failure", "Simulation"]

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Failure:
    """A host is gone from one time to another, both in seconds."""

    worker: str
    from_s: float
    until_s: float = float("inf")


class Simulation:
    """A job that runs on a cluster.

    Args:
        job: the job.
        workers: the hosts.
        rate: records a second that are offered.
        placement: by task, the worker; every task needs one.
        physics: the rest.
        failures: hosts that go, and come back.

    Raises:
        ArgumentError: a task has no worker, or one that is not there.

    Complexity: O(tasks²) a step: every task may talk to every other.

    Example:
        >>> from scheduling.simulate.workloads import wordcount
        >>> from scheduling.simulate.clusters import table_4
        >>> workers = table_4()
        >>> ids = [task_id(o.name, i) for o in wordcount().operators for i in range(o.parallelism)]
        >>> at = {task: workers[i % len(workers)].id for i, task in enumerate(ids)}
        >>> simulation = Simulation(wordcount(), workers, lambda _: 20_000.0, at)
        >>> trace = simulation.run(60)
        >>> round(float(trace.throughput()[-1]), -2)
        20000.0
    """

    def __init__(
        self,
        job: Job,
        workers: Sequence[Worker],
        rate: Rate,
        placement: Mapping[str, str],
        *,
        physics: Physics | None = None,
        failures: Sequence[Failure] = (),
    ) -> None:
        self.job = job
        self.workers = tuple(workers)
        self.rate = rate
        self.physics = physics or Physics()
        self.failures = tuple(failures)
        self.time_s = 0.0
        self.restarts = 0
        self.reconfigurations = 0
        self._index = {worker.id: at for at, worker in enumerate(self.workers)}
        for failure in self.failures:
            self._worker(failure.worker)
        self._cores = np.array([worker.capacity.cpu_cores for worker in self.workers])
        self._memory = np.array([worker.capacity.memory_mb for worker in self.workers])
        self._names = [one.name for one in job.operators]
        self._shares = {one.name: one.shares(one.parallelism, job.seed) for one in job.operators}
        self._at: dict[str, Int64s] = {}
        self._place(placement)
        self._wiring = self._wire()
        self._counters = RecordCounters(job, len(self._wiring.op))
        self._still_until_s = self.physics.deploy_s
        self._down: frozenset[str] = frozenset()
        self._kept_at_s = 0.0
        self.worker_tuples = np.zeros(len(self.workers))
        self.busy_s = np.zeros(len(self._names))
        self.trace = Trace(tuple(self._index), tuple(self._names))

    # What is where

    def _worker(self, name: str) -> int:
        if name not in self._index:
            raise ArgumentError(f"there is no worker {name!r}; there are {', '.join(self._index)}")
        return self._index[name]

    def _place(self, placement: Mapping[str, str]) -> None:
        for name in self._names:
            found = []
            for index in range(len(self._shares[name])):
                task = task_id(name, index)
                if task not in placement:
                    raise ArgumentError(f"the task {task!r} has no worker; place every task")
                found.append(self._worker(placement[task]))
            self._at[name] = np.array(found, np.int64)

    def _wire(self) -> Wiring:
        return Wiring(self.job, self.workers, self._shares, self._at, self.physics)

    @property
    def placement(self) -> dict[str, str]:
        """The worker of each task."""
        return {
            task_id(name, index): self.workers[at].id
            for name in self._names
            for index, at in enumerate(self._at[name].tolist())
        }

    @property
    def parallelism(self) -> dict[str, int]:
        """Instances by operator."""
        return {name: len(self._shares[name]) for name in self._names}

    @property
    def shares(self) -> dict[str, Float64s]:
        """By operator, the share of its records that each instance gets."""
        return {name: shares.copy() for name, shares in self._shares.items()}

    def latency_s(self, name: str) -> float:
        """Seconds that an instance of an operator takes for a record, at the cores it can use."""
        here = self._wiring.span[name]
        return float((self._wiring.cost[here] / self._wiring.max_cores[here]).mean())

    @property
    def down(self) -> frozenset[str]:
        """The workers that are gone at the moment."""
        return self._down

    @property
    def running(self) -> bool:
        """Whether the job runs: no deployment, change or restart, and every task has its host."""
        if self._down and any(self.workers[at].id in self._down for at in self._wiring.host):
            return False
        return self.time_s >= self._still_until_s

    # Changes

    def change(
        self,
        placement: Mapping[str, str],
        *,
        shares: Mapping[str, Float64s] | None = None,
        still_s: float = 0.0,
    ) -> bool:
        """Move tasks, and give operators other instances; the job stands still meanwhile.

        Args:
            placement: the worker of every task there is afterwards.
            shares: by operator whose instances change, the share of each new one, sum 1.
            still_s: how long nothing is processed. The state of tasks that move is carried over
                the slowest network that takes part, on top of this.

        Returns:
            Whether anything changed; if not, the job does not stand still.
        """
        new = {name: np.asarray(given, np.float64) for name, given in (shares or {}).items()}
        for name, given in new.items():
            if name not in self._shares:
                raise ArgumentError(f"there is no operator {name!r}; there are {self._names}")
            if not (len(given) and (given >= 0).all() and abs(given.sum() - 1) < 1e-6):
                raise ArgumentError(f"the shares of {name!r} are {given}: they must sum to 1")
        before, old = self.placement, self.shares
        changed = {
            name for name, given in new.items() if not np.array_equal(given, self._shares[name])
        }
        self._shares.update({name: new[name] for name in changed})
        try:
            self._place(placement)
        except ArgumentError:
            self._shares = old
            raise
        after = self.placement
        if before == after and not changed:
            return False
        carried = 0.0
        for name in self._names:
            state = self.job.by_name[name].state_bytes
            if name in changed:
                carried += state * (1 - 1 / max(len(old[name]), len(self._shares[name])))
            else:
                moved = [
                    before[task_id(name, at)] != after[task_id(name, at)]
                    for at in range(len(old[name]))
                ]
                carried += state * float(self._shares[name][moved].sum())
        self._counters.deal(changed, self._shares, self._wiring)
        self._wiring = self._wire()
        used = np.unique(self._wiring.host)
        slowest = min(self.workers[at].bandwidth_bytes_per_s for at in used)
        pause = still_s + carried / (slowest * len(used))
        self._still_until_s = max(self._still_until_s, self.time_s + pause)
        self.reconfigurations += 1
        self._keep()
        return True

    # Failures

    def _keep(self) -> None:
        self._counters.keep()
        self._kept_at_s = self.time_s

    def _fail(self) -> None:
        down = frozenset(
            failure.worker
            for failure in self.failures
            if failure.from_s <= self.time_s < failure.until_s
        )
        gone = down - self._down
        self._down = down
        if gone & {self.workers[at].id for at in np.unique(self._wiring.host)}:
            self._counters.back(self._wiring)
            self._still_until_s = max(self._still_until_s, self.time_s + self.physics.restart_s)
            self.restarts += 1
            self._kept_at_s = self.time_s

    # The clock

    def step(self) -> None:
        """Let one step pass."""
        physics, step_s = self.physics, self.physics.step_s
        self._fail()
        if self.time_s == 0.0 or self.time_s - self._kept_at_s >= physics.checkpoint_s:
            self._keep()
        wiring, counters = self._wiring, self._counters
        counters.offer(self.rate(self.time_s + step_s / 2) * step_s, wiring)
        alive = np.array([worker.id not in self._down for worker in self.workers])
        processed = np.zeros(len(wiring.source))
        running = self.running
        if running:
            processed = wiring.flow(counters.waiting(wiring), counters.rows.queue, alive)
        sent = processed * wiring.out
        counters.move(processed, sent @ wiring.to, wiring, drops=physics.drops)
        self.trace.still_s.append(0.0 if running else step_s)
        self.time_s = round(self.time_s + step_s, 9)
        self._record(processed, sent, alive)

    def _record(self, processed: Float64s, sent: Float64s, alive: NDArray[np.bool_]) -> None:
        step_s, trace, wiring = self.physics.step_s, self.trace, self._wiring
        count = len(self._names)

        def by_operator(values: Float64s) -> Float64s:
            return np.bincount(wiring.op, weights=values, minlength=count).astype(np.float64)

        work = processed * wiring.cost / step_s
        busy = (wiring.by_worker(work) + self.physics.base_cpu_cores) / self._cores
        used = (wiring.memory_mb(processed) + self.physics.base_memory_mb) / self._memory
        self.worker_tuples += wiring.by_worker(processed)
        self.busy_s += by_operator(work) * step_s
        waiting = by_operator(self._counters.waiting(wiring))
        # What waits, over what gets through: Little's law, operator by operator.
        rates = np.maximum(by_operator(processed) / step_s, 1e-9)
        trace.time_s.append(self.time_s)
        trace.offered.append(self.offered)
        trace.done.append(self.done)
        trace.lost.append(self.lost)
        trace.backlog.append(self.backlog)
        trace.network_bytes.append(float(((sent * wiring.out_bytes)[:, None] * wiring.far).sum()))
        trace.delay_s.append(float(np.where(waiting > 1e-6, waiting / rates, 0.0).sum()) + step_s)
        trace.cpu.append(np.where(alive, np.minimum(busy, 1.0), 0.0))
        trace.memory.append(np.where(alive, np.minimum(used, 1.0), 0.0))
        trace.buffers.append(by_operator(self._counters.rows.queue) / by_operator(wiring.room))
        trace.parallelism.append(np.array([len(self._shares[n]) for n in self._names], float))

    def run(self, until_s: float) -> Trace:
        """Let steps pass until a time."""
        while self.time_s < until_s - 1e-9:
            self.step()
        return self.trace

    def run_records(self, records: float, *, at_most_s: float = 3600.0) -> Trace:
        """Let steps pass until that many records are done, or a time is over."""
        while self.done < records * (1 - 1e-9) and self.time_s < at_most_s - 1e-9:
            self.step()
        return self.trace

    # Counters, in records of the job

    def operator_counts(self, name: str) -> tuple[float, float, float, float]:
        """Records that an operator has read, processed, dropped, and that wait at it."""
        return self._counters.counts(name, self._wiring)

    @property
    def offered(self) -> float:
        """Records that came in."""
        return self._counters.offered

    @property
    def done(self) -> float:
        """Records that have left the job, each counted as the record that came in."""
        return self._counters.done(self._wiring)

    @property
    def lost(self) -> float:
        """Records that full buffers dropped, anywhere, each as the part of a record it was."""
        return self._counters.lost(self._wiring)

    @property
    def backlog(self) -> float:
        """Records that were offered and that no source has read."""
        return self._counters.backlog

    def _check(self) -> None:
        """Assert that no record is made or forgotten."""
        self._counters._check(self._wiring, drops=self.physics.drops)
