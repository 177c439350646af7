"""Metrics in Spark's own metrics system, from which Prometheus and other tools read them."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from bsjoin.errors import ArgumentError
from bsjoin.monitoring.listening import Listener
from bsjoin.monitoring.model import Sample
from bsjoin.runtimes.jvm.attach import attached
from bsjoin.spark import compat
from bsjoin.spark.session import is_connect

_CLASS = "bsjoin.jvm.metrics.Published"

_SAME = re.compile(r"|0\.[0-9]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Nothing, quantiles and ids: known by their form, so that no two become the same."""


class PrometheusListener(Listener):
    """A listener that puts the metrics of the session's queries into Spark's metrics system.

    That is in the driver, where all its sinks have them: the servlet for Prometheus
    (``/metrics/prometheus/`` of Spark's UI), ``/metrics/json/``, JMX, Graphite and others. When a
    query ends its counters stay, and go on if it is started again; all leave with ``close()``. One
    listener may be added to several sessions of an application.

    Args:
        spark: a classic session.

    Raises:
        ArgumentError: the session is one of Spark Connect, whose client has no driver, or it does
            not take the jar.

    Example:
        >>> prometheus = bsjoin.monitoring.PrometheusListener(spark)
        >>> spark.streams.addListener(prometheus)
        >>> spark.streams.removeListener(prometheus)
        >>> prometheus.close()
    """

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        if is_connect(spark):
            raise ArgumentError(
                "PrometheusListener() puts metrics into the driver, and a client of Spark Connect "
                "has none: use monitoring.OpenTelemetryListener(), or /metrics of "
                "bsjoin.dashboard(query)"
            )
        if why := attached(spark):
            raise ArgumentError(f"PrometheusListener() needs bsjoin's jar in the session: {why}")
        made = compat.java_class(_CLASS)
        if made is None:
            raise ArgumentError(
                "PrometheusListener() needs bsjoin's jar in the driver: start the application with "
                "spark.jars set to what bsjoin.jar() returns"
            )
        self._published: Any = made()

    def changed(self, query: str) -> None:
        """Hand the values of a query, of which ``query`` is the label, to the driver."""
        published = self._published  # close() may come meanwhile
        if published is not None:
            found = {gauge_name(one): one.value for one in self.totals.samples(query)}
            published.set(query, json.dumps({k: v for k, v in found.items() if v == v}))

    def close(self) -> None:
        """Take the metrics out of the metrics system. Once more does nothing."""
        published, self._published = self._published, None
        if published is not None:
            published.close()


def gauge_name(sample: Sample) -> str:
    """The name of a gauge, which has the labels in it: gauges of Spark have none.

    Spark's servlet makes an underscore of each character that is no letter or digit. So two of them
    are between the parts, and one inside; rules of Prometheus make labels of the parts again.
    """
    return _gauge_name(sample.name, tuple(sample.attributes.items()))


@lru_cache(maxsize=20_000)
def _gauge_name(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    parts = [name, *(f"{k}_{_plain(v)}" for k, v in labels if k != "on")]
    return ".".join(f"_{part}" for part in parts)


def _plain(value: str) -> str:
    """A value as part of a name; with digits of its hash where another value would be the same."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", value).strip("_")
    if plain == value or _SAME.fullmatch(value):
        return plain or "none"
    digits = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{plain}_{digits}".lstrip("_")
