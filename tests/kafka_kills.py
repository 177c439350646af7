"""A job of Kafka that is killed in mid-stream: what it sends twice, beside Spark's own join.

    PYTHONPATH=. python tests/kafka_kills.py [--kills 3]

A process joins the records of a topic by two queries, with a stored table and with the same rows as
Spark itself reads them, and gets SIGKILL while both have sent a part of a micro-batch. Records flow
while it runs. Each next process begins with another issue of the table. What has come is compared
by the partition and offset of its source.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checks_apart
import sessions

import bsjoin
from examples import _kafka

WAYS = ("ours", "theirs")
KNOWN, KEYS = 10, 11
"""The table's rows, and how many keys the stream has."""
_RATE, _BATCH, _AHEAD = 200, 200, 600
"""Records a second, at most in a micro-batch, and so many at most that wait."""
_LIMIT_S = 180.0  # of each wait, on a busy machine

Source = tuple[str, int, int]
"""The query that sent a record, or the topic that it was read from; its partition and offset."""


@dataclass
class Found:
    """What was made of each record, with all copies.

    Args:
        made: by the record that it was made of.
        sent: how many records the stream had.
    """

    made: dict[Source, list[Any]] = field(default_factory=dict)
    sent: int = 0

    def of(self, name: str) -> dict[Source, list[Any]]:
        """Those of a query, or of a topic, by the name that it has in this job."""
        return {one: made for one, made in self.made.items() if one[0] == name}

    def twice(self, name: str) -> int:
        """Of how many records more than one was made."""
        return sum(len(made) > 1 for made in self.of(name).values())

    def differing(self, name: str) -> int:
        """Of how many of them there are such that differ, by their place or their content."""
        return sum(len(set(made)) > 1 for made in self.of(name).values())


def job(address: str, folder: Path, issue: int) -> None:
    """Run both queries until the process is killed."""
    jars = ",".join(map(str, Path(os.environ["KAFKA_CONNECTOR"]).glob("*.jar")))
    spark = sessions.session("local[4]", {**sessions.INTERPRETED, "spark.jars": jars})
    names = spark.range(KNOWN).selectExpr("id", f"concat('name ', id, ' of {issue}') AS name")
    names.write.mode("overwrite").parquet(str(folder / "parquet"))
    table = bsjoin.BatchTable.build(names, on="id", path=folder / "table")
    kafka = {"kafka.bootstrap.servers": address}
    for way in WAYS:
        read = spark.readStream.format("kafka").options(**kafka, subscribe=topic("asked", folder))
        read = read.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(_BATCH))
        keyed = read.load().selectExpr("partition", "offset", "bigint(CAST(key AS STRING)) AS id")
        if way == "ours":
            joined = table.join(keyed, how="left")
        else:
            joined = keyed.join(spark.read.parquet(str(folder / "parquet")), "id", "left")
        # It takes its time, so that a kill finds a part of a micro-batch sent.
        slowly = "reflect('java.lang.Thread', 'sleep', 4L) AS slept"
        sent = joined.selectExpr(f"to_json(struct(partition, offset, id, name, {slowly})) AS value")
        sink = sent.writeStream.format("kafka").options(**kafka, topic=topic(way, folder))
        sink.option("checkpointLocation", str(folder / way)).start()
    spark.streams.awaitAnyTermination()


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
                    functools.partial(_shifted, record, before),
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


def _shifted(record: Callable[[int], dict[str, Any]], first: int, number: int) -> dict[str, Any]:
    return record(first + number)


def run(address: str, connector: Path, folder: Path, kills: int) -> Found:
    """Run the job over a broker with the jars of a folder, and kill it so many times."""
    _kafka.create(address, {topic(way, folder): 1 for way in WAYS})
    job = Killed(address, connector, folder, (__file__, "--job"), WAYS, WAYS)
    found = Found()
    job.killed(
        lambda number: {"key": str(number % KEYS), "value": b""},
        kills,
        lambda: _is_in_the_midst(job),
        lambda: _has_all(job, found),
    )
    return found


def _is_in_the_midst(job: Killed) -> bool:
    """Whether each query has sent a part of a micro-batch that it has not noted as done."""

    def state(way: str) -> tuple[int, bool, int]:
        sent = _kafka.count(job.address, topic(way, job.folder))
        return job.batches(way, "offsets"), job.is_within_a_batch(way), sent

    before = [state(way) for way in WAYS]
    time.sleep(0.1)
    after = [state(way) for way in WAYS]
    return all(
        old[:2] == new[:2] and new[1] and new[2] > old[2]
        for old, new in zip(before, after, strict=True)
    )


def _has_all(job: Killed, found: Found) -> bool:
    """Read what has come; whether something has come of each record."""
    found.made, found.sent = defaultdict(list), job.sent
    for way in WAYS:
        for message in _kafka.read(job.address, topic(way, job.folder)):
            value = json.loads(message.value())
            source = way, value["partition"], value["offset"]
            found.made[source].append(json.dumps(value, sort_keys=True))
    return all(len(found.of(way)) >= found.sent for way in WAYS)


def main() -> None:
    """Print what was sent twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        address, folder, issue = options.job
        return job(address, Path(folder), int(issue))
    with _kafka.broker() as address, tempfile.TemporaryDirectory() as folder:
        found = run(address, _kafka.connector_jars(), Path(folder), options.kills)
    print(f"{found.sent:,} records, {options.kills} times SIGKILL")
    for way, name in zip(WAYS, ("with bsjoin", "with Spark's own join"), strict=True):
        twice, other = found.twice(way), found.differing(way)
        print(f"  {name}: {twice:,} were sent twice, {other:,} of them with other content")


if __name__ == "__main__":
    main()
