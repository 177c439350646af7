"""Lists the files that belong to a Parquet folder, as Spark does.

Files of other table formats are refused: a folder of Delta or Iceberg keeps files with rows that
were removed. The folder of a streaming query's file sink has a log of the files that count.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pafs

from bsjoin.errors import SourceError
from bsjoin.sources.transient import TransientSourceError
from bsjoin.storage.location import stamp_of

SUMMARIES = ("_common_metadata", "_metadata")

_SINK = "_spark_metadata"
_LOGGED = re.compile(r"(\d+)(\.compact)?")
_FORMATS = {
    "a Delta table": (
        re.compile("_delta_log/"),
        'join with sources.delta(...), or with spark.read.format("delta").load(...)',
    ),
    "an Iceberg table": (
        re.compile(r"metadata/[^/]*\.metadata\.json$"),
        "join with sources.iceberg(...), or with spark.table(...) of its catalog",
    ),
    "a Hudi table": (re.compile(r"\.hoodie/"), 'join with spark.read.format("hudi").load(...)'),
    "a Paimon table": (
        re.compile(r"snapshot/snapshot-\d+$"), "join with spark.table(...) of its catalog"
    ),
}  # fmt: skip


class Remote(pafs.FSSpecHandler):  # type: ignore[misc]
    """Files of fsspec: Arrow asks for their times by a name that few of its file systems have."""

    def _create_file_info(self, path: str, info: dict[str, Any]) -> Any:
        found = super()._create_file_info(path, info)
        told = zlib.crc32(repr(stamp_of(info)).encode())
        return pafs.FileInfo(path, found.type, size=found.size, mtime_ns=told)


@dataclass(frozen=True)
class Found:
    """A file.

    Args:
        path: in its file system.
        relative: below the folder; its name for a single file.
        size: in bytes; None: not known.
        mtime_ns: when it was changed; of a remote file a number that is another one after a change.
            None: not known.
    """

    path: str
    relative: str
    size: int | None
    mtime_ns: int | None

    @property
    def folder(self) -> str:
        """The folder, below the root."""
        return self.relative.rpartition("/")[0]


@dataclass(frozen=True)
class Listing:
    """The content of a folder.

    Args:
        data: the files with rows, in the order of their paths.
        summaries: files that Spark takes the schema from, the best first.
    """

    data: tuple[Found, ...]
    summaries: tuple[Found, ...] = ()


def listing_of(filesystem: Any, root: str, what: str) -> Listing | None:
    """The files at a path; None if there is nothing."""
    info = filesystem.get_file_info(root)
    if info.type == pafs.FileType.NotFound:
        return None
    if info.type != pafs.FileType.Directory:
        return Listing((_found(info, info.path.rpartition("/")[2]),))
    infos = filesystem.get_file_info(pafs.FileSelector(root, recursive=True))
    start = len(infos[0].path) - len(_below(infos[0].path, root)) if infos else 0
    files = [_found(info, info.path[start:]) for info in infos if info.type == pafs.FileType.File]
    _refuse_other_formats((file.relative for file in files), what)
    logs = [file for file in files if file.relative.startswith(f"{_SINK}/")]
    data = [file for file in files if not _is_hidden(file.relative)]
    if logs or any(info.path[start:] == _SINK for info in infos):
        data = _of_sink(data, logs, lambda file: _read(filesystem, file.path), what)
    summaries = [
        file
        for name in SUMMARIES
        for file in files
        if file.relative.rpartition("/")[2] == name and not _is_hidden(file.folder)
    ]
    return Listing(tuple(sorted(data, key=lambda file: file.path)), tuple(summaries))


def other_format_above(filesystem: Any, root: str, what: str) -> None:
    """Refuse a path inside a table of another format."""
    parent = root.rstrip("/")
    while "/" in parent.strip("/"):
        parent = parent.rpartition("/")[0]
        for folder in ("_delta_log", ".hoodie", "metadata"):
            try:
                names = _names(filesystem, f"{parent}/{folder}")
            except Exception:  # folders above may be closed to this user
                continue
            _refuse_other_formats((f"{folder}/{name}" for name in names), what)


def _names(filesystem: Any, folder: str) -> list[str]:
    if filesystem.get_file_info(folder).type != pafs.FileType.Directory:
        return []
    return [info.base_name for info in filesystem.get_file_info(pafs.FileSelector(folder))]


def _below(path: str, root: str) -> str:
    """A path relative to the folder, which a file system may spell in its own way."""
    base = root.rstrip("/")
    if path.startswith(f"{base}/"):
        return path[len(base) + 1 :]
    base = base.lstrip("/")
    place = path.find(f"{base}/")
    return path[place + len(base) + 1 :] if base and place >= 0 else path


def _found(info: Any, relative: str) -> Found:
    return Found(info.path, relative, info.size, info.mtime_ns)


def _is_hidden(relative: str) -> bool:
    return any(
        (part.startswith("_") and "=" not in part) or part.startswith(".")
        for part in relative.split("/")
    ) or relative.endswith("._COPYING_")


def _refuse_other_formats(relatives: Iterable[str], what: str) -> None:
    for relative in relatives:
        for name, (pattern, advice) in _FORMATS.items():
            if pattern.match(relative):
                raise SourceError(
                    f"{what}: this is {name}, whose folder also has files with rows that were "
                    f"changed or removed: {advice} and cache=bsjoin.Full(...) instead of "
                    "sources.parquet"
                )


def _read(filesystem: Any, path: str) -> bytes:
    with filesystem.open_input_stream(path) as file:
        return bytes(file.read())


def _of_sink(
    data: list[Found], logs: list[Found], read: Callable[[Found], bytes], what: str
) -> list[Found]:
    """The files of batches that were committed, which the log of the sink names."""
    named = {}
    for file in logs:
        found = _LOGGED.fullmatch(file.relative.rpartition("/")[2])
        if found:
            named[int(found[1]), bool(found[2])] = file
    compact = max((number for number, is_compact in named if is_compact), default=-1)
    wanted = [(compact, True)] if compact >= 0 else []
    wanted += sorted(key for key in named if key[0] > compact and not key[1])
    actions: dict[str, str] = {}
    for key in wanted:
        for line in read(named[key]).decode().splitlines()[1:]:
            entry = json.loads(line)
            actions[entry["path"]] = entry.get("action", "add")
    there = {file.relative: file for file in data}
    kept = []
    for uri, action in actions.items():
        if action == "delete":
            continue
        relative = _relative(uri, there)
        if relative is None:
            raise TransientSourceError(
                f"{what}: the log of the streaming sink names {unquote(urlsplit(uri).path)!r}, "
                "which is not in the folder"
            )
        kept.append(there[relative])
    return kept


def _relative(uri: str, there: Mapping[str, Found]) -> str | None:
    """The file of the log's URI; schemes and hosts differ between file systems."""
    path = unquote(urlsplit(uri).path)
    parts = path.split("/")
    # The longest ending is the file: those of partitions may have equal names.
    for place in range(len(parts)):
        relative = "/".join(parts[place:])
        if relative in there:
            return relative
    return None
