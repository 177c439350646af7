"""A broker of Apache Kafka on this machine, for programs that need one, and a client's calls.

The jars of the broker and of Spark's connector come from Maven, once. A folder is a broker's own,
with its data, its log and its settings.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import __version__ as pyspark_version

if __package__:
    from examples import _maven
else:  # of a program in this folder
    import _maven

APPENDED = {"message.timestamp.type": "LogAppendTime"}
"""The configuration of a topic whose records have the time at which the broker appended them."""

# Without a binding of slf4j the broker would not tell that it has started.
_BROKER = ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-simple:1.7.36")
# Of Spark's own version, or the newest that can be had, which serves the next Spark, too.
_VERSION = "4.1.1" if pyspark_version.startswith("4.1.") else "4.2.0"
_CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_VERSION}",
    f"org.apache.spark:spark-avro_2.13:{_VERSION}",
)
_OF_CONNECTOR = (
    "spark-avro_2.13",
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
_START_S, _STOP_S, _CLIENT_S = 60, 20, 30
_SMALL = ("-Xmx256m", "-XX:TieredStopAtLevel=1")


class MissingError(Exception):
    """What this machine lacks, as a sentence."""


def broker_jars() -> Path:
    """The folder with the broker's jars.

    Raises:
        MissingError: there is no Maven to fetch them.
    """
    return _needed(_maven.jars(_BROKER), "Kafka")


def connector_jars() -> Path:
    """The folder with the jars that Spark needs for Kafka and Avro.

    Raises:
        MissingError: there is no Maven to fetch them.
    """
    return _needed(_maven.jars(_CONNECTOR, only=_OF_CONNECTOR), "Spark's connector for Kafka")


def _needed(jars: Path | None, what: str) -> Path:
    if jars is None:
        raise MissingError(f"Maven is not here, to fetch {what}: install it (Debian: maven)")
    return jars


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if found is None:
        raise MissingError("Java is not here: install Java 17 or newer, or set JAVA_HOME")
    return found


def prepare(folder: Path) -> None:
    """Make a broker's folder: what Kafka's own tool for new folders writes."""
    data = folder / "data"
    data.mkdir()
    (data / "meta.properties").write_text(
        f"version=1\ncluster.id={_id()}\nnode.id=1\ndirectory.id={_id()}\n"
    )


def _id() -> str:
    """An identifier as Kafka writes it; its tools take one with a dash in front for an option."""
    return "A" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]


def command(folder: Path, jars: Path, port: int, options: Sequence[str] = _SMALL) -> list[str]:
    """What starts a broker, which is its own controller, in the foreground.

    Args:
        folder: its own, see :func:`prepare`.
        jars: the folder with its jars.
        port: where it is asked.
        options: of its JVM. Default: it starts fast, and uses little.
    """
    controller = free_port()
    address = f"127.0.0.1:{port}"
    settings: dict[str, Any] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": folder / "data",
        "log.retention.ms": -1,  # records with old timestamps stay
        "log.cleaner.dedupe.buffer.size": 2 << 20,
        # A broker that is alone is not shut out because its machine is busy.
        "broker.session.timeout.ms": 60_000,
        "broker.heartbeat.interval.ms": 500,
        "group.initial.rebalance.delay.ms": 0,
        **dict.fromkeys(
            (
                "offsets.topic.num.partitions",
                "offsets.topic.replication.factor",
                "transaction.state.log.num.partitions",
                "transaction.state.log.replication.factor",
                "transaction.state.log.min.isr",
                "share.coordinator.state.topic.replication.factor",
                "share.coordinator.state.topic.min.isr",
            ),
            1,
        ),
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return [
        _java(), "-XX:+UseSerialGC", *options, "-cp", f"{jars}/*", "kafka.Kafka", str(file)
    ]  # fmt: skip


def is_ready(log: Path) -> bool:
    """Whether a broker that writes to a log has started."""
    return b"Kafka Server started" in log.read_bytes()


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def broker(
    watch: Callable[[Path, int], None] = lambda folder, process: None,
    options: Sequence[str] = _SMALL,
) -> Iterator[str]:
    """A broker for a while, in a temporary folder; gives its address.

    Args:
        watch: is told its folder and the id of its process.
        options: of its JVM. Default: it starts fast, and uses little.

    Raises:
        MissingError: this machine lacks Java or Maven.
        RuntimeError: it does not start.
    """
    jars = broker_jars()
    with tempfile.TemporaryDirectory(prefix="bsjoin-kafka-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        prepare(folder)
        log = folder / "log"
        process: subprocess.Popen[bytes] | None = None
        try:
            with log.open("wb") as written:
                process = subprocess.Popen(
                    command(folder, jars, port, options), stdin=subprocess.DEVNULL, stdout=written,
                    stderr=written, cwd=folder, start_new_session=True,  # Ctrl-C is not for it
                )  # fmt: skip
            watch(folder, process.pid)
            until = time.monotonic() + _START_S
            while not is_ready(log):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"Kafka does not start: {log.read_text()[-2_000:]}")
                time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            if process is not None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def client() -> Any:
    """The module of Kafka's client.

    Raises:
        MissingError: it is not installed.
    """
    try:
        import confluent_kafka.admin
    except ImportError:
        raise MissingError(
            'The client of Kafka is not here: pip install "bsjoin[examples]"'
        ) from None
    return confluent_kafka


def create(
    address: str, topics: Mapping[str, int], config: Mapping[str, str] | None = None
) -> None:
    """Make topics, each with so many partitions."""
    kafka = client()
    admin = kafka.admin.AdminClient({"bootstrap.servers": address, "log_level": 4})
    made = [kafka.admin.NewTopic(t, n, 1, config=dict(config or {})) for t, n in topics.items()]
    for done in admin.create_topics(made).values():
        done.result(_CLIENT_S)
    until = time.monotonic() + _CLIENT_S
    for topic, number in topics.items():  # a broker learns of them a moment later
        while _led(admin, topic) < number:
            if time.monotonic() > until:
                raise RuntimeError(f"topic {topic} is made, and no broker has it")
            time.sleep(0.05)


def _led(admin: Any, topic: str) -> int:
    """How many partitions of a topic have a broker."""
    found = admin.list_topics(topic, _CLIENT_S).topics[topic].partitions
    return sum(one.leader >= 0 for one in found.values())


def send(
    address: str,
    topic: str,
    record: Callable[[int], Mapping[str, Any]],
    rate: float,
    seconds: float,
    linger_ms: float = 0.0,
) -> int:
    """Send records at an even rate, each as soon as it is due.

    Args:
        address: of the broker.
        topic: where to.
        record: key, value and headers by the number of the record; it is called when that is due.
        rate: records a second.
        seconds: for how long.
        linger_ms: for how long a record may wait for others, to be sent with them.

    Returns:
        How many were sent.

    Raises:
        RuntimeError: the broker has not taken all of them.
    """
    failed: list[str] = []
    producer = client().Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": linger_ms,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(str(error)),
        }
    )
    begun, sent, last = time.monotonic(), 0, int(rate * seconds)
    while sent < last:
        due = min(last, int((time.monotonic() - begun) * rate) + 1)
        for number in range(sent, due):
            made = record(number)
            while True:
                try:
                    producer.produce(topic, **made)
                    break
                except BufferError:  # its queue is full: the broker is behind
                    producer.poll(0.01)
        sent = due
        producer.poll(0)
        time.sleep(max(0.0, min(0.001, begun + sent / rate - time.monotonic())))
    if left := producer.flush(_CLIENT_S) + len(failed):
        why = f": {failed[0]}" if failed else ""
        raise RuntimeError(f"the broker did not take {left} of {sent} records{why}")
    return sent


def count(address: str, topic: str) -> int:
    """How many records a topic has, by the ends of its partitions."""
    with _consumer(address, topic) as (_, ends):
        return sum(ends.values())


def read(address: str, topic: str) -> list[Any]:
    """All records of a topic, up to its present end."""
    with _consumer(address, topic) as (consumer, ends):
        left = {number for number, end in ends.items() if end}
        consumer.assign([client().TopicPartition(topic, number, 0) for number in left])
        found: list[Any] = []
        until = time.monotonic() + _CLIENT_S
        while left:
            for message in consumer.consume(10_000, 0.2):
                if message.error():
                    raise RuntimeError(str(message.error()))
                found.append(message)
                if message.offset() + 1 >= ends[message.partition()]:
                    left.discard(message.partition())
                until = time.monotonic() + _CLIENT_S
            if time.monotonic() > until:
                raise RuntimeError(f"topic {topic} does not answer")
        return found


@contextmanager
def _consumer(address: str, topic: str) -> Iterator[tuple[Any, dict[int, int]]]:
    """A consumer, and the end of each partition of a topic."""
    kafka = client()
    consumer = kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "reads", "enable.auto.commit": False}
    )
    try:
        partitions = consumer.list_topics(topic, _CLIENT_S).topics[topic].partitions
        yield (
            consumer,
            {
                number: consumer.get_watermark_offsets(
                    kafka.TopicPartition(topic, number), _CLIENT_S
                )[1]
                for number in partitions
            },
        )
    finally:
        consumer.close()
