"""Metrics of executors, stages and tasks, as the JSON of Spark's REST API.

The API is part of the web UI. Where the UI is off, or answers with an error (a proxy, a log-in),
the same JSON is made of the driver's own status store, a private member.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Protocol

from pyspark.sql import SparkSession

from scheduling.spark.internals import StatusStore

__all__ = ["Status", "is_connect", "status_of"]

_TIMEOUT_S = 10.0
_MOST_TASKS = 1_000_000


class Status(Protocol):
    """Where figures come from; every method gives JSON as the REST API documents it."""

    def executors(self) -> list[dict[str, Any]]:
        """The executors that are there, the driver among them."""

    def stage(self, stage: int) -> list[dict[str, Any]]:
        """The attempts of a stage; empty where it is not known any more."""

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        """The tasks of one attempt."""


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a Spark Connect server, and has no driver in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def status_of(spark: SparkSession) -> Status:
    """The REST API where it answers, else the driver's store."""
    url = spark.sparkContext.uiWebUrl
    if url:
        rest = _Rest(f"{url}/api/v1/applications/{spark.sparkContext.applicationId}")
        try:
            rest.executors()
        except (OSError, ValueError):
            pass
        else:
            return rest
    return StatusStore(spark)


class _Rest:
    """The REST API, over HTTP. About 10 ms a call."""

    def __init__(self, base: str) -> None:
        self._base = base
        # The driver is on this host: no proxy stands before it.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def executors(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("/executors")
        return found

    def stage(self, stage: int) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self._get(f"/stages/{stage}?details=false")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise
        return found

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        query = f"offset=0&length={_MOST_TASKS}"
        found: list[dict[str, Any]] = self._get(f"/stages/{stage}/{attempt}/taskList?{query}")
        return found

    def _get(self, path: str) -> Any:
        with self._open(self._base + path, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
