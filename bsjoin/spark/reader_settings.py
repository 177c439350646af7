"""The settings of the active session that decide what Spark's Parquet reader returns."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from bsjoin.spark import compat
from bsjoin.spark.session import settings_of

_ZONE = "spark.sql.session.timeZone"  # its default is the zone of Spark's machine


def reader_settings() -> dict[str, str] | None:
    """The settings that start with ``spark.sql.``, by their names; None without a session."""
    session = _active()
    if session is None:
        return None
    found = {**settings_of(session), _ZONE: session.conf.get(_ZONE)}
    return {name: value for name, value in found.items() if name.startswith("spark.sql.")}


def _active() -> Any:
    session = SparkSession.getActiveSession()
    if session is not None:
        return session
    try:
        return compat.active_connect_session()
    except compat.MissingMemberError:  # the package of a classic session need not have it
        return None
