"""Records of plain values as JSON, and back from a text that is not trusted."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union

__all__ = ["from_json", "to_json"]

Record = TypeVar("Record")


def to_json(records: Sequence[Any]) -> str:
    """Dataclasses of numbers, texts, times, tuples and each other as a JSON list."""
    plain = [dataclasses.asdict(record) for record in records]
    return json.dumps(plain, default=datetime.isoformat, separators=(",", ":"))


def from_json(kind: type[Record], text: str) -> list[Record]:
    """The inverse of :func:`to_json`.

    Args:
        kind: the dataclass.
        text: from anywhere.

    Raises:
        ValueError: it is not a list of such records, each value of its type.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if type(data) is not list:
        raise ValueError("it is no list")
    return [_read(kind, record, kind.__name__) for record in data]


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of JSON as one of a type; ``where`` is its name in an error."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, UnionType):  # with None, as those of our records
        (other,) = (one for one in inner if one is not NoneType)
        return None if value is None else _read(other, value, where)
    if origin is Literal:
        if type(value) is str and value in inner:
            return value
    elif origin is tuple:
        many = inner[-1] is Ellipsis
        if type(value) is list and (many or len(value) == len(inner)):
            kinds = [inner[0]] * len(value) if many else inner
            return tuple(_read(k, v, where) for k, v in zip(kinds, value, strict=True))
    elif dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        if type(value) is dict and value.keys() == hints.keys():
            return kind(**{n: _read(k, value[n], f"{where}.{n}") for n, k in hints.items()})
    elif kind is datetime:
        if type(value) is str:
            return datetime.fromisoformat(value)
    elif kind is float and type(value) is int:
        return float(value)
    elif type(value) is kind:
        return value
    raise ValueError(f"{where} is not a {kind}")
