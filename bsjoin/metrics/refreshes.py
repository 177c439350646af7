"""The outcomes of refreshes in this process: for ``progress`` and for the log."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cachetools import LRUCache

from bsjoin._secrets import scrubbed, secrets_of
from bsjoin.errors import StoreError, VersionNotFoundError
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.source_version import SourceVersion

_KEPT = 10_000
_LONGEST = 1_000
_VERSIONS_KEPT = 1_000  # of a table: more than a query keeps the progress of micro-batches


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
        last_error_at: when that was (UTC). None (default) without one.
        is_failing: whether the refresh that ended last has failed. Default False.
        source: of a table that follows its source (``refresh="on_commit"``), the version of it that
            the newest version of the table has. None (default) for others.
        newest: the version that the source had at the last look; None (default) without one.
        last_look: when that was (UTC); None (default) without one.
        lag_s: how long after its commit, in seconds, the last version of the source was to be had
            in the table; None (default) if the source tells no time, or nothing was committed yet.
        applied: how many versions were made of the changes that the source tells. Default 0.
        read_whole: how many were made by reading the source whole, after the first. Default 0.
        read_whole_why: why the last of these was; None (default) without one.
    """

    last_success: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    is_failing: bool = False
    source: SourceVersion | None = None
    newest: SourceVersion | None = None
    last_look: datetime | None = None
    lag_s: float | None = None
    applied: int = 0
    read_whole: int = 0
    read_whole_why: str | None = None


# By location, and the locations by the numbers of joins. A micro-batch may build a table of its
# own: those that were used longest ago are forgotten.
_tables: LRUCache[str, RefreshProgress] = LRUCache(_KEPT)
_joins: LRUCache[str, str] = LRUCache(_KEPT)
_sources: LRUCache[str, LRUCache[int, SourceVersion | None]] = LRUCache(_KEPT)
_lock = threading.Lock()


@contextlib.contextmanager
def recorded(url: str) -> Iterator[None]:
    """Remember how the refresh, or the build, of the table at a location goes."""
    began = datetime.now(UTC)
    with failures_recorded(url):
        yield
    succeeded(url, began)


@contextlib.contextmanager
def failures_recorded(url: str) -> Iterator[None]:
    """The same of what fails alone."""
    try:
        yield
    except Exception as error:
        text = error_text(error, url)
        _note(url, last_error=text, last_error_at=datetime.now(UTC), is_failing=True)
        raise


def succeeded(url: str, began: datetime) -> None:
    """Remember that a table has the rows that its source had at a time, or later ones."""
    _note(url, last_success=began, is_failing=False)


def looked(url: str, newest: SourceVersion, source: SourceVersion | None) -> None:
    """Remember a look at the source of a table, which has the version ``source`` of it, if any."""
    _note(url, newest=newest, source=source, last_look=datetime.now(UTC))


def published(
    url: str, version: int, source: SourceVersion, *, whole: str | None = None, is_first: bool
) -> None:
    """Remember that a table has got a version of its source; if it was read ``whole``, why.

    The first one is the first that this application knows of.
    """
    with _lock:
        _sources.setdefault(url, LRUCache(_VERSIONS_KEPT))[version] = source
        before = _tables.get(url, RefreshProgress())
    if is_first:
        _note(url, source=source, newest=source)
        return
    lag_s = None
    if source.committed_at_us is not None:
        lag_s = max(0.0, datetime.now(UTC).timestamp() - source.committed_at_us / 1e6)
    if whole is None:
        _note(url, source=source, lag_s=lag_s, applied=before.applied + 1)
    else:
        times = before.read_whole + 1
        _note(url, source=source, lag_s=lag_s, read_whole=times, read_whole_why=whole)


def _note(url: str, **values: Any) -> None:
    with _lock:
        _tables[url] = replace(_tables.get(url, RefreshProgress()), **values)


def source_of(url: str | None, version: int | None) -> SourceVersion | None:
    """The version of the source that a version of a table has; None for one that follows none.

    A micro-batch may use a version before who has published it here has noted that, and one that
    others have published: then its manifest tells.
    """
    with _lock:
        known = _sources.get(url or "")
        if url is None or version is None or known is None:
            return None
        if version in known:
            return known[version]
    try:
        source = versions.load(StorageLocation.of(url), version).source
    except VersionNotFoundError:
        source = None
    except (OSError, StoreError):
        return None
    with _lock:  # whatever it is: it is asked for with each progress of a micro-batch
        return known.setdefault(version, source)


def url_of(label: str) -> str | None:
    """The location of the table of a join, by its label; None if it has none."""
    with _lock:
        return _joins.get(label.partition(":")[0])


def follow(label: str, url: str) -> None:
    """Remember which table a join has."""
    with _lock:
        _joins[label.partition(":")[0]] = url


def of_join(number: int) -> RefreshProgress | None:
    """The refreshes of the table of a join, as of now; None if that is not known."""
    return of_table(url_of(str(number)))


def of_table(url: str | None) -> RefreshProgress | None:
    """The refreshes of the table at a location; None if it was not built here."""
    with _lock:
        return _tables.get(url or "")


def error_text(error: Exception, url: str = "") -> str:
    """The kind and the message of an error in one line, without credentials, also of ``url``."""
    text = " ".join(scrubbed(f"{type(error).__name__}: {error}", secrets_of(url)).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
