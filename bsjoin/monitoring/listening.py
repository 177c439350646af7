"""A listener of Spark that adds up what all queries do."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring.totals import Totals

__all__ = ["Listener"]

_log = logging.getLogger("bsjoin")


class Listener(StreamingQueryListener):
    """Keeps the totals of the queries that run, and says when they change."""

    def __init__(self) -> None:
        self.totals = Totals()

    def changed(self) -> None:
        """The totals have changed."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        self._guarded(lambda: self.totals.take(event.progress, session=self.spark))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        self._guarded(lambda: self.totals.forget(str(event.id)))

    def _guarded(self, change: Any) -> None:
        """Change the totals; what fails is logged, and no query ends by it."""
        try:
            change()
            self.changed()
        except Exception as error:
            _log.warning("bsjoin: metrics are not up to date: %s", error_text(error))
