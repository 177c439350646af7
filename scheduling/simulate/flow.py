"""What one step lets through: CPU, network and room, vectorised over the tasks of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.errors import ArgumentError
from scheduling.model import Worker
from scheduling.simulate.jobs import Job

__all__ = ["Physics", "Wiring"]

Bools = NDArray[np.bool_]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

_ROUNDS = 4  # of dealing CPU out; more change nothing that shows
_MORE = 1.02  # a throttled task may request slightly more than its last throughput


@dataclass(frozen=True, kw_only=True)
class Physics:
    """What the papers do not say about their clusters, in one place.

    Args:
        step_s: length of a step.
        base_cpu_cores: what a host's own services take (Flink, Kafka, ZooKeeper, Hadoop).
        base_memory_mb: the same for memory.
        contention: the share of its work that a host loses at 100 % CPU. The loss begins at the
            worker's delta and grows linearly: "if this value is exceeded, there will be an impact
            on the performance of the node" (CETSA, section 5.1).
        drops: full buffers drop records (Storm without acknowledgement, as OERA counts losses)
            in place of holding up the senders (Flink).
        checkpoint_s: from checkpoint to checkpoint; a failure throws the job back to the last.
        restart_s: how long the job stands still after a failure.
        deploy_s: how long the job stands still at first.
    """

    step_s: float = 0.5
    base_cpu_cores: float = 0.8
    base_memory_mb: float = 2000.0
    contention: float = 0.2
    drops: bool = False
    checkpoint_s: float = 10.0
    restart_s: float = 10.0
    deploy_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.step_s > 0:
            raise ArgumentError(f"step_s={self.step_s!r}: give seconds, greater than 0")
        if not 0 <= self.contention < 1:
            raise ArgumentError(f"contention={self.contention!r}: give a share in [0, 1)")


class Wiring:
    """Tasks in one row: where each is, what it costs, who sends what to whom.

    Args:
        job: the job.
        workers: the hosts.
        shares: by operator, the share of its records that each instance gets.
        at: by operator, the position of each instance's worker.
        physics: the rest.

    ``span`` has the part of the row of each operator; ``to[i, j]`` the share of what task i emits
    that task j gets, ``far`` the same where the two are on different hosts; ``dealt`` the share of
    the job's records that a ``source`` task reads, 0 for others; ``cost`` the core seconds of a
    record.

    Complexity: O(tasks^2) to make, and a step.
    """

    def __init__(
        self,
        job: Job,
        workers: Sequence[Worker],
        shares: Mapping[str, Float64s],
        at: Mapping[str, Int64s],
        physics: Physics,
    ) -> None:
        self._physics = physics
        self._count = len(workers)
        self._cores = np.array([worker.capacity.cpu_cores for worker in workers])
        self._delta = np.array([worker.delta for worker in workers])
        self._bandwidth = np.array([worker.bandwidth_bytes_per_s for worker in workers])
        machines = np.unique([worker.host for worker in workers], return_inverse=True)[1]
        operators = job.operators
        names = [one.name for one in operators]
        sizes = [len(shares[name]) for name in names]
        starts = np.r_[0, np.cumsum(sizes)].tolist()
        self.span = {name: slice(starts[i], starts[i + 1]) for i, name in enumerate(names)}
        self.op = np.repeat(np.arange(len(names)), sizes)
        self.host = np.concatenate([at[name] for name in names])
        tasks = len(self.op)
        each = [operators[i] for i in self.op]
        self.room = np.array([one.room(sizes[i]) for i, one in zip(self.op, each, strict=True)])
        self.out = np.array([one.out for one in each])
        self.out_bytes = np.array([one.out_bytes for one in each])
        self.max_cores = np.array([one.max_cores for one in each])
        self._fixed_mb = np.array([one.memory_mb for one in each])
        self._mb_s = np.array([one.memory_mb_s for one in each])
        self.source = np.array([not one.inputs for one in each])
        self.dealt = np.zeros(tasks)
        self.to = np.zeros((tasks, tasks))
        self._feeds: list[tuple[slice, Int64s]] = []
        for one in operators:
            here = self.span[one.name]
            if not one.inputs:
                self.dealt[here] = one.share * shares[one.name]
                continue
            for name in one.inputs:
                self.to[self.span[name], here] = shares[one.name]
            feeding = [np.arange(self.span[n].start, self.span[n].stop) for n in one.inputs]
            self._feeds.insert(0, (here, np.concatenate(feeding)))
        where = machines[self.host]
        self.far = self.to * (where[:, None] != where[None, :])
        # A receiver's records come from its senders in proportion to what these send.
        weights = np.array([job.gains[one.name] for one in each]) * self.out
        sent = np.concatenate([shares[name] for name in names]) * weights
        coming = sent @ self.to
        in_far = np.divide(sent @ self.far, coming, out=np.zeros(tasks), where=coming > 0)
        remote = np.array([one.remote_cpu_s for one in each])
        self.cost = np.array([one.cpu_s for one in each]) + remote * (
            in_far + self.out * self.far.sum(axis=1)
        )

    def by_worker(self, values: Float64s) -> Float64s:
        """Sums of a row by worker."""
        return np.bincount(self.host, weights=values, minlength=self._count).astype(np.float64)

    def memory_mb(self, processed: Float64s) -> Float64s:
        """What each worker's tasks take, in MB."""
        return self.by_worker(self._fixed_mb + self._mb_s * processed / self._physics.step_s)

    def flow(self, waiting: Float64s, queue: Float64s, alive: Bools) -> Float64s:
        """How many records each task processes in a step: what CPU, network and room allow.

        Args:
            waiting: records that each task could take.
            queue: records in its buffer; 0 for sources.
            alive: by worker, whether it is there.
        """
        step_s = self._physics.step_s
        want: Float64s = np.minimum(waiting, self.max_cores / self.cost * step_s)
        want[~alive[self.host]] = 0.0
        done = want
        # A throttled task leaves its CPU to others on its host: distribute it again.
        for _ in range(_ROUNDS):
            granted = self._share_cpu(want)
            done = self._through_network(granted)
            if not self._physics.drops:
                done = self._hold_up(done, queue)
            want = np.where(done < granted * (1 - 1e-9), np.minimum(want, done * _MORE), want)
        return done

    def _share_cpu(self, want: Float64s) -> Float64s:
        """Deal each host's CPU out, the same to each task that wants it, none more than it wants.

        What a host does not get done above delta counts as contention.
        """
        physics = self._physics
        cores = want * self.cost / physics.step_s
        requested = self.by_worker(cores)
        supply = np.maximum(self._cores - physics.base_cpu_cores, 0.01)
        busy = np.minimum((requested + self._cores - supply) / self._cores, 1.0)
        over = np.maximum(busy - self._delta, 0.0) / np.maximum(1 - self._delta, 1e-9)
        # Max-min: who wants less than an equal part gets it all, and leaves more to the others.
        part = np.full(self._count, np.inf)
        tight = requested > supply
        for _ in range(_ROUNDS if tight.any() else 0):
            modest = cores <= part[self.host]
            modest &= np.isfinite(part)[self.host]
            taken, greedy = self.by_worker(cores * modest), self.by_worker(~modest * 1.0)
            part = np.where(tight, (supply - taken) / np.maximum(greedy, 1), np.inf)
        granted = np.minimum(cores, part[self.host])
        granted *= 1 - (physics.contention * over)[self.host]
        done: Float64s = granted * physics.step_s / self.cost
        return done

    def _through_network(self, want: Float64s) -> Float64s:
        """Cut what leaves a host, and what comes in, to its bandwidth."""
        volume = (want * self.out * self.out_bytes)[:, None] * self.far
        leaving, coming = self.by_worker(volume.sum(axis=1)), self.by_worker(volume.sum(axis=0))
        most = self._bandwidth * self._physics.step_s
        if (leaving <= most).all() and (coming <= most).all():
            return want
        lets_out = np.minimum(1.0, most / np.maximum(leaving, 1e-12))[self.host]
        lets_in = np.minimum(1.0, most / np.maximum(coming, 1e-12))[self.host]
        # A sender uses round robin: the slowest of its receivers limits all.
        slowest = np.where(volume > 0, lets_in[None, :], 1.0).min(axis=1)
        let: Float64s = want * np.minimum(lets_out, slowest)
        return let

    def _hold_up(self, want: Float64s, queue: Float64s) -> Float64s:
        """Cut what would not fit the buffers downstream, from the sinks to the sources."""
        want = want.copy()
        for here, senders in self._feeds:
            room = self.room[here] - queue[here] + want[here]
            coming = (want[senders] * self.out[senders]) @ self.to[senders, here]
            fits = np.maximum(room, 0.0) / np.maximum(coming, 1e-12)
            want[senders] *= min(1.0, float(fits.min()))
        return want
