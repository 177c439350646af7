"""Queries a source with retries, backoff, a limit on connections, and metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bsjoin._secrets import scrubbed
from bsjoin.errors import BSJoinError, DataError, LookupFailedError
from bsjoin.plan import RetryPolicy
from bsjoin.runtimes.python.worker.connections import SharedConnection
from bsjoin.sources.protocol import Source
from bsjoin.sources.transient import of_data, run_with_retries
from bsjoin.values.plain import with_utf8

_log = logging.getLogger("bsjoin")


@dataclass
class Figures:
    """Metrics of the queries for one batch; ``ms`` of each look-up, its retries included."""

    keys: int = 0
    ms: list[float] = field(default_factory=list)
    retries: int = 0


class SourceClient:
    """Queries one source for one process."""

    def __init__(self, source: Source, retry_policy: RetryPolicy, connection: SharedConnection):
        self._source = source
        self._retry_policy = retry_policy
        self._connection = connection
        connection.add(source)

    @property
    def max_keys(self) -> int:
        """The maximum number of keys per look-up."""
        return self._source.max_keys

    def look_up(self, keys: pa.Table, columns: Sequence[str], figures: Figures) -> pa.Table:
        """Look up keys, with retries; the last failure is an error of ours."""
        begun = time.perf_counter()
        known = keys if self._source.takes_any_text else with_utf8(keys)
        if not known.num_rows:
            schema = self._source.schema
            names = dict.fromkeys([*keys.column_names, *columns])
            return pa.schema([schema.field(name) for name in names]).empty_table()
        with self._connection.used():
            try:
                return self._with_retries(
                    lambda: self._source.lookup(known, columns),
                    f"a look-up of {keys.num_rows} keys",
                    figures,
                )
            finally:
                figures.keys += keys.num_rows
                figures.ms.append((time.perf_counter() - begun) * 1e3)

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The keys that a query returns, with retries as in :meth:`look_up`."""
        with self._connection.used():
            return self._with_retries(
                lambda: self._source.keys_of(query, columns), "the query for keys", Figures()
            )

    def _with_retries(self, query: Callable[[], pa.Table], what: str, figures: Figures) -> pa.Table:
        policy = self._retry_policy

        def noted(fault: Exception) -> None:
            self._source.close()
            _log.info("bsjoin: %r: %s; retrying", self._source, scrubbed(str(fault), ()))
            figures.retries += 1

        try:
            return run_with_retries(
                query,
                policy.retries,
                policy.backoff_s,
                is_transient=lambda fault: not (isinstance(fault, BSJoinError) or of_data(fault)),
                noted=noted,
            )
        except DataError:
            raise
        except BSJoinError:
            self._source.close()
            raise
        except Exception as fault:
            self._source.close()
            text = scrubbed(f"{type(fault).__name__}: {fault}", ())  # a URL of a service, too
            if of_data(fault):
                raise DataError(
                    f"{self._source!r} could not answer {what}: {text}. It is a fault of the "
                    "data, so the look-up is not repeated"
                ) from None
            raise LookupFailedError(
                f"{self._source!r} did not answer {what}, nor its {policy.retries} retries: "
                f"{text}. "
                "Spark repeats a failed micro-batch when the query is restarted; on_error= of "
                "bsjoin.Incremental selects another behaviour than failing"
            ) from None

    def close(self) -> None:
        """Leave the connection, which is closed with its last source."""
        self._connection.remove(self._source)
