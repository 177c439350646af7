"""Late rows of Kafka whose job is killed: where each of them is, and what was sent twice.

    PYTHONPATH=. python tests/kafka_route_kills.py [--kills 3] [--real-time]

A process runs the two queries of :func:`bsjoin.kafka.route` and gets SIGKILL while both have sent a
part of a micro-batch: one reads the stream, the other one the retry topic. Records flow while it
runs. Each next process has another issue of the table and knows one key more, and one key is never
known. A header tells of each record from which one it was made: the last of them, from which one at
once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sessions
from kafka_kills import Killed, topic
from pyspark.sql import functions as F  # noqa: N812
from real_time_queries import SHORT_BATCHES

import bsjoin
from examples import _kafka

QUERIES = ("first", "again")
KNOWN, KEYS = 10, 14
"""How many keys the first table has, and the stream: one more than the last table, of issue 4."""
PLACES = ("enriched", "retry", "dead")

Source = tuple[str, int, int]
"""The topic that a record was read from, its partition and offset."""
Sent = tuple[str, bytes, bytes, tuple[tuple[str, bytes], ...]]
"""A record that was made of it: topic, key, value and headers."""


@dataclass
class Found:
    """What was made of each record, with all copies, of the stream and of the retry topic.

    Args:
        made: by the record that it was made of.
        ends: how many records a partition of the topics that are read has.
    """

    made: dict[Source, list[Sent]] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, name: str) -> dict[Source, list[Sent]]:
        """Those of a topic, by the name that it has in this job."""
        return {one: made for one, made in self.made.items() if one[0] == name}

    def twice(self, name: str) -> int:
        """Of how many records more than one was made."""
        return sum(len(made) > 1 for made in self.of(name).values())

    def differing(self, name: str) -> int:
        """Of how many of them there are such that differ, by their place or their content."""
        return sum(len(set(made)) > 1 for made in self.of(name).values())

    def lost(self) -> list[Source]:
        """Records of which nothing was made."""
        every = ((*place, at) for place, end in self.ends.items() for at in range(end))
        return [source for source in every if source not in self.made]

    def places(self) -> dict[bytes, set[str]]:
        """Where each row of the stream has come to, by its number, which its key ends with."""
        found: dict[bytes, set[str]] = defaultdict(set)
        for made in self.made.values():
            for place, key, *_ in made:
                if place != "retry":
                    found[key].add(place)
        return found


def job(address: str, folder: Path, issue: int, *, real_time: bool) -> None:
    """Run both queries until the process is killed."""
    jars = ",".join(map(str, Path(os.environ["KAFKA_CONNECTOR"]).glob("*.jar")))
    settings = {**sessions.INTERPRETED, **SHORT_BATCHES, "spark.jars": jars}
    spark = sessions.session("local[4]", settings)
    known = KNOWN + issue - 1
    names = spark.range(known).selectExpr("id", f"concat('name ', id, ' of {issue}') AS name")
    table = bsjoin.BatchTable.build(names, on="id", path=folder / "table")
    kafka = {"kafka.bootstrap.servers": address, "includeHeaders": "true"}
    # It takes its time, so that a kill finds a part of a micro-batch sent.
    slowly = "left(reflect('java.lang.Thread', 'sleep', 4L), 0)"
    via = f"CAST(concat_ws(' ', topic, partition, offset, {slowly}) AS BINARY)"
    empty = "CAST(array() AS array<struct<key: string, value: binary>>)"
    for query, read in zip(QUERIES, ("asked", "retry"), strict=True):
        options = {"subscribe": topic(read, folder), "startingOffsets": "earliest"}
        rows = spark.readStream.format("kafka").options(**kafka, **options)
        rows = rows.option("maxOffsetsPerTrigger", "200") if not real_time else rows
        keyed = rows.load().withColumns(
            {
                "id": F.expr("CAST(split_part(CAST(key AS STRING), ' ', 1) AS BIGINT)"),
                "headers": F.expr(
                    f"concat(coalesce(headers, {empty}),"
                    f" array(named_struct('key', 'via', 'value', {via})))"
                ),
            }
        )
        routed = bsjoin.kafka.route(
            table.join(keyed, how="left", indicator="found"),
            value="name",
            patience="3 seconds",
            **{
                name: topic(place, folder)
                for name, place in zip(("topic", "retry", "dead"), PLACES, strict=True)
            },
        )
        sink = routed.writeStream.format("kafka").options(**kafka)
        sink = sink.option("checkpointLocation", str(folder / query))
        if query == "first" and real_time:
            sink.outputMode("update").trigger(realTime="3 seconds").start()
        else:
            sink.start()
    spark.streams.awaitAnyTermination()


def run(
    address: str, connector: Path, folder: Path, kills: int, *, real_time: bool = False
) -> Found:
    """Run the job, and kill it so many times; the first query may be in real-time mode."""
    _kafka.create(address, {topic(place, folder): 1 for place in PLACES})
    program = (__file__, "--real-time" if real_time else "--micro-batches", "--job")
    job = Killed(address, connector, folder, program, QUERIES, QUERIES[:1])

    def record(number: int) -> dict[str, Any]:
        return {"key": f"{number % KEYS} {number}", "value": "as it came"}

    found = Found()
    job.killed(record, kills, lambda: _is_in_the_midst(job, real_time), lambda: _read(job, found))
    return found


def _is_in_the_midst(job: Killed, real_time: bool) -> bool:
    """Whether both queries have sent a part of a micro-batch, as far as one can see.

    A query in real-time mode notes a batch when it ends.
    """
    watched = QUERIES[1:] if real_time else QUERIES

    def state() -> list[int]:
        within = [job.batches(one, "offsets") for one in watched if job.is_within_a_batch(one)]
        sent = [_kafka.count(job.address, topic(place, job.folder)) for place in PLACES[:2]]
        return [*within, *sent]

    before = state()
    time.sleep(0.1)
    after = state()
    number = len(watched)
    return (
        len(before) == len(after) == number + 2
        and before[:number] == after[:number]
        and all(old < new for old, new in zip(before[number:], after[number:], strict=True))
    )


def _read(job: Killed, found: Found) -> bool:
    """Read what has come; whether something has come of each record."""
    found.made = defaultdict(list)
    for source, sent in _sent(job):
        found.made[source].append(sent)
    partitions = {("asked", 0), ("asked", 1), ("retry", 0)}
    found.ends = dict.fromkeys(partitions, 0)
    for name in ("asked", "retry"):
        for message in _kafka.read(job.address, topic(name, job.folder)):
            place = name, message.partition()
            found.ends[place] = max(found.ends[place], message.offset() + 1)
    return not found.lost()


def _sent(job: Killed) -> Iterator[tuple[Source, Sent]]:
    names = {topic(name, job.folder): name for name in ("asked", *PLACES)}
    for place in PLACES:
        for message in _kafka.read(job.address, topic(place, job.folder)):
            headers = tuple(message.headers())
            via = [value for name, value in headers if name == "via"][-1].decode().split()
            source = names[via[0]], int(via[1]), int(via[2])
            yield source, (place, message.key(), message.value(), headers)


def main() -> None:
    """Print what was sent twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=3)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--real-time", action="store_true", help="the first query is in that mode")
    mode.add_argument("--micro-batches", action="store_true", help="it is not; the default")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        address, folder, issue = options.job
        return job(address, Path(folder), int(issue), real_time=options.real_time)
    with _kafka.broker() as address, tempfile.TemporaryDirectory() as folder:
        connector = _kafka.connector_jars()
        found = run(address, connector, Path(folder), options.kills, real_time=options.real_time)
    print(f"{len(found.of('asked')):,} records, {options.kills} times SIGKILL")
    for name in ("asked", "retry"):
        twice, other = found.twice(name), found.differing(name)
        print(f"  {name}: of {twice:,} more than one record was made, of {other:,} others")
    both = sum(len(one) > 1 for one in found.places().values())
    print(f"  {both:,} rows are found and among the dead letters, too")


if __name__ == "__main__":
    main()
