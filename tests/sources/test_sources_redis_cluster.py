"""``redis`` with a cluster whose slots move, and what other servers answer."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis
from redis_clusters import SLOTS, Cluster
from servers import PASSWORD, Redis
from test_sources_redis import ids

import bsjoin.sources
from bsjoin.errors import SourceError
from bsjoin.sources.redis_client import RedisClient
from bsjoin.sources.transient import TransientSourceError
from bsjoin.sources.urls import address_of

SCHEMA = {"id": pa.int64(), "v": pa.string()}
KINDS = ("hash", "json")


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
            assert source.lookup(ids(7)).to_pylist() == rows_of([7])
            assert source.lookup(ids(*range(400))).to_pylist() == rows_of(range(300))
            assert source.lookup(ids(5, 999), []).to_pylist() == [{"id": 5}]
            # It is known now, also to a copy.
            copy = pickle.loads(pickle.dumps(source))
            assert copy.lookup(ids(*range(300))).to_pylist() == rows_of(range(300))
            if kind == "hash":
                with pytest.raises(SourceError, match=r"'hash:1000' does not contain a hash"):
                    source.lookup(ids(1, 1000))
            else:
                assert source.lookup(ids(1, 1000)).to_pylist() == rows_of([1])
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
            assert source.lookup(ids(*numbers)).to_pylist() == rows_of(numbers)

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
    assert len(source.lookup(ids(*range(50)))) == 50
    cluster.nodes[2].kill()
    try:
        with pytest.raises(TransientSourceError) as raised:
            source.lookup(ids(*range(50)))
        assert PASSWORD not in str(raised.value)
    finally:
        cluster.nodes[2].start()
    cluster.wait()
    with cluster.writer() as writer:
        fill(writer, range(50))
    assert len(source.lookup(ids(*range(50)))) == 50


def test_a_restricted_account_is_told_what_a_cluster_needs(cluster: Cluster) -> None:
    with cluster.clients() as clients:
        for client in clients:
            client.execute_command(
                "ACL", "SETUSER", "reader", "on", ">pass", "~*", "+hmget", "+exists"
            )
    url = f"redis://reader:pass@127.0.0.1:{cluster.nodes[0].port}"
    source = bsjoin.sources.redis(url, key="hash:{id}", schema=SCHEMA)
    with pytest.raises(SourceError, match=r"\+cluster\|slots") as raised:
        source.lookup(ids(*range(50)))
    assert "pass@" not in str(raised.value)
    allowed = ("+cluster|slots", "+cluster|shards", "+command", "+info")
    with cluster.clients() as clients:
        for client in clients:
            client.execute_command("ACL", "SETUSER", "reader", *allowed)
    with cluster.writer() as writer:
        fill(writer, range(50))
    assert len(source.lookup(ids(*range(50)))) == 50


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


def test_the_address_of_a_cluster_has_a_host_and_no_number_of_a_database() -> None:
    for url, words in (
        ("unix:///a.sock", "on the network"),
        ("redis://host/1", "leave the number"),
    ):
        client = RedisClient(address_of(url, (), ("redis", "unix")), url, 1.0, "it")
        client.is_cluster = True
        with pytest.raises(SourceError, match=words):
            client.run(lambda _: None)


def test_the_name_of_a_host_is_compared_with_its_certificate() -> None:
    for reqs, checks in (("", True), ("required", True), ("none", None)):
        url = "rediss://host" + f"?ssl_cert_reqs={reqs}" * bool(reqs)
        client = RedisClient(address_of(url, (), ("rediss",)), url, 1.0, "it")
        given = client.run(lambda made: made.connection_pool.connection_kwargs)
        assert given.get("ssl_check_hostname") is checks
