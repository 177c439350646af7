"""Metrics for OpenTelemetry: observable instruments of the program's own provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bsjoin._version import __version__
from bsjoin.errors import ArgumentError
from bsjoin.monitoring.listening import Listener
from bsjoin.monitoring.model import Metric, metrics

__all__ = ["OpenTelemetryListener"]

_UNITS = {"": "", "seconds": "s", "bytes": "By", "ratio": "1"}
"""By what OpenTelemetry (UCUM) calls them; all others are counted things, ``{row}``. Exporters for
Prometheus add a unit to a name that does not end with it: a mere number has none, not 1."""


class OpenTelemetryListener(Listener):
    """A listener that gives the metrics of all queries to OpenTelemetry.

    Counters are observable counters and all others observable gauges, with the labels as attributes
    and the names of OpenMetrics without ``_total``. Needs ``pip install "bsjoin[opentelemetry]"``,
    and a provider with a reader or exporter, which is the program's.

    Args:
        meter_provider: an ``opentelemetry.metrics.MeterProvider``; None (default) for the global
            one.

    Raises:
        ArgumentError: OpenTelemetry's API is not installed, or the provider is none.

    Example:
        >>> telemetry = bsjoin.monitoring.OpenTelemetryListener()
        >>> spark.streams.addListener(telemetry)
        >>> spark.streams.removeListener(telemetry)
    """

    def __init__(self, meter_provider: Any = None) -> None:
        super().__init__()
        try:
            from opentelemetry import metrics as api
        except ImportError as error:
            raise ArgumentError(
                "OpenTelemetryListener() needs OpenTelemetry's API: "
                'pip install "bsjoin[opentelemetry]"'
            ) from error
        provider = api.get_meter_provider() if meter_provider is None else meter_provider
        if not isinstance(provider, api.MeterProvider):
            raise ArgumentError(
                f"meter_provider={meter_provider!r:.200}: give a MeterProvider of OpenTelemetry, "
                "or None for the global one"
            )
        meter = provider.get_meter("bsjoin", __version__)
        for metric in metrics():
            is_counter = metric.kind == "counter"
            create = (
                meter.create_observable_counter if is_counter else meter.create_observable_gauge
            )
            name = metric.name if is_counter else metric.sample
            create(name, [self._reader(metric, api)], _unit(metric), metric.help)

    def _reader(self, metric: Metric, api: Any) -> Any:
        def read(options: Any) -> Iterable[Any]:
            for sample in self.totals.samples():
                if sample.metric is metric and not sample.suffix:
                    yield api.Observation(sample.value, sample.attributes)

        return read


def _unit(metric: Metric) -> str:
    return _UNITS.get(metric.unit, f"{{{metric.unit.removesuffix('s')}}}")
