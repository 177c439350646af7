"""``bsjoin.reporting``: a function for ``foreachBatch`` whose figures leave a Connect server.

The server runs the function in a process that it starts for one run of a query, just before that
begins. Spark tells the process the number of each micro-batch, and not which query it is. But the
queries of the session can be listed: the process looks for the one that had not begun when it
started, and that no other process reports; and if there are several, for the one that fits all it
sees: while the function runs, its query has the progress of the micro-batch before. It reports
when it is certain, what came before too.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bsjoin.errors import ArgumentError
from bsjoin.metrics import reports
from bsjoin.metrics.counted import counted, tagged
from bsjoin.metrics.lines import to_line
from bsjoin.metrics.progress import ObservedProgress, is_idle, progress
from bsjoin.metrics.refreshes import error_text
from bsjoin.metrics.tasks import received
from bsjoin.spark.session import MicroBatch, is_dataframe, is_for_a_query, retained, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("bsjoin")

_CHARACTERS = 500_000
"""Of all reports that a query keeps; each micro-batch sends them once."""

Function = Callable[["DataFrame", int], Any]


def reporting(function: Function) -> Function:
    """Let a function for ``foreachBatch`` report its joins to :func:`progress`, on Connect too.

    In a classic session they do so without it, and the function is called as it is. Spark Connect
    runs the function in a process of the server: there its joins have figures, and use the private
    tables of the micro-batch before again, only if it is wrapped. Each micro-batch takes some 50 ms
    more, and the session gets temporary views, of which the names begin with ``bsjoin_report``.

    Args:
        function: gets the micro-batch, a DataFrame, and its number.

    Returns:
        A function that does the same; give it to ``foreachBatch`` of any number of queries, or
        call it in a function that gets the micro-batch. A method of a class can be wrapped, too.
        The figures of a micro-batch can be read when its call has returned. One whose call has
        failed has none.

    Raises:
        ArgumentError: it is no function.

    Example:
        >>> @bsjoin.reporting
        ... def write(batch, batch_id):
        ...     named = bsjoin.join(batch, customers, on="customer_id")
        ...     named.write.mode("append").parquet("out")
        >>> query = orders.writeStream.foreachBatch(write).trigger(availableNow=True).start()
        >>> query.awaitTermination()
        >>> [cycle.rows_in for cycle in bsjoin.progress(query)]
        [4]
    """
    if not callable(function):
        raise ArgumentError(
            f"reporting({function!r}): give the function that foreachBatch would get, of a "
            "DataFrame and a number"
        )
    return function if isinstance(function, _Reporting) else _Reporting(function)


class _Reporting:
    """The function, which in a process of a Connect server, where it was unpickled, reports."""

    def __init__(self, function: Function):
        self._function = function
        functools.update_wrapper(self, function, updated=())

    def __getstate__(self) -> Function:
        return self._function

    def __setstate__(self, function: Function) -> None:
        self.__init__(function)  # type: ignore[misc]
        _reports()  # the query begins when the server has read the function

    def __get__(self, instance: Any, owner: Any = None) -> Function:
        """As a method of a class: the function's own, bound like that."""
        bind = getattr(type(self._function), "__get__", None)
        bound = bind(self._function, instance, owner) if bind else self._function
        return self if bound is self._function else _Reporting(bound)

    def __call__(self, *given: Any, **named: Any) -> Any:
        # More than the batch and its number, which come last, is of other wrappers.
        batch_id, found = given[-1] if given else None, _reports()
        if found is None or type(batch_id) is not int:
            return self._function(*given, **named)
        session = next((one.sparkSession for one in given if is_dataframe(one)), None)
        with found.of(batch_id, session):
            return self._function(*given, **named)


class _Reports:
    """The reports of the function of one run of a query.

    Args:
        session: the client's, which the server copies for the micro-batches.
    """

    def __init__(self, session: SparkSession):
        self._session = session
        self._query = str(uuid.uuid4())  # stands for the query, and its run, in this process
        self._run: str | None = None
        self._made: dict[int, str] = {}
        self._is_in_a_call = False
        self._others: set[str] | None = None
        with _not_raised():
            self._others = {str(query.runId) for query in session.streams.active}

    @contextlib.contextmanager
    def of(self, batch: int, session: SparkSession | None) -> Iterator[None]:
        """Report a micro-batch whose function runs meanwhile, unless that fails.

        It has a session if its rows are of another one than the client's.
        """
        session = self._session if session is None else session
        if self._is_in_a_call:  # of a function that calls this one
            yield
            return
        self._find(batch)
        self._is_in_a_call = True
        try:
            with (
                running(MicroBatch(self._query, str(batch), self._query)),
                tagged(session, self._query, batch),
            ):
                yield
        finally:
            self._is_in_a_call = False
        with _not_raised():
            observed = received.of(self._query, self._query, batch)
            operators = counted(self._query, batch, batch, session)
            one = ObservedProgress(batch, "", observed, query=self._query, operators=operators)
            self._made[batch] = to_line(progress(one))
            self._forget(max(1, retained(self._session)))
        self._find(batch)
        if self._run is not None:
            with _not_raised():
                reports.write(self._session, self._run, self._made)

    def _forget(self, kept: int) -> None:
        """Keep the last reports, and no more than is quickly sent."""
        characters = sum(map(len, self._made.values()))
        for batch in list(self._made)[:-1]:
            if len(self._made) <= kept and characters <= _CHARACTERS:
                break
            characters -= len(self._made.pop(batch))

    def _find(self, batch: int) -> None:
        """Find the run, if that is certain by now; its function runs, or has just returned."""
        if self._run is not None or self._others is None:
            return
        with _not_raised():
            self._others.update(reports.claimed(self._session))
            active = {str(query.runId): query for query in self._session.streams.active}
            left = active.keys() - self._others
            left = {run for run in left if _fits(active[run].lastProgress, batch)}
            self._others.update(active.keys() - left)
            if not left:  # it has been stopped, or this process was read in the midst of it
                self._others = None
            elif len(left) == 1:
                (self._run,) = left
                reports.claim(self._session, self._run)


def _fits(last: Any, batch: int) -> bool:
    """Whether a query with this last progress may be in a micro-batch."""
    return last is None or last.batchId == (batch if is_idle(last) else batch - 1)


@functools.cache
def _reports() -> _Reports | None:
    """The reports of this process, which serves one run of a query; None in any other."""
    if is_for_a_query():
        with _not_raised():
            return _Reports(reports.active_session())
    return None


@contextlib.contextmanager
def _not_raised() -> Iterator[None]:
    """Log what fails: a query does not end because of its figures."""
    try:
        yield
    except Exception as error:
        _log.warning(
            "bsjoin: a function for foreachBatch does not report its joins: %s", error_text(error)
        )
