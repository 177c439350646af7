"""``parquet``: Parquet files, of which a look-up reads only matching row groups."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from bsjoin._secrets import hidden, scrubbed, secrets_of
from bsjoin.errors import ArgumentError, BSJoinError, SourceError, StoreError
from bsjoin.sources.arguments import check_max_keys
from bsjoin.sources.protocol import Source
from bsjoin.sources.row_groups import MinMax, min_max_of, sorted_keys, touched
from bsjoin.sources.transient import TransientSourceError, run_translated
from bsjoin.sources.types import as_schema, fitted, overridden, sparkable, wanted_columns
from bsjoin.store.addresses import address_of, opened

__all__ = ["parquet"]

T = TypeVar("T")

_LISTED_EVERY_S = 3.0


def parquet(
    path: str | os.PathLike[str],
    *,
    schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
    unique: bool | None = None,
    max_keys: int = 10_000,
) -> Source:
    """Parquet files, looked up without a database.

    A look-up reads only the row groups whose minimum and maximum statistics admit one of the keys
    (also called zone maps); sorted files benefit most. New, removed and changed files are detected
    within three seconds.

    Args:
        path: a file, a folder (Hive partitioning: ``column=value`` subfolders are columns), or an
            fsspec URL such as ``s3://bucket/folder``; options of the file system come from fsspec's
            configuration.
        schema: Arrow types for some or all columns, which replace those of the files. The columns
            are those of the first file. ``None`` (default): the files' types.
        unique: whether a key has at most one row. ``None`` (default): False, because files do not
            guarantee it.
        max_keys: the maximum number of keys per look-up; default 10,000.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups and scans.

    Raises:
        ArgumentError: an argument is invalid.

    Complexity: A look-up of n keys costs O(g log n) for g row groups, and reads the matching ones.
        The first look-up reads the footer of every file.

    Example:
        >>> parquet("/srv/planes")
        parquet('/srv/planes')
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ArgumentError(f"path={path!r}: give a file, a folder or a URL")
    if unique is not None and not isinstance(unique, bool):
        raise ArgumentError(f"unique={unique!r}: give True or False")
    check_max_keys(max_keys)
    try:
        address = address_of(path)
    except StoreError as error:
        raise ArgumentError(f"path: {error}") from None
    return _Parquet(address, None if schema is None else as_schema(schema), bool(unique), max_keys)


@dataclass
class _File:
    """A listed file, with the statistics from its footer."""

    mark: tuple[str, int, int | None]
    fragment: ds.ParquetFileFragment
    fixed: dict[str, Any]
    bounds: dict[str, list[MinMax]] = field(default_factory=dict)

    def bounds_in(self, name: str, dtype: pa.DataType) -> list[MinMax]:
        if name not in self.bounds:
            metadata = self.fragment.metadata
            if name in self.fixed:
                value = pa.scalar(self.fixed[name]).cast(dtype).as_py()
                known: MinMax = None if value is None else (value, value)
                self.bounds[name] = [known] * metadata.num_row_groups
            else:
                self.bounds[name] = min_max_of(metadata, name, dtype)
        return self.bounds[name]


@dataclass
class _Listing:
    """The files at a point in time."""

    pid: int
    at: float
    filesystem: Any
    dataset: ds.FileSystemDataset
    files: list[_File]


class _Parquet(Source):
    #: Row groups that look-ups of this process have considered, and have read.
    groups_seen = 0
    groups_read = 0
    listed_every_s = _LISTED_EVERY_S

    def __init__(self, path: str, override: pa.Schema | None, unique: bool, max_keys: int) -> None:
        super().__init__()
        self._path, self._override, self._unique = path, override, unique
        self.max_keys = max_keys
        self._root = path
        self._schema: pa.Schema | None = None
        self._listing: _Listing | None = None

    @property
    def schema(self) -> pa.Schema:
        if self._schema is None:
            found = self._execute(lambda: self._current().dataset.schema, at_once=True)
            declared = [(f.name, sparkable(f.type), str(f.type)) for f in found]
            self._schema = overridden(declared, self._override, repr(self))
        return self._schema

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        names = wanted_columns(self.schema, keys.column_names, columns, repr(self))
        wanted = pa.schema([pa.field(name, self.schema.field(name).type) for name in names])
        return self._execute(lambda: self._rows(keys, wanted))

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = wanted_columns(self.schema, columns or (), columns, repr(self))
        wanted = pa.schema([pa.field(name, self.schema.field(name).type) for name in names])
        return self._scanned(wanted)

    def _scanned(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        def begun() -> Iterator[pa.RecordBatch]:
            return iter(self._current().dataset.to_batches(columns=wanted.names))

        batches = self._execute(begun, at_once=True)
        while True:
            batch = self._execute(lambda: next(batches, None), at_once=True)
            if batch is None:
                return
            yield from fitted(pa.Table.from_batches([batch]), wanted, repr(self)).to_batches()

    def size(self) -> int:
        def count() -> int:
            return sum(file.fragment.metadata.num_rows for file in self._current().files)

        return self._execute(count, at_once=True)

    def is_unique(self, columns: Sequence[str]) -> bool:
        return self._unique

    def close(self) -> None:
        self._listing = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_listing": None}

    def __repr__(self) -> str:
        return f"parquet({hidden(self._path) if '://' in self._path else self._path!r})"

    def _rows(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        listing = self._current()
        fragments = self._admitted(listing, keys)
        if not fragments:
            return wanted.empty_table()
        found = listing.dataset.schema
        part = ds.FileSystemDataset(
            fragments, found, listing.dataset.format, filesystem=listing.filesystem
        )
        late = {}
        condition = None
        for name in keys.column_names:
            values = _both_zeros(keys.column(name).combine_chunks())
            # Arrow's own filter by statistics misses rows with NaN.
            if found.field(name).type == values.type and not _has_nan(values):
                test = pc.field(name).isin(values)
                condition = test if condition is None else condition & test
            else:
                late[name] = values
        table = fitted(part.to_table(columns=wanted.names, filter=condition), wanted, repr(self))
        for name, values in late.items():
            column = table.column(name)
            equal = pc.is_in(column, value_set=values)
            table = table.filter(pc.or_(equal, pc.is_nan(column)) if _has_nan(values) else equal)
        return table

    def _admitted(self, listing: _Listing, keys: pa.Table) -> list[ds.ParquetFileFragment]:
        """The files with the row groups that can contain a key."""
        ordered = {name: sorted_keys(keys.column(name)) for name in keys.column_names}
        fragments = []
        for file in listing.files:
            groups = list(range(file.fragment.metadata.num_row_groups))
            self.groups_seen += len(groups)
            for name, values in ordered.items():
                if values is not None:
                    bounds = file.bounds_in(name, self.schema.field(name).type)
                    groups = [group for group in groups if touched(values, bounds[group])]
            if groups:
                self.groups_read += len(groups)
                fragments.append(file.fragment.subset(row_group_ids=groups))
        return fragments

    def _current(self) -> _Listing:
        """The files; listed again after a few seconds, footers of unchanged files are reused."""
        old = self._listing
        if old is not None and old.pid != os.getpid():
            old = None
        now = time.monotonic()
        if old is not None and now - old.at < self.listed_every_s:
            return old
        filesystem, root = self._filesystem() if old is None else (old.filesystem, self._root)
        marks = self._marks(filesystem, root)
        if old is not None and [file.mark for file in old.files] == marks:
            old.at = now
            return old
        dataset = ds.dataset(
            [mark[0] for mark in marks],
            filesystem=filesystem,
            format="parquet",
            partitioning=ds.partitioning(flavor="hive"),
            partition_base_dir=root,
        )
        known = {} if old is None else {file.mark: file for file in old.files}
        fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}
        files = [known.get(mark) or _file(mark, fragments[mark[0]]) for mark in marks]
        self._listing = _Listing(os.getpid(), now, filesystem, dataset, files)
        return self._listing

    def _filesystem(self) -> tuple[Any, str]:
        if "://" not in self._path:
            filesystem, self._root = pafs.LocalFileSystem(), self._path
        else:
            remote, self._root = opened(self._path)
            filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(remote))
        return filesystem, self._root

    def _marks(self, filesystem: Any, root: str) -> list[tuple[str, int, int | None]]:
        if isinstance(filesystem, pafs.PyFileSystem):
            filesystem.handler.fs.invalidate_cache()
        info = filesystem.get_file_info(root)
        if info.type == pafs.FileType.NotFound:
            raise SourceError(f"{self!r}: there is no such file or folder")
        if info.type == pafs.FileType.Directory:
            infos = filesystem.get_file_info(pafs.FileSelector(root, recursive=True))
        else:
            infos = [info]
        marks = [
            (info.path, info.size or 0, info.mtime_ns)
            for info in infos
            if info.type == pafs.FileType.File
            and (info.path == root or not _is_hidden(info.path[len(root) :]))
        ]
        if not marks:
            raise SourceError(f"{self!r}: there is no Parquet file in this folder")
        return sorted(marks)

    def _execute(self, work: Callable[[], T], *, at_once: bool = False) -> T:
        return run_translated(work, self._translated, self.close, at_once=at_once)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, BSJoinError):
            return error
        message = f"{self!r}: {type(error).__name__}: {' '.join(str(error).split())}"
        # A file may be incomplete, or removed since it was listed.
        return TransientSourceError(scrubbed(message, secrets_of(self._path)))


def _file(mark: tuple[str, int, int | None], fragment: Any) -> _File:
    return _File(mark, fragment, ds.get_partition_keys(fragment.partition_expression))


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/"))


def _has_nan(values: pa.Array) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _both_zeros(values: pa.Array) -> pa.Array:
    """0.0 and -0.0 are equal, but have different hashes."""
    if not pa.types.is_floating(values.type):
        return values
    zeros = pa.array([0.0, -0.0], values.type)
    return pa.concat_arrays([values, zeros]) if pc.any(pc.equal(values, 0)).as_py() else values
