"""A listener of Spark that adds up what queries do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring.totals import Totals, id_of

_log = logging.getLogger("bsjoin")


class Listener(StreamingQueryListener):
    """Keeps the totals of queries, and says when they change."""

    def __init__(self) -> None:
        self.totals = Totals()

    def changed(self, query: str) -> None:
        """The totals of a query, named by its label, have changed."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        self._guarded(
            id_of(event.progress), lambda: self.totals.take(event.progress, session=self.spark)
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        query = str(event.id)
        self._guarded(query, lambda: self.totals.renew(query))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """As of :class:`pyspark.sql.streaming.StreamingQueryListener`."""
        query = str(event.id)
        self._guarded(query, lambda: [*map(self.changed, self.totals.end(query))])

    def _guarded(self, query: str, change: Callable[[], object]) -> None:
        """Change the totals; what fails is logged, and no query ends by it."""
        try:
            change()
            if known := self.totals.of(query):
                self.changed(known.name)
        except Exception as error:
            _log.warning("bsjoin: metrics are not up to date: %s", error_text(error))
