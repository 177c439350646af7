"""What commits of Delta have changed: by which files their log says that rows came and went.

A commit with files of the change data feed has all its changes in them, with the rows as they were
and as they are. Of any other one, all rows of the files that were added came, and all rows of those
that were removed went; but files of which the log says that they change no data only move rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from bsjoin.errors import SourceError

_MOST_FILES = 10_000
_LONGEST = 200  # of what a message shows
_ABSOLUTE = re.compile("/|[A-Za-z][A-Za-z0-9+.-]*:")  # from the root of the store, or a URL


@dataclass(frozen=True)
class ChangedFile:
    """A file with rows that came or went.

    Args:
        path: below the table's folder.
        change: ``insert`` or ``delete``, of all its rows; None: a column of the file says it.
        version: of the commit.
        partition: the values of columns that partition the table, by their physical names.
        size: in bytes; None if the log does not tell it.
    """

    path: str
    change: str | None
    version: int
    partition: Mapping[str, str | None]
    size: int | None


@dataclass(frozen=True)
class Commit:
    """The actions of a commit: name and content of each."""

    version: int
    actions: tuple[tuple[str, Mapping[str, Any]], ...]

    @classmethod
    def parsed(cls, version: int, text: bytes) -> Commit:
        """A commit from its file in the log."""
        actions = []
        try:
            for line in filter(None, map(bytes.strip, text.splitlines())):
                (found,) = json.loads(line).items()
                if not isinstance(found[1], dict):
                    raise ValueError(f"{found[0][:_LONGEST]!r} is {type(found[1]).__name__}")
                actions.append(found)
        except (AttributeError, ValueError, RecursionError) as error:
            raise SourceError(
                f"commit {version} in the log is no list of actions: {error}"
            ) from None
        return cls(version, tuple(actions))

    def named(self, *names: str) -> list[Mapping[str, Any]]:
        """The contents of the actions of some names."""
        return [content for name, content in self.actions if name in names]

    @property
    def committed_at_us(self) -> int | None:
        """When it was committed; None if it does not tell."""
        for content in self.named("commitInfo"):
            if type(at_ms := content.get("timestamp")) is int:
                return at_ms * 1000
        return None


def log_file(version: int) -> str:
    """The file of a commit, below the table's folder.

    >>> log_file(17)
    '_delta_log/00000000000000000017.json'
    """
    return f"_delta_log/{version:020}.json"


def changed_files(
    commits: Iterable[Commit], partition: Collection[str] = ()
) -> list[ChangedFile] | str:
    """The files with what some commits have changed; or why they do not tell it.

    ``partition`` has physical names of columns that are in the log instead of the files, and are
    read.
    """
    found: list[ChangedFile] = []
    for commit in commits:
        one = _of_commit(commit, partition)
        if isinstance(one, str):
            return f"commit {commit.version} {one}"
        found += one
        if len(found) > _MOST_FILES:
            return f"more than {_MOST_FILES:,} files have changed"
    return found


def _of_commit(commit: Commit, partition: Collection[str]) -> list[ChangedFile] | str:
    if commit.named("metaData", "protocol"):
        return "has changed the table's columns or properties, or its protocol"
    kinds: tuple[tuple[str, str | None], ...] = (("cdc", None),)
    if not commit.named("cdc"):
        kinds = (("remove", "delete"), ("add", "insert"))
    found = []
    for name, change in kinds:
        for content in commit.named(name):
            if change is not None and content.get("dataChange") is False:
                continue
            one = _file(commit.version, change, content, partition)
            if isinstance(one, str):
                return one
            found.append(one)
    return found


def _file(
    version: int, change: str | None, content: Mapping[str, Any], partition: Collection[str]
) -> ChangedFile | str:
    if content.get("deletionVector") is not None:
        return "tells by deletion vectors which rows changed, and not by a change data feed"
    given = content.get("path")
    shown = repr(str(given)[:_LONGEST])
    path = unquote(given) if isinstance(given, str) else ""
    if not path or ".." in path.split("/") or any(map(_ABSOLUTE.match, (str(given), path))):
        return f"names the file {shown}, which is not in the table's folder"
    told = content.get("partitionValues")
    # Spark leaves nulls out; a file that is removed need not have the values at all.
    lacking = 0 if change == "delete" and content.get("extendedFileMetadata") is not True else None
    values = {}
    for name in partition:
        value = told.get(name, lacking) if isinstance(told, dict) else 0
        if not (value is None or isinstance(value, str)):
            return f"does not tell the partition of {shown}"
        if value == "":
            return "has a partition by an empty text, which is null to some readers"
        values[name] = value
    size = content.get("size")
    return ChangedFile(path, change, version, values, size if type(size) is int else None)
