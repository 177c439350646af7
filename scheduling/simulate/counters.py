"""Record counters of a simulation: what each task read, processed and dropped, and its backlog."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from scheduling.simulate.flow import Wiring
from scheduling.simulate.jobs import Job

__all__ = ["RecordCounters"]

Float64s = NDArray[np.float64]


@dataclass
class _Rows:
    """By task: the records that wait, at sources not read yet; the counters."""

    queue: Float64s
    backlog: Float64s
    read: Float64s
    processed: Float64s
    dropped: Float64s

    def copy(self) -> _Rows:
        return _Rows(*(getattr(self, one.name).copy() for one in fields(self)))


class RecordCounters:
    """Records of a job, task by task, from the start of a simulation.

    Args:
        job: the job.
        tasks: how many there are at first.

    ``offered`` counts the records of the job that came in; ``rows`` has a number for each task.
    """

    def __init__(self, job: Job, tasks: int) -> None:
        self._job = job
        self._names = [one.name for one in job.operators]
        self._sources = [one.name for one in job.operators if not one.inputs]
        self.rows = _Rows(*(np.zeros(tasks) for _ in fields(_Rows)))
        self.offered = 0.0
        # Counters of tasks that a change of the parallelism has ended, by operator.
        self._ended = np.zeros((3, len(self._names)))
        self._carried_over = np.zeros(tasks)
        self.keep()

    # A step

    def offer(self, records: float, wiring: Wiring) -> None:
        """Records come in, and wait at the sources."""
        self.offered += records
        self.rows.backlog += records * wiring.dealt

    def waiting(self, wiring: Wiring) -> Float64s:
        """What each task could process: what came in at sources, what was sent to others."""
        return np.where(wiring.source, self.rows.backlog, self.rows.queue)

    def move(self, processed: Float64s, arriving: Float64s, wiring: Wiring, *, drops: bool) -> None:
        """Tasks have processed records, and others arrive; full buffers drop what is over."""
        rows, source = self.rows, wiring.source
        rows.backlog = np.maximum(rows.backlog - np.where(source, processed, 0.0), 0.0)
        rows.queue += np.where(source, 0.0, arriving - processed)
        rows.read += np.where(source, processed, arriving)
        rows.processed += processed
        if drops:
            over = np.maximum(rows.queue - wiring.room, 0.0)
            rows.queue -= over
            rows.dropped += over
        np.maximum(rows.queue, 0.0, out=rows.queue)

    # Changes and failures

    def deal(
        self, changed: Collection[str], shares: Mapping[str, Float64s], before: Wiring
    ) -> None:
        """Deal what waits at operators that changed out to their new instances."""
        parts: list[list[Float64s]] = [[], [], [], [], []]
        rows = [getattr(self.rows, one.name) for one in fields(self.rows)]
        for at, name in enumerate(self._names):
            here = before.span[name]
            for part, row in zip(parts, rows, strict=True):
                part.append(row[here])
            if name in changed:
                for which in (0, 1):
                    parts[which][-1] = rows[which][here].sum() * shares[name]
                # What was read is put down to the ended ones, but for what still waits.
                waits = parts[0][-1]
                self._ended[:, at] += [
                    self.rows.read[here].sum() - waits.sum(),
                    self.rows.processed[here].sum(),
                    self.rows.dropped[here].sum(),
                ]
                parts[2][-1] = waits.copy()
                parts[3][-1] = np.zeros(len(shares[name]))
                parts[4][-1] = np.zeros(len(shares[name]))
        self.rows = _Rows(*(np.concatenate(part) for part in parts))
        # A smaller buffer may get more than it holds; nothing arrives until that is processed.
        self._carried_over = self.rows.queue.copy()

    def keep(self) -> None:
        """A checkpoint."""
        self._kept, self._kept_offered = self.rows.copy(), self.offered

    def back(self, wiring: Wiring) -> None:
        """Back to the checkpoint; what was offered since is read again."""
        self.rows = self._kept.copy()
        self.rows.backlog += (self.offered - self._kept_offered) * wiring.dealt
        self.keep()

    # Counters

    def counts(self, name: str, wiring: Wiring) -> tuple[float, float, float, float]:
        """Records that an operator has read, processed, dropped, and that wait at it."""
        at, here = self._names.index(name), wiring.span[name]
        waits = 0.0 if name in self._sources else float(self.rows.queue[here].sum())
        return (
            float(self.rows.read[here].sum() + self._ended[0, at]),
            float(self.rows.processed[here].sum() + self._ended[1, at]),
            float(self.rows.dropped[here].sum() + self._ended[2, at]),
            waits,
        )

    def done(self, wiring: Wiring) -> float:
        """Records that have left the job, each counted as the record that came in."""
        job = self._job
        gains = sum(job.gains[name] for name in job.sinks)
        return sum(self.counts(name, wiring)[1] for name in job.sinks) / gains

    def lost(self, wiring: Wiring) -> float:
        """Records that full buffers dropped, anywhere, each as the part of a record it was."""
        return sum(self.counts(name, wiring)[2] / self._job.gains[name] for name in self._names)

    @property
    def backlog(self) -> float:
        """Records that were offered and that no source has read."""
        return float(self.rows.backlog.sum())

    def _check(self, wiring: Wiring, *, drops: bool) -> None:
        """Assert that no record is made or forgotten: offered, read, processed, waiting agree."""
        read = sum(self.counts(name, wiring)[0] for name in self._sources)
        assert abs(self.offered - read - self.backlog) <= 1e-6 * max(self.offered, 1.0), "sources"
        for one in self._job.operators:
            got, processed, dropped, waits = self.counts(one.name, wiring)
            assert abs(got - processed - dropped - waits) <= 1e-6 * max(got, 1.0), one.name
            sent = sum(
                self.counts(name, wiring)[1] * self._job.by_name[name].out for name in one.inputs
            )
            if one.inputs:
                assert abs(sent - got) <= 1e-6 * max(got, 1.0), one.name
        assert (self.rows.queue >= 0).all()
        room = np.maximum(wiring.room, self._carried_over)
        assert drops or (self.rows.queue <= room * (1 + 1e-6)).all(), "room"
