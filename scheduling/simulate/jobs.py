"""Jobs that the simulator runs: operators, the streams between them, and their demands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduling.errors import ArgumentError
from scheduling.model import Edge, JobGraph, Task
from scheduling.simulate.skew import key_shares

__all__ = ["Job", "Operator", "demands", "task_id"]

Float64s = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator of a job.

    Args:
        name: unique in the job.
        inputs: the operators that feed it; none makes it a source.
        parallelism: its instances.
        cpu_s: core seconds that a record takes.
        remote_cpu_s: core seconds more for a record that comes over the network, on the side of
            the receiver, and for one that leaves over it, on the side of the sender.
        out: records that it emits for each one it reads.
        out_bytes: bytes of a record that it emits.
        max_cores: cores that one instance can use.
        memory_mb: of an instance, independent of its load.
        memory_mb_s: MB more per record a second (Eq. 21).
        buffer: records that wait at most, in all instances together.
        buffer_per_task: ``buffer`` is for one instance and grows with the parallelism.
        keys: the number of keys; 0: records are distributed evenly.
        exponent: how skewed the keys are.
        state_bytes: of the operator.
        share: of the job's records that this source reads; sources only.
    """

    name: str
    inputs: tuple[str, ...] = ()
    parallelism: int
    cpu_s: float
    remote_cpu_s: float = 0.0
    out: float = 1.0
    out_bytes: float = 100.0
    max_cores: float = 1.0
    memory_mb: float = 256.0
    memory_mb_s: float = 0.0
    buffer: float = 50_000.0
    buffer_per_task: bool = False
    keys: int = 0
    exponent: float = 0.0
    state_bytes: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.parallelism < 1:
            raise ArgumentError(
                f"parallelism={self.parallelism!r} of {self.name!r}: give 1 or more"
            )
        if not (self.cpu_s > 0 and self.max_cores > 0 and self.buffer > 0):
            raise ArgumentError(
                f"cpu_s, max_cores and buffer of {self.name!r} are {self.cpu_s!r}, "
                f"{self.max_cores!r} and {self.buffer!r}: give numbers greater than 0"
            )

    def shares(self, parallelism: int, seed: int) -> Float64s:
        """The share of the operator's records that each of its instances gets: float64[n]."""
        if not self.keys:
            return np.full(parallelism, 1 / parallelism)
        return key_shares(parallelism, keys=self.keys, exponent=self.exponent, seed=seed)

    def room(self, parallelism: int) -> float:
        """Records that one instance's buffer holds."""
        return self.buffer if self.buffer_per_task else self.buffer / parallelism


@dataclass(frozen=True)
class Job:
    """Operators in topological order: each follows its inputs.

    Raises:
        ArgumentError: an operator is there twice or stands before one of its inputs, or the
            sources' shares do not sum to 1.
    """

    name: str
    operators: tuple[Operator, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for operator in self.operators:
            if operator.name in seen:
                raise ArgumentError(f"the operator {operator.name!r} is there twice; rename one")
            for name in operator.inputs:
                if name not in seen:
                    raise ArgumentError(
                        f"{operator.name!r} reads {name!r}, which does not stand before it; give "
                        "the operators in topological order"
                    )
            seen.add(operator.name)
        total = sum(one.share for one in self.operators if not one.inputs)
        if abs(total - 1) > 1e-9:
            raise ArgumentError(f"the shares of the sources sum to {total!r}; they must sum to 1")

    @cached_property
    def by_name(self) -> dict[str, Operator]:
        """The operators by their names."""
        return {one.name: one for one in self.operators}

    @cached_property
    def gains(self) -> dict[str, float]:
        """Records that each operator reads for one record of the job."""
        found: dict[str, float] = {}
        for one in self.operators:
            found[one.name] = (
                sum(found[name] * self.by_name[name].out for name in one.inputs)
                if one.inputs
                else one.share
            )
        return found

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """The operators that feed no other."""
        read = {name for one in self.operators for name in one.inputs}
        return tuple(one.name for one in self.operators if one.name not in read)

    def resized(self, parallelism: Mapping[str, int]) -> Job:
        """The job with other numbers of instances; operators that are not named keep theirs."""
        return replace(
            self,
            operators=tuple(
                replace(one, parallelism=parallelism.get(one.name, one.parallelism))
                for one in self.operators
            ),
        )


def task_id(operator: str, index: int) -> str:
    """The id of an instance of an operator, as in ``count-3``."""
    return f"{operator}-{index}"


def demands(
    job: Job, records_per_s: float, shares: Mapping[str, Float64s] | None = None
) -> JobGraph:
    """The job as tasks with the demands they have at a rate (Eqs. 20 and 21), and their streams.

    Args:
        job: the job.
        records_per_s: what comes in.
        shares: by operator, the share of its records that each instance gets; the keys' unless
            given.

    Returns:
        The tasks, operator by operator. An instance demands at most ``max_cores``, since it can
        use no more. Each stream between two tasks carries the sender's bytes times the
        receiver's share.

    Complexity: O(tasks²).

    Example:
        >>> from scheduling.simulate.workloads import wordcount
        >>> graph = demands(wordcount(), 60_000)
        >>> len(graph.tasks)
        20
    """
    tasks, edges = [], []
    dealt = {
        one.name: one.shares(one.parallelism, job.seed) if shares is None else shares[one.name]
        for one in job.operators
    }
    for one in job.operators:
        for index, share in enumerate(dealt[one.name].tolist()):
            rate = records_per_s * job.gains[one.name] * share
            needed = Task.demanding(rate, one.cpu_s, one.memory_mb_s)
            needed = replace(
                needed,
                cpu_cores=min(needed.cpu_cores, one.max_cores),
                memory_mb=needed.memory_mb + one.memory_mb,
            )
            tasks.append(
                Task(
                    task_id(one.name, index),
                    one.name,
                    index,
                    needed,
                    rate_in_per_s=rate,
                    state_bytes=one.state_bytes * share,
                )
            )
            for name in one.inputs:
                feeder = job.by_name[name]
                sent = records_per_s * job.gains[name] * feeder.out * feeder.out_bytes * share
                edges += [
                    Edge(task_id(name, at), task_id(one.name, index), sent * part)
                    for at, part in enumerate(dealt[name].tolist())
                ]
    return JobGraph(tuple(tasks), tuple(edges))
