"""The client of a Redis server, or of a Redis Cluster, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bsjoin._secrets import scrubbed
from bsjoin.errors import BSJoinError, SourceError
from bsjoin.sources.drivers import driver
from bsjoin.sources.session import Session
from bsjoin.sources.transient import TransientSourceError, run_translated
from bsjoin.sources.urls import Address

T = TypeVar("T")

_LOST = {
    "ConnectionError", "TimeoutError", "OSError", "BusyLoadingError", "ReadOnlyError",
    "TryAgainError", "ClusterDownError", "MasterDownError", "AskError", "SlotNotCoveredError",
    "RedisClusterException",
}  # fmt: skip
_DENIED = {"AuthenticationError", "NoPermissionError", "AuthorizationError"}
_LOST_WORDS = ("LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ")
# What a node of a cluster answers to a client that takes it for a server of its own.
_CLUSTER = {"AskError", "ClusterCrossSlotError"}
_CLUSTER_WORDS = ("MOVED ", "CROSSSLOT", "not allowed in cluster mode")


class RedisClient:
    """Connects at the first command; finds out by itself that the server is a node of a cluster."""

    def __init__(self, address: Address, url: str, timeout_s: float, what: str) -> None:
        self._address, self._url, self._timeout_s, self._what = address, url, timeout_s, what
        self._session = Session()
        self.is_cluster = False

    def run(self, work: Callable[[Any], T]) -> T:
        """Run some work with the library's client; its failure is an error of ours."""
        return run_translated(lambda: self._run(work), self._translated, self.close)

    def _run(self, work: Callable[[Any], T]) -> T:
        try:
            return work(self._client())
        except Exception as error:
            if self.is_cluster or not _is_of_cluster(error):
                raise
        self.close()
        self.is_cluster = True
        return work(self._client())

    def answers(self, client: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers to some commands, by one round trip to each server; errors are among them."""
        pipeline = client.pipeline() if self.is_cluster else client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        found: list[Any] = pipeline.execute(raise_on_error=False)
        if not self.is_cluster:
            for answer in found:
                if isinstance(answer, Exception) and _is_of_cluster(answer):
                    raise answer
        return found

    def _client(self) -> Any:
        client = self._session.current()
        if client is None:
            settings: dict[str, Any] = {
                "socket_timeout": self._timeout_s,
                "socket_connect_timeout": self._timeout_s,
            }
            options = self._address.options
            if self._address.scheme == "rediss" and options.get("ssl_cert_reqs") != "none":
                settings["ssl_check_hostname"] = True  # which version 5 of the library does not
            client = self._cluster(settings) if self.is_cluster else self._server(settings)
            self._session.hold(client)
        return client

    def _server(self, settings: dict[str, Any]) -> Any:
        module = driver("redis", "redis")
        backoff, retry = driver("redis.backoff", "redis"), driver("redis.retry", "redis")
        once = retry.Retry(backoff.NoBackoff(), 0)
        return module.Redis.from_url(self._url, retry=once, **settings)

    def _cluster(self, settings: dict[str, Any]) -> Any:
        if self._address.scheme == "unix":
            raise SourceError(
                f"{self._what}: this is a node of a Redis Cluster, whose other nodes are on the "
                "network: give redis://host:port"
            )
        if self._address.path.strip("/") not in ("", "0") or "db" in self._address.options:
            raise SourceError(
                f"{self._what}: this is a Redis Cluster, which has the database 0 only: leave the "
                "number out of the URL"
            )
        return driver("redis.cluster", "redis").RedisCluster.from_url(self._url, **settings)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, BSJoinError):
            return error
        message = f"{self._what}: {type(error).__name__}: {' '.join(str(error).split())}"
        text = scrubbed(message, self._address.secrets)
        kinds = {kind.__name__ for cause in _causes(error) for kind in type(cause).__mro__}
        if _DENIED & kinds and self.is_cluster:
            text += (
                ". In a cluster the account also needs the commands that find the nodes and slots: "
                "+cluster|slots +cluster|shards +command +info"
            )
        # Old versions of the library have no class for some of them.
        is_lost = _LOST & kinds or any(words in message for words in _LOST_WORDS)
        is_lost = is_lost and not _DENIED & kinds
        return TransientSourceError(text) if is_lost else SourceError(text)

    def close(self) -> None:
        """Close the connections of this process; the next command opens new ones."""
        self._session.close()


def _is_of_cluster(error: Exception) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(_CLUSTER & kinds) or any(words in str(error) for words in _CLUSTER_WORDS)


def _causes(error: BaseException | None) -> list[BaseException]:
    """The error and those that it comes from."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
