"""A table that follows its source: looks, and the steps that they lead to."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from bsjoin._clock import now_us
from bsjoin.build.apply import apply_changes
from bsjoin.build.steps import (
    Advance,
    NotTold,
    Step,
    TooMany,
    can_step,
    has_identity,
    is_keyed,
    most_rows,
)
from bsjoin.build.storing import refreshed
from bsjoin.errors import DuplicateKeyError, SourceError, StoreError
from bsjoin.following.protocol import Changes, Followed, SourceVersion
from bsjoin.metrics.refreshes import (
    error_text,
    failures_recorded,
    looked,
    published,
    recorded,
    succeeded,
)
from bsjoin.options import Full
from bsjoin.planner.uses import naming_queries
from bsjoin.spark import sql
from bsjoin.storage import Manifest, StorageLocation, versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("bsjoin")

_SHORTEST_S, _LONGEST_S = 0.2, 300.0
_LONGEST_AFTER_ERRORS_S = 60.0
_SHARE = 0.05  # of the time that looks may take
_CONFIRMED_EVERY_S = 30.0
# After the source was read whole it is not for so many times as long as that took.
_PAUSES_OF_WHOLE_READS = 4.0
# Errors of the source may pass: the changes are asked for again by the next looks.
_LOOKS_FOR_CHANGES = 3
_UPSERT, _DELETE = "upsert", "delete"


def note_source(location: StorageLocation) -> None:
    """Remember which version of its source the newest version of a table has, for ``progress``."""
    manifest = versions.latest(location)
    if manifest.source is not None:
        published(location.url, manifest.version, manifest.source, is_first=True)


class Following:
    """The looks at one table's source. One thread calls it.

    Args:
        location: where the table is stored.
        followed: its source.
        options: of the table.
        adds: whether columns that the source has and the table has not are added to it.
        tidy: called with each version that is published, to remove old ones.
    """

    def __init__(
        self,
        location: StorageLocation,
        followed: Followed,
        options: Full,
        *,
        adds: bool,
        tidy: Callable[[Manifest], None],
    ):
        self._location, self.followed, self._options = location, followed, options
        self._adds, self._tidy = adds, tidy
        self._costs: deque[float] = deque(maxlen=5)
        self._failures = 0
        self._confirmed_s = -_CONFIRMED_EVERY_S
        self._said: str | None = None  # why the source is read whole
        self._warned: str | None = None
        self._whole_s = 0.0  # not before that time, of the monotonic clock
        self._put_off: SourceVersion | None = None  # nothing but a whole read leads on from it
        self._errors = 0  # of changes, one after the other
        self._had = False  # the table has had rows that this source reads

    def pause_s(self) -> float:
        """How long to wait until the next look: such that looks take a small part of the time."""
        shortest = max(_SHORTEST_S, min(self._costs, default=0.0) / _SHARE)
        shortest = min(shortest, _LONGEST_S)
        if self._failures:
            longer = min(shortest * 2**self._failures, _LONGEST_AFTER_ERRORS_S)
            return float(max(shortest, longer))
        return shortest

    def look(self) -> None:
        """Look at the source, and let the table have its newest version.

        Raises:
            Exception: the source, or the table, cannot be read or written. The table stays as it
                is, and the next look tries again.
        """
        began = datetime.now(UTC)
        try:
            with failures_recorded(self._location.url), naming_queries(self._location):
                is_there = self._look()
        except BaseException:
            self._failures = min(self._failures + 1, 16)
            raise
        self._failures = 0
        if is_there:
            succeeded(self._location.url, began)

    def _look(self) -> bool:
        """Whether the table has the newest version of the source now, as far as that is known."""
        # The table first: the source is then at that version, or at a later one.
        before, began_us, began_s = versions.latest(self._location), now_us(), time.monotonic()
        until = self.followed.version()
        self._costs.append(time.monotonic() - began_s)
        if until is None:
            return False
        looked(self._location.url, until, before.source)
        if self._has(before.source, until):
            self._confirm(before, began_us)
            return True
        is_early = time.monotonic() < self._whole_s
        if is_early and before.source is not None and before.source == self._put_off:
            return False
        after, why = self._stepped(before, until, began_us, _LOOKS_FOR_CHANGES), None
        if after is None:
            if is_early:
                self._put_off = before.source
                return False
            why = self._said or "the source does not tell what has changed"
            after = self._read_whole(before, until)
        self._put_off = None
        if after.source == until and after.version != before.version:
            published(self._location.url, after.version, until, whole=why, is_first=False)
        self._tidy(after)
        return after.source is not None and self.followed.has(after.source, until)

    def _has(self, source: SourceVersion | None, until: SourceVersion) -> bool:
        """Whether the table has a version of its source, or a newer one.

        At a start a table is taken over: the code may be a newer one. After that, two that read
        different things would replace the rows of each other for ever.
        """
        if source is None:
            return False
        if source.selection == until.selection:
            self._had = True
        elif self._had:
            raise SourceError(
                f"this table does not follow {until.source} any more: another application has put "
                f"rows of {source.source} into it, with other filters, columns or settings of the "
                "session, or by operators that cannot be compared (docs/how-to/table.md, "
                '"When is a source unchanged?"). Give each its own store, or end one of them and '
                "start the other again"
            )
        return self.followed.has(source, until)

    def _read_whole(self, before: Manifest, until: SourceVersion) -> Manifest:
        """Read the source whole, and note when that may be done again."""
        began_s = time.monotonic()
        try:
            with recorded(self._location.url):
                return refreshed(
                    self._location,
                    self.followed.at(until),
                    self._options,
                    adds=self._adds,
                    advance=Advance(until, before.source),
                )
        finally:
            took_s = time.monotonic() - began_s
            pause_s = _PAUSES_OF_WHOLE_READS * took_s
            if limit_s := self._options.max_staleness_s:  # the next one may take twice as long
                pause_s = min(pause_s, max(0.0, limit_s - 3 * took_s))
            self._whole_s = began_s + took_s + pause_s

    def _confirm(self, manifest: Manifest, began_us: int) -> None:
        """Note that a version has the rows of the source; a note is a file, so not at each look."""
        limit_s = self._options.max_staleness_s
        every_s = min(_CONFIRMED_EVERY_S, limit_s / 4) if limit_s else _CONFIRMED_EVERY_S
        if time.monotonic() - self._confirmed_s >= every_s:
            versions.confirm(self._location, manifest, began_us)
            self._confirmed_s = time.monotonic()

    def catch_up(self, until: SourceVersion, began_us: int) -> None:
        """Let a table that was stored before have a version of the source, if changes tell it.

        Raises:
            SourceError: the changes cannot be read, and ``fail_on_data_loss`` says to stop.
            StoreError, DuplicateKeyError: the version cannot be published.
        """
        if not versions.numbers(self._location):
            return
        before = versions.latest(self._location)
        if not self._has(before.source, until):
            with naming_queries(self._location):
                self._stepped(before, until, began_us, looks=1)  # a start does not ask again

    def _stepped(
        self, before: Manifest, until: SourceVersion, began_us: int, looks: int
    ) -> Manifest | None:
        """Apply the changes up to a version of the source; None if it has to be read whole.

        So many looks, one after the other, ask for changes that cannot be read.
        """
        self._said = None
        since = before.source
        if since is None:
            return None
        if not since.is_of(until):
            self._said = _why_other(since, until)
            return None
        try:
            after = self._changed(before, since, until, began_us)
        except NotTold as error:
            self._said, after = str(error), None
        except (StoreError, DuplicateKeyError):
            raise
        except Exception as error:
            self._failed(since, until, error, looks)
            return None
        self._errors = 0
        return after

    def _changed(
        self, before: Manifest, since: SourceVersion, until: SourceVersion, began_us: int
    ) -> Manifest | None:
        """The version that the changes lead to; None if the source does not tell them.

        Raises:
            NotTold: they do not lead to one.
        """
        changes = self.followed.changes(since, until)
        if changes is None:
            return None
        if changes.key is None and not can_step(before):
            raise NotTold("the table does not store what changes need, or a key has a collation")
        if changes.key is not None and not has_identity(before, changes.key):
            raise NotTold(
                "the table does not store the key of its rows, has the latest alone, or a key of "
                "it has a collation"
            )
        step = Step(since, until, began_us, key=changes.key, most=most_rows(before))
        return self._applied(before, changes, step)

    def _applied(self, before: Manifest, changes: Changes, step: Step) -> Manifest:
        if step.key is not None or is_keyed(before):
            try:
                return self._apply(changes.rows, step, changes.op, changes.sequence)
            except TooMany:
                raise
            except NotTold:
                if step.key is not None:
                    raise
        # All rows that the touched keys have at that version.
        step = replace(step, whole_keys=True)
        at = None if changes.at is None else changes.at()
        if at is None:
            raise NotTold("the rows of a version cannot be read")
        op = "change"
        while any(name.lower().startswith(op) for name in at.columns):
            op += "_"
        pairs = [(key.name, f"{op}_{i}", key.nulls_equal) for i, key in enumerate(before.keys)]
        keys = changes.rows.selectExpr(
            *(f"{sql.column(name)} AS {sql.quoted(other)}" for name, other, _ in pairs)
        )
        if step.most is not None:  # with more of them the rows below are too many as well
            keys = keys.limit(step.most + 1)
        same = " AND ".join(
            f"{sql.column(name)} {'<=>' if is_safe else '='} {sql.quoted(other)}"
            for name, other, is_safe in pairs
        )
        now = at.join(F.broadcast(keys), F.expr(same), "left_semi").withColumn(op, F.lit(_UPSERT))
        gone = changes.rows.selectExpr(*map(sql.column, at.columns))
        rows = now.unionAll(gone.withColumn(op, F.lit(_DELETE)))
        return self._apply(rows, step, op, None)

    def _apply(self, rows: DataFrame, step: Step, op: str | None, sequence: str | None) -> Manifest:
        after, _ = apply_changes(
            self._location, rows, key=step.key, op=op, sequence=sequence, step=step
        )
        return after

    def _failed(
        self, since: SourceVersion, until: SourceVersion, error: Exception, looks: int
    ) -> None:
        """Say that changes cannot be read.

        Raises:
            SourceError: it is wanted that the table stays as it is then; or the next looks are to
                ask for them again.
        """
        why = error_text(error, self._location.url)
        what = f"the changes of {since.source} from {since.version} to {until.version}"
        if self._options.fail_on_data_loss:
            raise SourceError(
                f"{what} cannot be read, and fail_on_data_loss=True keeps the table as it is. "
                f"Build it again, or leave that out: {why}"
            ) from error
        self._errors += 1
        passes = not isinstance(error, SourceError) or error.is_transient
        if passes and self._errors < looks:
            raise SourceError(f"{what} cannot be read; they are asked for again: {why}") from error
        self._errors = 0
        level = logging.INFO if why == self._warned else logging.WARNING
        _log.log(level, "bsjoin: %s cannot be read, so it is read whole: %s", what, why)
        self._said = self._warned = why


def _why_other(since: SourceVersion, until: SourceVersion) -> str:
    """Why no change leads from one version to another one."""
    if since.source != until.source:
        return f"the table has rows of {since.source}"
    if since.identity != until.identity:
        return f"{until.source} is another one than before, or has other columns"
    return "other columns or filters of it are read"
