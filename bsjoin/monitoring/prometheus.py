"""Metrics in Spark's own metrics system, from which Prometheus and other tools read them."""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.sql import SparkSession

from bsjoin.errors import ArgumentError
from bsjoin.monitoring.listening import Listener
from bsjoin.monitoring.model import Sample
from bsjoin.runtimes.jvm.attach import attached
from bsjoin.spark import compat
from bsjoin.spark.session import is_connect

__all__ = ["PrometheusListener", "gauge_name"]

_CLASS = "bsjoin.jvm.metrics.Published"


class PrometheusListener(Listener):
    """A listener that puts the metrics of all queries into Spark's metrics system, in the driver.

    There all its sinks have them: the servlet for Prometheus (``/metrics/prometheus/`` of Spark's
    UI), ``/metrics/json/``, JMX, Graphite and others. They leave it when their query ends, and with
    ``close()``.

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

    def changed(self) -> None:
        """Hand the values to the driver."""
        if self._published is not None:
            found = {gauge_name(one): one.value for one in self.totals.samples()}
            self._published.set(json.dumps({k: v for k, v in found.items() if v == v}))

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
    labels = sample.attributes
    parts = [sample.name, *(f"{k}_{_plain(v)}" for k, v in labels.items() if k != "on")]
    return ".".join(f"_{part}" for part in parts)


def _plain(value: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", value).strip("_") or "none"
