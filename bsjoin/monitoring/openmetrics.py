"""Metrics as text: what Prometheus and others read over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from bsjoin.monitoring.model import Metric, Sample

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ODD = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


def text(samples: Iterable[Sample]) -> str:
    """Write samples as OpenMetrics 1.0 does; those of one metric follow each other."""
    lines: list[str] = []
    last: Metric | None = None
    for sample in samples:
        metric = sample.metric
        if metric is not last:
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            if metric.unit:
                lines.append(f"# UNIT {metric.name} {metric.unit}")
            lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
            last = metric
        number = repr(sample.value)
        labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in sample.attributes.items())
        lines.append(f"{sample.name}{{{labels}}} {_ODD.get(number, number)}")
    return "\n".join([*lines, "# EOF", ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
