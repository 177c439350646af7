"""A job of Kafka that is killed in mid-stream: what it sends twice, beside Spark's own join.

    PYTHONPATH=. python tests/kafka_kills.py [--kills 3]

A process joins the records of a topic by two queries, with a stored table and with the same rows as
Spark itself reads them, and gets SIGKILL while both have sent a part of a micro-batch. Records flow
while it runs. Each next process begins with another issue of the table. What has come is compared
by the partition and offset of its source.
"""

from __future__ import annotations

import argparse
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

Source = tuple[int, int]
"""Partition and offset of a record of the stream."""


@dataclass
class Found:
    """What came of each record, by the query that sent it.

    Args:
        sent: how many records the stream had.
        values: of each record the values that were sent for it.
    """

    sent: int
    values: dict[str, dict[Source, list[str]]] = field(default_factory=dict)

    def twice(self, way: str) -> int:
        """How many records were sent more than once."""
        return sum(len(some) > 1 for some in self.values[way].values())

    def differing(self, way: str) -> int:
        """How many of them were sent with different content."""
        return sum(len(set(some)) > 1 for some in self.values[way].values())


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


def run(address: str, connector: Path, folder: Path, kills: int) -> Found:
    """Run the job, kill it so many times, and let it end its work.

    Args:
        address: of the broker.
        connector: the folder with the jars of Spark's connector.
        folder: of this run.
        kills: how many.
    """
    _kafka.create(address, {topic("asked", folder): 2} | {topic(way, folder): 1 for way in WAYS})
    done, found = threading.Event(), Found(0)

    def flow() -> None:
        while not done.wait(0.05):
            if found.sent - min(_kafka.count(address, topic(way, folder)) for way in WAYS) > _AHEAD:
                continue  # the job begins, or its machine is busy
            found.sent += _kafka.send(
                address,
                topic("asked", folder),
                lambda number: {"key": str(number % KEYS), "value": b""},
                _RATE,
                0.5,
            )

    flowing = threading.Thread(target=flow)
    flowing.start()
    try:
        for issue in range(1, kills + 1):
            with _running(address, connector, folder, issue) as process:
                _wait(process, folder, lambda: _is_in_the_midst(address, folder), *_least(folder))
        with _running(address, connector, folder, kills + 1) as process:
            _wait(process, folder, lambda: True, *_least(folder))
            done.set()
            flowing.join()
            _wait(process, folder, lambda: _has_all(address, folder, found))
    finally:
        done.set()
        flowing.join()
    return found


@contextmanager
def _running(
    address: str, connector: Path, folder: Path, issue: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the job, which is killed in the end with all that it has started."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "--job", address, str(folder), str(issue)],
            env=checks_apart.environment() | {"KAFKA_CONNECTOR": str(connector)},
            cwd=folder,
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


def _batches(folder: Path, way: str, kind: str) -> int:
    """The number of the last micro-batch that a query has begun or ended; -1 without one."""
    return max((int(one.name) for one in (folder / way / kind).glob("[0-9]*")), default=-1)


def _least(folder: Path) -> tuple[int, ...]:
    """How far the queries must come: one micro-batch is a replay, and one has the new table."""
    return tuple(_batches(folder, way, "offsets") + 2 for way in WAYS)


def _is_in_the_midst(address: str, folder: Path) -> bool:
    """Whether each query has sent a part of a micro-batch that it has not noted as done."""

    def state(way: str) -> tuple[int, bool, int]:
        begun, ended = (_batches(folder, way, kind) for kind in ("offsets", "commits"))
        return begun, begun > ended, _kafka.count(address, topic(way, folder))

    before = [state(way) for way in WAYS]
    time.sleep(0.1)
    after = [state(way) for way in WAYS]
    return all(
        old[:2] == new[:2] and new[1] and new[2] > old[2]
        for old, new in zip(before, after, strict=True)
    )


def _has_all(address: str, folder: Path, found: Found) -> bool:
    """Read what has come; whether something has come of each record."""
    for way in WAYS:
        values: dict[Source, list[str]] = defaultdict(list)
        for message in _kafka.read(address, topic(way, folder)):
            value = json.loads(message.value())
            values[value["partition"], value["offset"]].append(json.dumps(value, sort_keys=True))
        found.values[way] = dict(values)
    return all(len(some) >= found.sent for some in found.values.values())


def _wait(
    process: subprocess.Popen[bytes], folder: Path, holds: Callable[[], bool], *least: int
) -> None:
    """Wait until the queries have come so far, and something holds."""
    until = time.monotonic() + _LIMIT_S
    while True:
        so_far = [_batches(folder, way, "offsets") for way in WAYS]
        if all(now >= wanted for now, wanted in zip(so_far, least, strict=False)) and holds():
            return
        if process.poll() is not None or time.monotonic() > until:
            log = (folder / "log").read_text("utf-8", "replace")[-4_000:]
            raise AssertionError(f"the job, at micro-batches {so_far}: {log}")
        time.sleep(0.02)


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
