"""Commands on a table's path or URL."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from bsjoin._clock import now_us
from bsjoin._show import columns, in_bytes
from bsjoin.commands import building
from bsjoin.commands.answer import Answer
from bsjoin.errors import ArgumentError, ColumnError, StoreError
from bsjoin.storage import Manifest, StorageLocation, builds, versions
from bsjoin.storage.open_table import OpenTable
from bsjoin.values.durations import microseconds_ago
from bsjoin.values.plain import plain
from bsjoin.values.python_values import shown
from bsjoin.values.retype import whole


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the commands to a parser of ``argparse``."""

    def command(name: str, run: object, told: str, *, version: bool = False) -> Any:
        made = commands.add_parser(name, help=told, description=told, parents=[shared])
        made.set_defaults(run=run)
        made.add_argument("table", help="folder or URL of the table")
        if version:
            made.add_argument("--version", type=int, help="of which version; default: the newest")
        return made

    command("versions", _versions, "list the versions that are stored, oldest first")
    command("stats", _stats, "rows, keys, columns and bytes of a version", version=True)
    told = "compare every file of every version with its checksum"
    command("verify", _verify, told)
    told = "remove versions that no micro-batch can need any more"
    vacuum = command("vacuum", _vacuum, told)
    told = "how many of the newest versions stay in any case; 1"
    vacuum.add_argument("--keep", type=int, default=1, help=told)
    told = "how long a version stays after its successor became active; '7 days'"
    vacuum.add_argument("--older-than", default="7 days", help=told)
    told = "print some rows, evenly spread over the table"
    sample = command("sample", _sample, told, version=True)
    sample.add_argument("--rows", type=int, default=10, help="how many; 10")
    told = "which columns, separated by commas; default: all"
    sample.add_argument("--columns", help=told)
    building.add_to(commands, shared)


def _location(options: argparse.Namespace) -> StorageLocation:
    location = StorageLocation.of(options.table)
    location.check_shared()
    return location


def _manifest(options: argparse.Namespace, location: StorageLocation) -> Manifest:
    if options.version is None:
        return versions.latest(location)
    versions.check_there(location)
    return versions.load(location, options.version)


def _versions(options: argparse.Namespace) -> Answer:
    location = _location(options)
    versions.check_there(location)
    lines: list[tuple[object, ...]] = [("version", "created (UTC)", "rows", "size")]
    data = []
    for manifest in versions.there(location):
        created = datetime.fromtimestamp(manifest.created_at_us / 1e6, UTC)
        stats = manifest.stats
        size = in_bytes(stats.bytes)
        lines.append((manifest.version, f"{created:%Y-%m-%d %H:%M:%S}", stats.rows, size))
        data.append(
            {
                "version": manifest.version,
                "created_at": created,
                "rows": stats.rows,
                "bytes": stats.bytes,
            }
        )
    return Answer(columns(lines), data)


def _stats(options: argparse.Namespace) -> Answer:
    manifest = _manifest(options, _location(options))
    stats = manifest.stats
    built_for = [] if manifest.condition is None else [manifest.condition]
    built_for += [box.condition for box in manifest.boxes]
    said: list[tuple[str, object]] = [
        ("version", str(stats.version)),
        ("keys", ", ".join(map(str, manifest.keys)) or "none"),
        ("unique", "yes" if manifest.unique else "not declared"),
        ("conditions", ", ".join(map(repr, built_for)) or "none"),
        ("rows", f"{stats.rows:,}"),
        ("rows that match nothing", "not stored" if stats.unindexed is None else stats.unindexed),
        ("distinct keys", f"{stats.keys:,}"),
        ("rows of one key, at most", f"{stats.longest_run:,}"),
        ("latest rows by", ", ".join(stats.latest_by) or "all rows"),
        ("size", in_bytes(stats.bytes)),
        ("segments", str(stats.segments)),
        ("source read", f"{stats.build_s:.1f} s before it was published"),
        ("columns", ", ".join(manifest.columns)),
    ]
    data = asdict(stats) | {
        "key_columns": [asdict(key) for key in manifest.keys],
        "unique": manifest.unique,
        "conditions": [repr(one) for one in built_for],
        "columns": manifest.columns,
    }
    return Answer(columns((name, str(value)) for name, value in said), data)


def _verify(options: argparse.Namespace) -> Answer:
    lines, data = [], []
    for number, found in versions.checked(_location(options)):
        if isinstance(found, StoreError):
            said = fault = str(found)
        else:
            fault = None
            said = f"{len(found.files)} files, {in_bytes(found.stats.bytes)}, sound"
        lines.append(f"version {number}: {said}")
        data.append({"version": number, "sound": fault is None, "fault": fault})
    return Answer("\n".join(lines), data, sound=all(one["sound"] for one in data))


def _vacuum(options: argparse.Namespace) -> Answer:
    location = _location(options)
    versions.check_there(location)
    from_us = now_us() - microseconds_ago(options.older_than, "--older-than")
    gone = builds.vacuum(location, options.keep, from_us, "--keep")
    text = f"removed: {', '.join(map(str, gone)) or 'none'}; left: "
    left = versions.numbers(location)
    return Answer(text + ", ".join(map(str, left)), {"removed": gone, "left": left})


def _sample(options: argparse.Namespace) -> Answer:
    location = _location(options)
    manifest = _manifest(options, location)
    if options.rows < 1:
        raise ArgumentError(f"--rows={options.rows}: give 1 or more")
    names = manifest.columns
    if options.columns is not None:
        listed = options.columns.split(",")
        names = [name if name in manifest.columns else name.strip() for name in listed]
    for name in names:
        if name not in manifest.columns:
            raise ColumnError(
                f"--columns={options.columns}: the table in {str(location)!r} has no column "
                f"{name!r}; it has {', '.join(manifest.columns)}"
            )
    total = manifest.stats.rows
    places = np.unique(np.linspace(0, max(0, total - 1), min(options.rows, total)).astype(np.int64))
    parts, begin = [], 0
    table = OpenTable(location, manifest)
    for number, segment in enumerate(table.segments):
        shown = np.flatnonzero(table.visible(number))
        end = begin + len(shown)
        rows = pa.array(shown.take(places[(places >= begin) & (places < end)] - begin))
        taken = [
            segment.column(manifest.compared + manifest.columns.index(name)).take(rows)
            for name in names
        ]
        parts.append(pa.table(taken, names=names))
        begin = end
    found = _values(pa.concat_tables(parts)) if parts else []
    lines = [names, *([_shown(row[name]) for name in names] for row in found)]
    return Answer(columns(lines), found)


def _values(table: pa.Table) -> list[dict[str, Any]]:
    """The rows. Texts of Spark need not be UTF-8: what is not has the replacement character.

    What Python has no values for, as dates after 9999, are texts.
    """
    columns = [plain(whole(column), _readable) for column in table.columns]
    found: list[dict[str, Any]] = pa.table(columns, table.column_names).to_pylist()
    return found


def _readable(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        texts = array.view(pa.binary()).to_pylist()
        read = [None if text is None else text.decode("utf-8", "replace") for text in texts]
        return pa.array(read, pa.string())
    try:
        array.to_pylist()
    except (ValueError, OverflowError):
        return pa.array([shown(one) if one.is_valid else None for one in array], pa.string())
    return array


def _shown(value: object) -> str:
    """The text of a cell."""
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
