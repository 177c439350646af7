"""``redis`` with a cluster whose slots move, and what other servers answer."""

from __future__ import annotations

import contextlib
import json
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from servers import PASSWORD, Redis, free_port

import bsjoin.sources
from bsjoin.errors import SourceError
from bsjoin.sources.redis_client import RedisClient
from bsjoin.sources.transient import TransientSourceError
from bsjoin.sources.urls import address_of

SCHEMA = {"id": pa.int64(), "v": pa.string()}
SLOTS = 16384
KINDS = ("hash", "json")


class Node(Redis):
    """A Redis with further options."""

    options: Sequence[str] = ()

    def __init__(self, program: str, *options: str) -> None:
        self.options = options
        super().__init__(program)

    def command(self) -> Sequence[str | Path]:
        return (*super().command(), *self.options)

    def client(self) -> Any:
        return redis.Redis(port=self.port, password=PASSWORD)


class Cluster:
    """Three nodes, each with a third of the slots."""

    def __init__(self, program: str) -> None:
        self.nodes = []
        for _ in range(3):
            options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
            self.nodes.append(Node(program, *options))
        bounds = [0, 5461, 10923, SLOTS]
        with self.clients() as clients:
            for number, client in enumerate(clients):
                first, last = bounds[number], bounds[number + 1] - 1
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            for node in self.nodes[1:]:
                clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port, node.options[-1])
            for client in clients:
                while b"cluster_state:ok" not in _raw(client, "CLUSTER INFO"):
                    time.sleep(0.05)
                while _raw(client, "CLUSTER NODES").count(b"master") < 3:
                    time.sleep(0.05)

    @contextlib.contextmanager
    def clients(self) -> Iterator[list[Any]]:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(node.client()) for node in self.nodes]

    def writer(self) -> Any:
        return redis.RedisCluster(host="127.0.0.1", port=self.nodes[0].port, password=PASSWORD)

    def move(self, slot: int, source: int, target: int, pause_s: float = 0.0) -> None:
        """Move a slot with its keys from one node to another, key by key."""
        with self.clients() as clients:
            one, other = clients[source], clients[target]
            names = [_raw(client, "CLUSTER MYID").decode() for client in clients]
            other.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[source])
            one.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[target])
            while keys := one.execute_command("CLUSTER GETKEYSINSLOT", slot, 1):
                one.execute_command(
                    "MIGRATE", "127.0.0.1", self.nodes[target].port, "", 0, 5000,
                    "AUTH", PASSWORD, "KEYS", *keys,
                )  # fmt: skip
                time.sleep(pause_s)
            for client in (other, one):
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[target])

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()


def _raw(client: Any, command: str) -> bytes:
    client.response_callbacks.clear()
    found = client.execute_command(command)
    return found if isinstance(found, bytes) else str(found).encode()


@pytest.fixture(scope="module")
def program(redis_server: Redis) -> str:
    return redis_server.program


@pytest.fixture(scope="module")
def cluster(program: str) -> Iterator[Cluster]:
    made = Cluster(program)
    yield made
    made.remove()


def source_of(server: Redis, kind: str = "hash", key: str = "", **options: Any) -> Any:
    key = key or f"{kind}:{{id}}"
    return bsjoin.sources.redis(server.url, key=key, schema=SCHEMA, kind=kind, **options)


def fill(client: Any, numbers: Sequence[int], key: str = "{}:{}") -> None:
    for number in numbers:
        for kind in KINDS:
            name, value = key.format(kind, number), f"value {number}"
            if kind == "hash":
                client.hset(name, mapping={"v": value})
            else:
                client.set(name, json.dumps({"v": value}))


def ids(numbers: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def rows_of(numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [{"id": number, "v": f"value {number}"} for number in numbers]


def test_rows_come_from_all_nodes_of_a_cluster(cluster: Cluster) -> None:
    with cluster.writer() as writer:
        writer.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
        fill(writer, range(300))
        writer.set("hash:1000", "text")
        writer.hset("json:1000", "v", "x")
    for node in cluster.nodes:
        for kind in KINDS:
            source = pickle.loads(pickle.dumps(source_of(node, kind)))
            assert source.lookup(ids([7])).to_pylist() == rows_of([7])
            assert source.lookup(ids(range(400))).to_pylist() == rows_of(range(300))
            assert source.lookup(ids([5, 999]), []).to_pylist() == [{"id": 5}]
            # It is known now, also to a copy.
            copy = pickle.loads(pickle.dumps(source))
            assert copy.lookup(ids(range(300))).to_pylist() == rows_of(range(300))
            if kind == "hash":
                with pytest.raises(SourceError, match=r"'hash:1000' does not contain a hash"):
                    source.lookup(ids([1, 1000]))
            else:
                assert source.lookup(ids([1, 1000])).to_pylist() == rows_of([1])
            source.close()
            copy.close()


@pytest.mark.long
def test_slots_that_move_cost_no_row(cluster: Cluster) -> None:
    numbers = range(40)
    with cluster.writer() as writer:
        writer.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
        fill(writer, numbers, "{{row}}{}:{}")  # all in one slot
        slot = writer.keyslot("{row}hash:1")
    owner = next(i for i, end in enumerate([5461, 10923, SLOTS]) if slot < end)
    sources = [source_of(cluster.nodes[0], kind, f"{{{{row}}}}{kind}:{{id}}") for kind in KINDS]

    def move() -> None:
        for step in range(2):
            cluster.move(slot, (owner + step) % 3, (owner + step + 1) % 3, 0.005)

    def look_up() -> None:
        for source in sources:
            assert source.lookup(ids(numbers)).to_pylist() == rows_of(numbers)

    look_up()
    moving = threading.Thread(target=move)
    moving.start()
    while moving.is_alive():
        look_up()
    moving.join()
    look_up()


@pytest.mark.long
def test_a_node_that_is_down_is_a_fault_and_then_forgotten(cluster: Cluster) -> None:
    with cluster.writer() as writer:
        fill(writer, range(50))
    source = source_of(cluster.nodes[1], timeout=2)
    assert len(source.lookup(ids(range(50)))) == 50
    cluster.nodes[2].kill()
    try:
        with pytest.raises(TransientSourceError) as raised:
            source.lookup(ids(range(50)))
        assert PASSWORD not in str(raised.value)
    finally:
        cluster.nodes[2].start()
    with cluster.clients() as clients:
        for client in clients:
            while b"cluster_state:ok" not in _raw(client, "CLUSTER INFO"):
                time.sleep(0.05)
    with cluster.writer() as writer:
        fill(writer, range(50))
    assert len(source.lookup(ids(range(50)))) == 50


def test_a_restricted_account_is_told_what_a_cluster_needs(cluster: Cluster) -> None:
    with cluster.clients() as clients:
        for client in clients:
            client.execute_command(
                "ACL", "SETUSER", "reader", "on", ">pass", "~*", "+hmget", "+exists"
            )
    url = f"redis://reader:pass@127.0.0.1:{cluster.nodes[0].port}"
    source = bsjoin.sources.redis(url, key="hash:{id}", schema=SCHEMA)
    with pytest.raises(SourceError, match=r"\+cluster\|slots") as raised:
        source.lookup(ids(range(50)))
    assert "pass@" not in str(raised.value)
    allowed = ("+cluster|slots", "+cluster|shards", "+command", "+info")
    with cluster.clients() as clients:
        for client in clients:
            client.execute_command("ACL", "SETUSER", "reader", *allowed)
    with cluster.writer() as writer:
        fill(writer, range(50))
    assert len(source.lookup(ids(range(50)))) == 50


def test_servers_that_are_not_ready_are_faults_that_pass() -> None:
    """One that loads its rows, and a replica without its primary: old libraries have no class."""
    address = address_of("redis://:s3cret@host", (), ("redis",))
    client = RedisClient(address, "redis://:s3cret@host", 1.0, "it")
    for passing in (
        redis.BusyLoadingError("Redis is loading the dataset in memory"),
        redis.ResponseError("LOADING Redis is loading the dataset in memory"),
        redis.ResponseError("MASTERDOWN Link with MASTER is down"),
        redis.ResponseError("CLUSTERDOWN The cluster is down"),
        redis.ResponseError("TRYAGAIN Multiple keys request during rehashing of slot"),
        redis.ReadOnlyError("You can't write against a read only replica."),
        redis.TimeoutError("to s3cret"),
        redis.ConnectionError("Connection refused"),
    ):
        found = client._translated(passing)
        assert type(found) is TransientSourceError, passing
        assert "s3cret" not in str(found)
    for staying in (
        redis.AuthenticationError("WRONGPASS"),
        redis.ResponseError("NOPERM this user has no permissions"),
        redis.ResponseError("ERR unknown command"),
    ):
        assert type(client._translated(staying)) is SourceError, staying
