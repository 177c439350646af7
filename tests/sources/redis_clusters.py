"""A cluster of Redis whose slots can be moved."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis
from servers import PASSWORD, Redis, free_port

SLOTS = 16384


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
        self.wait()

    def wait(self) -> None:
        """Until each node knows that all slots are served."""
        with self.clients() as clients:
            for client in clients:
                while b"cluster_state:ok" not in raw(client, "CLUSTER INFO"):
                    time.sleep(0.05)
                while raw(client, "CLUSTER NODES").count(b"master") < 3:
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
            names = [raw(client, "CLUSTER MYID").decode() for client in clients]
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


def raw(client: Any, command: str) -> bytes:
    """What a server answers, as it says it."""
    client.response_callbacks.clear()
    found = client.execute_command(command)
    return found if isinstance(found, bytes) else str(found).encode()
