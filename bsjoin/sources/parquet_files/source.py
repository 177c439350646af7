"""``parquet``: Parquet files, of which a look-up reads only matching row groups."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from bsjoin._secrets import hidden, secrets_of
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources.arguments import located
from bsjoin.sources.invalidation import renewed
from bsjoin.sources.parquet_files.columns import Rules
from bsjoin.sources.parquet_files.file import FORMAT, ParquetFile, matching
from bsjoin.sources.parquet_files.listing import Listing, Remote, listing_of, other_format_above
from bsjoin.sources.parquet_files.partition_values import (
    Partitioning,
    partition_scalar,
    partitioning_of,
)
from bsjoin.sources.parquet_files.row_groups import asked_keys
from bsjoin.sources.parquet_files.schema import declared_columns, rules_of
from bsjoin.sources.protocol import Source
from bsjoin.sources.table import Declared, Table
from bsjoin.sources.transient import TransientSourceError
from bsjoin.storage.addresses import opened

_LISTED_EVERY_S = 3.0
_ROWS_TOGETHER = 1 << 17


def parquet(
    path: str | os.PathLike[str],
    *,
    schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
    unique: bool | None = None,
    max_keys: int = 10_000,
) -> Source:
    """Parquet files, looked up without a database.

    The rows, columns and types are those of ``spark.read.parquet(path)`` with the settings of the
    active session: INT96 is a timestamp, the legacy calendar's dates are rebased, partition columns
    have the types of their values, hidden files do not count, and of a streaming query's sink only
    committed files do. What Spark reads in another way is refused. A folder of Delta, Iceberg, Hudi
    or Paimon is refused too.

    A look-up reads only the row groups whose minimum and maximum statistics admit one of the keys
    (also called zone maps); sorted files benefit most. New, removed and changed files are detected
    within three seconds; the columns and types stay. Until then the footer of a remote file that
    was replaced may be the old one, whose places are read of the new file: write files of new
    names there. A local one is an error then, which is asked again.

    Args:
        path: a file, a folder (Hive partitioning: ``column=value`` subfolders are columns), or an
            fsspec URL such as ``s3://bucket/folder``; options of the file system come from fsspec's
            configuration. Wildcards are not expanded.
        schema: Arrow types for some or all columns, to which the values of the files are cast; a
            value that does not fit is an error. The columns are those of the first file, or of all
            files if ``spark.sql.parquet.mergeSchema`` is true. ``None`` (default): the types that
            Spark reads.
        unique: whether a key has at most one row. ``None`` (default): False, because files do not
            guarantee it.
        max_keys: the maximum number of keys per look-up; default 10,000.

    Returns:
        A :class:`Source` for ``bsjoin.join``. It supports look-ups and scans.

    Raises:
        ArgumentError: an argument is invalid.
        SourceError: from its schema, look-ups and scans: the files cannot be read.

    Complexity: A look-up of n keys costs O(g log n) for g row groups, and reads the matching ones.
        The first look-up reads the footer of every file.

    Example:
        >>> parquet("/srv/planes")
        parquet('/srv/planes')
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ArgumentError(f"path={path!r}: give a file, a folder or a URL")
    address = located(path, "path")
    return _Parquet(address, schema, unique, max_keys, secrets_of(address))


@dataclass
class _Files:
    """The files at a point in time."""

    at: float
    filesystem: Any
    listing: Listing
    partitioning: Partitioning
    files: list[ParquetFile]


class _Parquet(Table):
    #: Row groups that look-ups of this process have read.
    groups_read = 0
    listed_every_s = _LISTED_EVERY_S

    def __init__(self, path: str, *given: Any) -> None:
        super().__init__(*given)
        self._path = self._root = path
        self._rules = Rules()
        self._tokens: dict[Rules, str] = {}
        self._has_travelled = False

    @property
    def schema(self) -> pa.Schema:
        rules = self._rules if self._has_travelled else rules_of(repr(self))
        if rules != self._rules:
            self._tokens[self._rules] = self.token
            self._rules, self._schema = rules, None
            # What others have cached has other values.
            self.token = self._tokens.get(rules) or renewed(self.token)
            self.close()
        return super().schema

    def _declared(self) -> list[Declared]:
        now = self._current()
        other_format_above(now.filesystem, self._root, repr(self))
        found = declared_columns(
            now.files, now.listing, now.partitioning, now.filesystem, self._rules, repr(self)
        )
        self.close()  # its partitions have types now
        return found

    def _pieces(self, wanted: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        parts = [(file, file.fragment) for file in self._current().files]
        for file, batch in self._batches(parts, wanted.names):
            yield file.rows(batch, wanted)

    def size(self) -> int:
        def count() -> int:
            return sum(file.metadata.num_rows for file in self._current().files)

        return self._run(count, at_once=True)

    def __getstate__(self) -> dict[str, Any]:
        # What has travelled keeps the rules of the session that it comes from.
        return {**self.__dict__, "_has_travelled": self._schema is not None}

    def __repr__(self) -> str:
        return f"parquet({hidden(self._path) if '://' in self._path else self._path!r})"

    def _found(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        asked = {name: keys.column(name).combine_chunks() for name in keys.column_names}
        ordered = {name: asked_keys(keys.column(name)) for name in keys.column_names}
        parts = []
        for file in self._current().files:
            groups = file.groups(ordered, wanted)
            self.groups_read += len(groups)
            if groups:
                parts.append((file, file.fragment.subset(row_group_ids=groups)))
        found: list[pa.RecordBatch] = []
        together: list[tuple[ParquetFile, pa.RecordBatch]] = []
        count = 0
        for file, batch in self._batches(parts, wanted.names):
            together.append((file, batch))
            count += len(batch)
            if count >= _ROWS_TOGETHER:
                found += matching(together, asked, wanted)
                together, count = [], 0
        if together:
            found += matching(together, asked, wanted)
        return pa.Table.from_batches(found, wanted)

    def _batches(
        self, parts: Sequence[tuple[ParquetFile, Any]], names: Sequence[str]
    ) -> Iterator[tuple[ParquetFile, pa.RecordBatch]]:
        """The rows of fragments of files; files with the same columns are read together."""
        alike: dict[tuple[Any, ...], list[tuple[ParquetFile, Any]]] = {}
        for file, fragment in parts:
            _ = file.metadata  # says so if there is none
            stored = tuple(file.stored_names(names))
            schema = file.fragment.physical_schema.remove_metadata()
            alike.setdefault((stored, schema), []).append((file, fragment))
        for (stored, schema), together in alike.items():
            files = {file.found.path: file for file, _ in together}
            dataset = ds.FileSystemDataset(
                [fragment for _, fragment in together], schema, FORMAT, together[0][0].filesystem
            )
            columns = {name: pc.field((name,)) for name in stored}
            for tagged in dataset.scanner(columns=columns).scan_batches():
                yield files[tagged.fragment.path], tagged.record_batch
            self._refuse_replaced(together[0][0].filesystem, files)

    def _refuse_replaced(self, filesystem: Any, files: Mapping[str, ParquetFile]) -> None:
        """Refuse local files that are others than those whose footers told where columns are."""
        if not isinstance(filesystem, pafs.LocalFileSystem):
            return  # to ask for each takes as long as to read it
        infos = filesystem.get_file_info([*files])
        for info, file in zip(infos, files.values(), strict=True):
            if (info.size, info.mtime_ns) != (file.found.size, file.found.mtime_ns):
                raise TransientSourceError(
                    f"{self!r}: the file {file.found.relative!r} was replaced while it was read"
                )

    def _current(self) -> _Files:
        """The files; listed again after a few seconds, footers of unchanged files are reused."""
        old: _Files | None = self._session.current()
        now = time.monotonic()
        if old is not None and now - old.at < self.listed_every_s:
            return old
        filesystem, root = self._filesystem() if old is None else (old.filesystem, self._root)
        listing = self._listed(filesystem, root)
        if old is not None and old.listing == listing:
            old.at = now
            return old
        partitioning = partitioning_of(
            {file.folder for file in listing.data},
            infer=self._rules.infer_partitions,
            case_sensitive=self._rules.case_sensitive,
            what=repr(self),
        )
        known = {} if old is None else {file.found: file for file in old.files}
        files = [
            known.get(found) or self._file(found, filesystem, partitioning)
            for found in listing.data
            # Where there are partitions, files beside them do not count; else those in folders.
            if (found.folder in partitioning.raw if partitioning.names else not found.folder)
            and found.size != 0
        ]
        if not files:
            raise self._nothing(
                "there is no Parquet file in this folder"
                if not any(found.folder for found in listing.data)
                else "its Parquet files are in subfolders whose names are not column=value, which "
                "Spark does not read either: give one of the subfolders"
            )
        found = _Files(now, filesystem, listing, partitioning, files)
        self._session.hold(found)
        return found

    def _file(self, found: Any, filesystem: Any, partitioning: Partitioning) -> ParquetFile:
        constants = {}
        if self._schema is not None:
            by_key = {self._rules.key(field.name): field for field in self._schema}
            raw = partitioning.raw.get(found.folder, ())
            for name, value in zip(partitioning.names, raw, strict=bool(raw)):
                field = by_key.get(self._rules.key(name))
                if field is not None:
                    constants[field.name] = partition_scalar(
                        value, field.type, self._rules.time_zone
                    )
        override = frozenset(() if self._override is None else self._override.names)
        return ParquetFile(found, filesystem, constants, self._rules, override, repr(self))

    def _listed(self, filesystem: Any, root: str) -> Listing:
        if isinstance(filesystem, pafs.PyFileSystem):
            filesystem.handler.fs.invalidate_cache()
        listing = listing_of(filesystem, root, repr(self))
        if listing is None:
            raise self._nothing("there is no such file or folder")
        return listing

    def _nothing(self, problem: str) -> Exception:
        # Known files that are gone may be about to be written anew.
        kind = SourceError if self._schema is None else TransientSourceError
        return kind(f"{self!r}: {problem}")

    def _filesystem(self) -> tuple[Any, str]:
        if "://" not in self._path:
            filesystem, self._root = pafs.LocalFileSystem(), self._path
        else:
            remote, self._root = opened(self._path)
            filesystem = pafs.PyFileSystem(Remote(remote))
        return filesystem, self._root

    def _fault(self, error: Exception, text: str) -> Exception:
        # What Arrow cannot read in files that stay as they are, it cannot read later.
        by_arrow = isinstance(error, pa.ArrowException) or type(error) is OSError
        if by_arrow and not getattr(error, "errno", None) and not self._has_changed():
            return SourceError(text)
        return TransientSourceError(text)

    def _has_changed(self) -> bool:
        """Whether the files are others than those that were read."""
        old: _Files | None = self._session.current()
        try:
            return old is None or self._listed(old.filesystem, self._root) != old.listing
        except Exception:
            return True
