"""Reading a table's source again, at an interval, while streams run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from bsjoin.metrics.refreshes import error_text
from bsjoin.spark.session import any_query_active, is_connect

_log = logging.getLogger("bsjoin")

_MISSED_LOOK_S = 5.0


def start_refreshing(
    spark: SparkSession,
    refresh: Callable[[], Any],
    interval_s: float | Callable[[], float],
    name: str,
) -> threading.Event:
    """Call ``refresh`` every so often in a background thread while any stream is active.

    The thread ends with the session. A refresh that was due without a stream comes with the next
    one. One that fails is logged and tried again after the next interval; the streams go on with
    the version they have.

    Returns:
        An event; set it to end the thread.
    """
    stop = threading.Event()

    def run() -> None:
        longest_s = threading.TIMEOUT_MAX
        while not stop.wait(min(interval_s() if callable(interval_s) else interval_s, longest_s)):
            longest_s = threading.TIMEOUT_MAX
            if not any_query_active(spark):
                if _gone(spark):
                    return
                longest_s = _MISSED_LOOK_S
                continue
            try:
                refresh()
            except Exception as error:
                if _gone(spark):
                    return
                # Spark's errors have pages, and the address of a database has its password.
                message = error_text(error)
                _log.warning("bsjoin: refreshing the table in %s failed: %s", name, message)

    threading.Thread(target=run, name=f"bsjoin-refresh-{name}", daemon=True).start()
    return stop


def _gone(spark: SparkSession) -> bool:
    """Whether the session has gone, whatever the transport says of it."""
    try:
        if not is_connect(spark):  # a context that was stopped still lists no queries
            spark.sparkContext.defaultParallelism  # noqa: B018
        return spark.streams.active is None
    except Exception:
        return True
