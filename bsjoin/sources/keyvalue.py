"""``redis``: rows in a key-value store, one key per row."""

from __future__ import annotations

import datetime as dt
import json
import re
import string
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.errors import ArgumentError, BSJoinError, ColumnError, DataError, suggest
from bsjoin.sources.arguments import check_max_keys, positive
from bsjoin.sources.protocol import Source
from bsjoin.sources.redis_client import RedisClient
from bsjoin.sources.rows import array_of
from bsjoin.sources.types import as_schema, wanted_columns
from bsjoin.sources.urls import Address, address_of
from bsjoin.values.python_values import in_calendar

_UNFIT = (BSJoinError, pa.ArrowException, ValueError, TypeError, ArithmeticError)


def redis(
    url: str,
    *,
    key: str,
    schema: pa.Schema | Mapping[str, pa.DataType],
    kind: Literal["hash", "json"] = "hash",
    timeout: timedelta | str | float = "30 seconds",
    max_keys: int = 10_000,
) -> Source:
    """Rows in Redis, each a hash or a JSON text.

    A look-up is one round trip: a pipeline of HMGET for hashes, one MGET for JSON. Hashes that have
    none of the fields are asked for again, by EXISTS and HMGET. A missing key has no row; a missing
    field is null. Redis has no read-only sessions: use an account that is
    restricted to HMGET, EXISTS and MGET, or the address of a replica.

    In a Redis Cluster, which the first look-up recognizes by itself, it is one round trip to each
    node, and follows slots that move; JSON is read by GET. The account also needs the commands
    COMMAND, CLUSTER SLOTS, CLUSTER SHARDS and INFO.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://...`` for TLS, which compares the
            host's name with its certificate (in a cluster from version 6 of ``redis`` on), or
            ``unix:///path?db=0``. For a cluster any of its nodes, without a database. Sentinels are
            not asked: give the address of a replica.
        key: the pattern of the Redis keys, such as ``"customer:{customer_id}"``, with the names of
            the key columns in braces. Integers and strings (any bytes) are inserted unchanged,
            booleans as true and false, dates and times in ISO 8601 form, decimals without exponent.
            Between two columns has to be a text that no value of the first one contains; if the
            keys are stored without one, join on one column that has both texts (``F.concat``).
        schema: the columns with their types, the key columns included.
        kind: ``"hash"`` (default): a hash with one field per column; ``"json"``: a string that
            contains a JSON object.
        timeout: how long a connection or a response may take: a timedelta, a text such as "5
            seconds", or a number of seconds; default 30 seconds.
        max_keys: the maximum number of keys per look-up; default 10,000.

    Returns:
        A :class:`Source` for ``bsjoin.join``. Its key is unique. It supports look-ups only, not
        scans.

    Raises:
        ArgumentError: the URL or another argument is invalid.
        ColumnError: the pattern names a column that the schema lacks. Connecting is lazy: a missing
            driver or server raises a ``SourceError`` when the source is first used.

    Complexity:
        One round trip per server and O(n) commands for n keys.

    Example:
        >>> redis("redis://localhost", key="plane:{tail}",
        ...       schema={"tail": pa.string(), "seats": pa.int32()})
        redis('redis://localhost', key='plane:{tail}')
    """
    address = address_of(url, (), ("redis", "rediss", "unix"))
    if address.driver:
        raise ArgumentError(
            f"url={str(address)!r}: {address.driver!r} is not known here: give the address of a "
            "server, of a replica, or of a node of a cluster, as redis://host:port"
        )
    if address.scheme != "unix" and not re.fullmatch("[0-9]*/*", address.path):
        raise ArgumentError(
            f"url={str(address)!r}: {address.path!r} is no number of a database: give it as in "
            "redis://host:port/0"
        )
    columns = as_schema(schema)
    if kind not in ("hash", "json"):
        raise ArgumentError(f'kind={kind!r}: give "hash" or "json"')
    timeout_s = positive(timeout, "timeout")
    check_max_keys(max_keys)
    pattern = _pattern(key, columns)
    for field in columns:
        if kind == "hash" and pa.types.is_nested(field.type):
            raise ArgumentError(
                f"schema: the column {field.name!r} is a {field.type}, which a hash cannot store: "
                'use kind="json"'
            )
        if kind == "json" and pa.types.is_binary(field.type):
            raise ArgumentError(f"schema: the column {field.name!r} is binary, which JSON lacks")
    return _Redis(address, url, key, pattern, columns, kind, timeout_s, max_keys)


def _pattern(key: object, schema: pa.Schema) -> list[tuple[str, str | None]]:
    """The pattern as pairs of a text and the column that follows it."""
    if not isinstance(key, str):
        raise ArgumentError(f'key={key!r}: give a pattern such as "customer:{{id}}"')
    try:
        parsed = list(string.Formatter().parse(key))
    except ValueError as error:
        raise ArgumentError(f"key={key!r}: {error}") from None
    parts, before = [], None  # the column whose text has no end of its own
    for text, name, spec, conversion in parsed:
        before = None if text else before
        if spec or conversion:
            raise ArgumentError(f"key={key!r}: only names are allowed in braces, no formats")
        if name is not None:
            if name not in schema.names:
                raise ColumnError(
                    f"key={key!r}: the schema has no column {name!r}. {suggest(name, schema.names)}"
                )
            dtype, kinds = schema.field(name).type, pa.types
            if kinds.is_binary(dtype) or kinds.is_floating(dtype) or kinds.is_nested(dtype):
                raise ArgumentError(
                    f"key={key!r}: {name!r} is a {dtype}, which has no unique text form for a key"
                )
            if before is not None:
                raise ArgumentError(
                    f"key={key!r}: nothing is between {before!r} and {name!r}, so two keys may "
                    f'have one text: write "{{{before}}}:{{{name}}}", or, if the keys are stored '
                    "so, join on one column that has both texts (F.concat)"
                )
            before = None if kinds.is_date(dtype) or kinds.is_boolean(dtype) else name
        parts.append((text, name))
    names = [name for _, name in parts if name is not None]
    if not names:
        raise ArgumentError(f'key={key!r}: name the key columns, as in "customer:{{id}}"')
    return parts


class _Redis(Source):
    takes_any_text = True

    def __init__(
        self,
        address: Address,
        url: str,
        key: str,
        pattern: list[tuple[str, str | None]],
        schema: pa.Schema,
        kind: str,
        timeout_s: float,
        max_keys: int,
    ) -> None:
        super().__init__()
        self._address, self._key, self._pattern = address, key, pattern
        self._schema, self._kind = schema, kind
        self.max_keys = max_keys
        self._names = list(dict.fromkeys(name for _, name in pattern if name is not None))
        self._client = RedisClient(address, url, timeout_s, repr(self))

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def is_unique(self, columns: Sequence[str]) -> bool:
        return set(self._names) <= set(columns)

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        names = wanted_columns(self._schema, keys.column_names, columns, repr(self))
        if set(keys.column_names) != set(self._names):
            raise ColumnError(
                f"{self!r} is looked up by {self._names}, not by {keys.column_names}: join on "
                "exactly the columns of its key"
            )
        fields = [name for name in names if name not in self._names]
        schema = pa.schema([self._schema.field(name) for name in names])
        for name in self._names:
            keys = keys.filter(in_calendar(keys.column(name)))
        if not len(keys):  # MGET takes at least one
            return schema.empty_table()
        redis_keys = self._redis_keys(keys)
        rows = self._client.run(lambda client: self._fetched(client, redis_keys, fields))
        wrong = [index for index, row in enumerate(rows) if isinstance(row, DataError)]
        if wrong:
            raise _of_keys(rows[wrong[0]], keys, wrong)
        present = [index for index, row in enumerate(rows) if row is not None]
        found = keys.take(pa.array(present, pa.int64()))
        arrays = {name: found.column(name) for name in names if name in self._names}
        for place, name in enumerate(fields):
            values = [rows[index][place] for index in present]
            try:
                arrays[name] = _parsed(values, schema.field(name).type, name, repr(self))
                continue
            except _UNFIT:
                pass
            raise self._unfit(values, name, found, [redis_keys[index] for index in present])
        return pa.table({name: arrays[name] for name in names}, schema=schema)

    def _redis_keys(self, keys: pa.Table) -> list[bytes]:
        columns = {name: _texts(keys.column(name)) for name in self._names}
        pattern = [(text.encode(), name) for text, name in self._pattern]
        return [
            b"".join(text + (b"" if name is None else columns[name][row]) for text, name in pattern)
            for row in range(len(keys))
        ]

    def _fetched(self, client: Any, keys: list[bytes], fields: list[str]) -> list[Any]:
        """The values of the fields of every key; None for a missing key; or a ``DataError``."""
        if self._kind == "json":
            return [
                None if text is None else self._members(text, key, fields)
                for key, text in zip(keys, self._texts_of(client, keys), strict=True)
            ]
        rows = self._hashes(client, keys, fields)
        # Without fields: EXISTS distinguishes an empty row from a missing key.
        empty = [
            index
            for index, row in enumerate(rows)
            if not isinstance(row, DataError) and all(value is None for value in row)
        ]
        if empty:
            answers = self._client.answers(client, [("EXISTS", keys[index]) for index in empty])
            there = []
            for index, answer in zip(empty, answers, strict=True):
                if isinstance(answer, Exception):
                    raise answer
                rows[index] = None
                if answer:
                    there.append(index)
            # One that was made since HMGET has its fields.
            now = self._hashes(client, [keys[index] for index in there], fields)
            for index, row in zip(there, now, strict=True):
                rows[index] = row
        return rows

    def _hashes(self, client: Any, keys: list[bytes], fields: list[str]) -> list[Any]:
        """The values of the fields of every key, null for those of a missing one."""
        if not fields or not keys:
            return [[]] * len(keys)
        rows = self._client.answers(client, [("HMGET", key, *fields) for key in keys])
        for place, row in enumerate(rows):
            if isinstance(row, Exception):
                if not _is_of_other_type(row):
                    raise row
                key = _shown(keys[place])
                rows[place] = DataError(f"{self!r}: the key {key} does not contain a hash")
        return rows

    def _texts_of(self, client: Any, keys: list[bytes]) -> list[bytes | None]:
        if not self._client.is_cluster:
            return list(client.mget(keys))
        # MGET of keys whose slot is moving fails; GET does not.
        texts = self._client.answers(client, [("GET", key) for key in keys])
        for place, text in enumerate(texts):
            if isinstance(text, Exception):
                if not _is_of_other_type(text):
                    raise text
                texts[place] = None  # as with MGET
        return texts

    def _members(self, text: bytes, key: bytes, fields: list[str]) -> list[Any] | DataError:
        try:
            value = json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            return DataError(f"{self!r}: the key {_shown(key)} does not contain a JSON object")
        return [value.get(name) for name in fields]

    def _unfit(
        self, values: list[Any], name: str, keys: pa.Table, redis_keys: list[bytes]
    ) -> DataError:
        dtype = self._schema.field(name).type
        wrong = [index for index, value in enumerate(values) if not _fits(value, dtype)]
        shown = repr(values[wrong[0]])
        fault = DataError(
            f"{self!r}: the field {name!r} of the key {_shown(redis_keys[wrong[0]])} contains "
            f"{shown if len(shown) <= 80 else shown[:77] + '...'}, which is no {dtype}"
        )
        return _of_keys(fault, keys, wrong)

    def close(self) -> None:
        self._client.close()

    def __repr__(self) -> str:
        return f"redis({str(self._address)!r}, key={self._key!r})"


def _of_keys(fault: DataError, keys: pa.Table, places: list[int]) -> DataError:
    fault.keys = keys.take(pa.array(places, pa.int64()))
    return fault


def _is_of_other_type(error: Exception) -> bool:
    return "WRONGTYPE" in str(error)


def _shown(key: bytes) -> str:
    return repr(key.decode(errors="backslashreplace"))


def _texts(column: pa.ChunkedArray) -> list[bytes]:
    """The values as they are in a Redis key; strings are any bytes."""
    if pa.types.is_string(column.type):
        found: list[bytes] = column.combine_chunks().view(pa.binary()).to_pylist()
        return found
    return [_text(value).encode() for value in column.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return str(value)


def _parsed(values: list[Any], dtype: pa.DataType, name: str, what: str) -> pa.Array:
    if any(isinstance(value, bytes) for value in values):
        # The fields of a hash are bytes.
        found = pa.array(values, pa.binary())
        if pa.types.is_binary(dtype):
            return found
        texts = found.cast(pa.string())
        if pa.types.is_decimal(dtype):
            return array_of(texts.to_pylist(), dtype, name, what)
        if pa.types.is_integer(dtype) and pc.any(pc.match_substring_regex(texts, "[xX]")).as_py():
            raise ValueError  # Arrow would read hexadecimal digits
        return texts.cast(dtype)
    if pa.types.is_nested(dtype):
        return pa.array([_member(value, dtype) for value in values], dtype)
    return array_of(values, dtype, name, what)


def _fits(value: Any, dtype: pa.DataType) -> bool:
    try:
        _parsed([value], dtype, "", "")
    except _UNFIT:
        return False
    return True


def _member(value: Any, dtype: pa.DataType) -> Any:
    """A JSON value in the form that Arrow accepts, for nested types."""
    if value is None:
        return None
    if pa.types.is_list(dtype):
        return [_member(item, dtype.value_type) for item in _of(value, list)]
    if pa.types.is_map(dtype):
        return [(k, _member(v, dtype.item_type)) for k, v in _of(value, dict).items()]
    if pa.types.is_struct(dtype):
        members = _of(value, dict)
        return {field.name: _member(members.get(field.name), field.type) for field in dtype}
    return array_of([value], dtype, "", "")[0].as_py()


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
