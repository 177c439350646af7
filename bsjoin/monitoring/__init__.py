"""What joins do, for the tools that watch them: a log, Prometheus, OpenTelemetry, a page.

All of them show the same metrics, :func:`metrics`, which are made of what
:func:`bsjoin.progress` returns.
"""

from __future__ import annotations

from bsjoin.monitoring.dashboard import Dashboard
from bsjoin.monitoring.log import ProgressLog
from bsjoin.monitoring.model import Metric, metrics
from bsjoin.monitoring.opentelemetry import OpenTelemetryListener
from bsjoin.monitoring.prometheus import PrometheusListener

__all__ = [
    "Dashboard",
    "Metric",
    "OpenTelemetryListener",
    "ProgressLog",
    "PrometheusListener",
    "metrics",
]
