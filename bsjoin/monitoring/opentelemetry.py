"""Metrics for OpenTelemetry: observable instruments of the program's own provider."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from itertools import chain
from operator import is_not
from typing import Any
from weakref import WeakKeyDictionary

from bsjoin._version import __version__
from bsjoin.errors import ArgumentError
from bsjoin.monitoring.listening import Listener
from bsjoin.monitoring.model import Metric, Sample, metrics

_UNITS = {"": "", "seconds": "s", "bytes": "By", "ratio": "1"}
"""By what OpenTelemetry (UCUM) calls them; all others are counted things, ``{row}``. Exporters for
Prometheus add a unit to a name that does not end with it: a mere number has none, not 1."""


class OpenTelemetryListener(Listener):
    """A listener that gives the metrics of the session's queries to OpenTelemetry.

    Counters are observable counters and all others observable gauges, with the labels as attributes
    and the names of OpenMetrics without ``_total``. Needs ``pip install "bsjoin[opentelemetry]"``,
    and a provider with a reader or exporter, which is the program's. When a query ends its counters
    stay, and go on if it is started again; all leave with ``close()``. One listener may be added to
    several sessions, but for those of Spark Connect; of two listeners that have values of the same
    labels the last one is exported.

    Args:
        meter_provider: an ``opentelemetry.metrics.MeterProvider``; None (default) for the global
            one.

    Raises:
        ArgumentError: OpenTelemetry's API is not installed, or the provider is none.

    Example:
        >>> telemetry = bsjoin.monitoring.OpenTelemetryListener()
        >>> spark.streams.addListener(telemetry)
        >>> spark.streams.removeListener(telemetry)
        >>> telemetry.close()
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
        key = _GLOBAL if provider is api.get_meter_provider() else provider
        with _lock:
            if key not in _instruments:
                _instruments[key] = _Instruments(provider, api)
            self._instruments = _instruments[key]
            self._instruments.listeners.append(self)

    def close(self) -> None:
        """Give no values any more. Once more does nothing."""
        with _lock:
            if self in self._instruments.listeners:
                self._instruments.listeners.remove(self)


class _Global:
    """Stands for the global provider, which is another one until the program has set it."""


class _Instruments:
    """The instruments of a provider, one of each name, which all listeners share."""

    def __init__(self, provider: Any, api: Any):
        self.listeners: list[OpenTelemetryListener] = []
        self._api = api
        self._of: list[list[Sample]] = []
        self._grouped: dict[Metric, list[Any]] = {}
        meter = provider.get_meter("bsjoin", __version__)
        for metric in metrics():
            is_counter = metric.kind == "counter"
            create = (
                meter.create_observable_counter if is_counter else meter.create_observable_gauge
            )
            name = metric.name if is_counter else metric.sample
            create(name, [partial(self._read, metric)], _unit(metric), metric.help)

    def _read(self, metric: Metric, options: Any) -> Iterable[Any]:
        with _lock:
            found = [one.totals.samples() for one in self.listeners]
            if len(found) != len(self._of) or any(map(is_not, found, self._of)):
                self._of, self._grouped = found, self._group(found)
            return self._grouped.get(metric, [])

    def _group(self, found: list[list[Sample]]) -> dict[Metric, list[Any]]:
        """The values of each metric: of those with the same labels that of the last listener."""
        last: dict[Metric, dict[tuple[str, ...], Sample]] = {}
        for sample in chain.from_iterable(found):
            if not sample.suffix:
                last.setdefault(sample.metric, {})[sample.labels] = sample
        return {
            metric: [self._api.Observation(one.value, one.attributes) for one in samples.values()]
            for metric, samples in last.items()
        }


_GLOBAL = _Global()
_lock = threading.Lock()
_instruments: WeakKeyDictionary[Any, _Instruments] = WeakKeyDictionary()


def _unit(metric: Metric) -> str:
    return _UNITS.get(metric.unit, f"{{{metric.unit.removesuffix('s')}}}")
