"""The one form in which metrics travel: lines of JSON, each with a version and some records.

    {"v":1,"records":[{"rows_in":4,"hits":3,"matches":5,"rows_out":5,"version":2}]}

Each writer makes a line; what carries lines puts line feeds between them, and does not look inside.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import logging
import typing
from collections.abc import Callable, Iterable
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union

_log = logging.getLogger("bsjoin")

Record = TypeVar("Record")

VERSION = 1
"""Of the form; a reader leaves lines of any other out."""


def to_line(records: Iterable[Any]) -> str:
    """Write records: dataclasses of numbers, texts, times, sequences and each other.

    Example:
        >>> from bsjoin.metrics.join_metrics import JoinMetrics
        >>> to_line([JoinMetrics(rows_in=2, hits=1)])
        '{"v":1,"records":[{"rows_in":2,"hits":1}]}'
    """
    line = {"v": VERSION, "records": [plain(record) for record in records]}
    return json.dumps(line, default=datetime.isoformat, separators=(",", ":"))


def plain(value: Any) -> Any:
    """A record as a dictionary, without what has its default."""
    if dataclasses.is_dataclass(value):
        values = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {f.name: plain(v) for f, v in values.items() if v != f.default and v != []}
    return [*map(plain, value)] if isinstance(value, list | tuple) else value


def read(kind: type[Record], lines: str | None) -> list[list[Record]]:
    """The records of each line.

    What nobody here has written is left out, with a warning in the log: metrics end no query.
    """
    found: list[list[Record]] = []
    for line in filter(None, (lines or "").split("\n")):
        try:
            found.append(_records(kind, json.loads(line)))
        except (ValueError, OverflowError, RecursionError) as error:
            _log.warning("bsjoin: a line of metrics is not read and does not count: %s", error)
    return found


def _records(kind: type[Record], line: Any) -> list[Record]:
    if type(line) is not dict or line.keys() != {"v", "records"}:
        raise ValueError("it has no version and records")
    if line["v"] != VERSION:
        raise ValueError(f"it is of version {line['v']!r}, and this bsjoin reads {VERSION}")
    found: list[Record] = _reader(list[kind])(line["records"])  # type: ignore[valid-type]
    return found


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that makes values of a type from JSON; a ValueError if it is none."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, UnionType):  # with None, as those of our records
        (other,) = (_reader(one) for one in inner if one is not NoneType)
        return lambda value: None if value is None else other(value)
    if origin is Literal:
        return lambda value: _checked(value, type(value) is str and value in inner, kind)
    if origin in (list, tuple):
        many = inner[-1] is Ellipsis or origin is list
        readers = itertools.repeat(_reader(inner[0])) if many else [*map(_reader, inner)]

        def read_items(value: Any) -> Any:
            is_one = type(value) is list and (many or len(value) == len(inner))
            pairs = zip(readers, _checked(value, is_one, kind), strict=False)
            return origin(read_item(one) for read_item, one in pairs)

        return read_items
    if dataclasses.is_dataclass(kind):
        return _record_reader(kind)
    if kind is datetime:
        return lambda value: datetime.fromisoformat(_checked(value, type(value) is str, kind))
    if kind is float:
        return lambda value: float(_checked(value, type(value) in (int, float), kind))
    return lambda value: _checked(value, type(value) is kind, kind)


def _record_reader(kind: Any) -> Callable[[Any], Any]:
    missing = dataclasses.MISSING
    needed = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is missing and field.default_factory is missing
    }
    readers = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}

    def read_record(value: Any) -> Any:
        is_one = type(value) is dict and needed <= value.keys() <= readers.keys()
        _checked(value, is_one, kind)
        return kind(**{name: readers[name](one) for name, one in value.items()})

    return read_record


def _checked(value: Any, is_one: bool, kind: Any) -> Any:
    if not is_one:
        raise ValueError(f"a {type(value).__name__} in it is no {getattr(kind, '__name__', kind)}")
    return value
