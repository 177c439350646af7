"""A job of Kafka that is killed in mid-stream and begun again, while records flow.

What has come is told by the partition and offset of its source.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checks_apart

from examples import _kafka

_RATE, _AHEAD = 200, 600
"""Records a second, and so many at most that wait."""
_LIMIT_S = 180.0  # of each wait, on a busy machine


def topic(name: str, folder: Path) -> str:
    """A topic of this run."""
    return f"{name}-{folder.name}"


@dataclass
class Killed:
    """A job that is killed and begun again, and the records that flow meanwhile.

    Args:
        address: of the broker.
        connector: the folder with the jars of Spark's connector.
        folder: of this run.
        program: what runs the job: its file, and words before address, folder and issue.
        queries: by which it is known how far the job is: the folders of their checkpoints.
        readers: those of them that read the stream.
        sent: how many records the stream had so far.
    """

    address: str
    connector: Path
    folder: Path
    program: tuple[str, ...]
    queries: tuple[str, ...]
    readers: tuple[str, ...]
    sent: int = 0

    @contextmanager
    def flowing(self, record: Callable[[int], dict[str, Any]]) -> Iterator[Callable[[], None]]:
        """Records flow to the topic ``asked`` until the end, or until what is yielded is called."""
        done = threading.Event()
        _kafka.create(self.address, {topic("asked", self.folder): 2})

        def flow() -> None:
            while not done.wait(0.05):
                before = self.sent
                if before - min(map(self._done, self.readers)) > _AHEAD:
                    continue  # the job begins, or its machine is busy
                self.sent += _kafka.send(
                    self.address,
                    topic("asked", self.folder),
                    lambda number, before=before: record(before + number),
                    _RATE,
                    0.5,
                )

        flows = threading.Thread(target=flow)
        flows.start()

        def end() -> None:
            done.set()
            flows.join()

        try:
            yield end
        finally:
            end()

    @contextmanager
    def running(self, issue: int) -> Iterator[subprocess.Popen[bytes]]:
        """A process of the job, which is killed in the end with all that it has started."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *self.program, self.address, str(self.folder), str(issue)],
                env=checks_apart.environment() | {"KAFKA_CONNECTOR": str(self.connector)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def killed(
        self,
        record: Callable[[int], dict[str, Any]],
        kills: int,
        is_in_the_midst: Callable[[], bool],
        has_all: Callable[[], bool],
    ) -> None:
        """Run the job, kill it in the midst so many times, and let it end its work."""
        with self.flowing(record) as end:
            for issue in range(1, kills + 1):
                with self.running(issue) as process:
                    self.wait(process, is_in_the_midst, *self.further())
            with self.running(kills + 1) as process:
                self.wait(process, lambda: True, *self.further())
                end()
                self.wait(process, has_all)

    def batches(self, query: str, kind: str) -> int:
        """The number of the last micro-batch that a query has begun or ended; -1 without one."""
        begun = (self.folder / query / kind).glob("[0-9]*")
        return max((int(one.name) for one in begun), default=-1)

    def is_within_a_batch(self, query: str) -> bool:
        """Whether a query has begun a micro-batch that it has not noted as done."""
        return self.batches(query, "offsets") > self.batches(query, "commits")

    def further(self, batches: int = 2) -> tuple[int, ...]:
        """Those numbers, so much further: one micro-batch is a replay, one has the new table."""
        return tuple(self.batches(query, "offsets") + batches for query in self.queries)

    def wait(
        self, process: subprocess.Popen[bytes], holds: Callable[[], bool], *least: int
    ) -> None:
        """Wait until the queries have come so far, and something holds."""
        until = time.monotonic() + _LIMIT_S
        while True:
            so_far = [self.batches(query, "offsets") for query in self.queries]
            if all(now >= wanted for now, wanted in zip(so_far, least, strict=False)) and holds():
                return
            if process.poll() is not None or time.monotonic() > until:
                log = (self.folder / "log").read_text("utf-8", "replace")[-4_000:]
                raise AssertionError(f"the job, at micro-batches {so_far}: {log}")
            time.sleep(0.02)

    def _done(self, query: str) -> int:
        """How many records of the stream are in a micro-batch of a query that has begun."""
        last = self.folder / query / "offsets" / str(self.batches(query, "offsets"))
        if not last.exists():
            return 0
        line = last.read_text("utf-8").splitlines()[-1]
        found = json.loads(line) if line.startswith("{") else {}
        return sum(found.get(topic("asked", self.folder), {}).values())
