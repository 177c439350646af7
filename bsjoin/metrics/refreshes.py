"""The outcomes of refreshes in this process: for ``progress`` and for the log."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bsjoin._secrets import scrubbed, secrets_of

__all__ = ["RefreshProgress", "error_text", "follow", "of_join", "of_table", "recorded"]

_KEPT = 10_000
_LONGEST = 1_000


@dataclass(frozen=True, kw_only=True)
class RefreshProgress:
    """The outcomes of the refreshes of a join's table in this application, as of now.

    A refresh that finds the same rows is a success, too. Those that other applications make are
    not known here.

    Args:
        last_success: when the last refresh that succeeded, or the build, began to read (UTC): the
            table has the rows of that time or later. None (default) without one.
        last_error: why the last refresh that failed did so: the kind of the error and its message,
            without credentials. None (default) without one.
        last_error_at: when that was (UTC); before ``last_success`` if a later one succeeded. None
            (default) without one.
    """

    last_success: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the last refresh failed."""
        if self.last_error_at is None:
            return False
        return self.last_success is None or self.last_error_at > self.last_success


_tables: OrderedDict[str, RefreshProgress] = OrderedDict()
_joins: OrderedDict[str, str] = OrderedDict()
_lock = threading.Lock()


@contextlib.contextmanager
def recorded(url: str) -> Iterator[None]:
    """Remember how the refresh, or the build, of the table at a location goes."""
    began = datetime.now(UTC)
    try:
        yield
    except Exception as error:
        text = error_text(error, url)
        with _lock:
            before = _tables.get(url, RefreshProgress())
            _tables[url] = replace(before, last_error=text, last_error_at=datetime.now(UTC))
            _tables.move_to_end(url)
            _forget(_tables)
        raise
    with _lock:
        _tables[url] = replace(_tables.get(url, RefreshProgress()), last_success=began)
        _tables.move_to_end(url)
        _forget(_tables)


def follow(join: str, url: str) -> None:
    """Remember which table a join has.

    Args:
        join: its label.
        url: the location of its table.
    """
    with _lock:
        _joins[join] = url
        _joins.move_to_end(join)
        _forget(_joins)


def _forget(known: OrderedDict[str, Any]) -> None:
    """Those that were used longest ago: a micro-batch may build a table of its own."""
    while len(known) > _KEPT:
        known.popitem(last=False)


def of_join(join: str) -> RefreshProgress | None:
    """The refreshes of a join's table; None if it has no table, or none was built here."""
    with _lock:
        return _tables.get(_joins.get(join, ""))


def of_table(url: str) -> RefreshProgress | None:
    """The refreshes of the table at a location; None if it was not built here."""
    with _lock:
        return _tables.get(url)


def error_text(error: Exception, url: str = "") -> str:
    """The kind and the message of an error in one line, without credentials.

    Args:
        error: the error.
        url: a URL whose secrets are left out as well.
    """
    text = scrubbed(" ".join(f"{type(error).__name__}: {error}".split()), secrets_of(url))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
