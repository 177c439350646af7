"""Records as JSON: all that they hold comes back, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import json
import typing
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin import CycleProgress
from bsjoin.metrics.json_records import from_json, to_json

_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(allow_nan=False),
    str: st.text(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    NoneType: st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as the records of ``progress`` have them."""
    inner = typing.get_args(kind)
    if kind in _LEAVES:
        return _LEAVES[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{name: values(hint) for name, hint in hints.items()})
    if typing.get_origin(kind) is tuple:
        if inner[-1] is Ellipsis:
            return st.lists(values(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, inner))
    if typing.get_origin(kind) is Literal:
        return st.sampled_from(inner)
    return st.one_of(*map(values, inner))


CYCLES = values(CycleProgress)


@given(st.lists(CYCLES, max_size=3))
def test_what_is_written_comes_back(cycles: list[CycleProgress]) -> None:
    assert from_json(CycleProgress, to_json(cycles)) == cycles


@given(CYCLES, st.data())
def test_a_value_of_another_type_is_refused(cycle: CycleProgress, data: st.DataObject) -> None:
    (record,) = json.loads(to_json([cycle]))
    name = data.draw(st.sampled_from(sorted(record)))
    record[name] = data.draw(st.sampled_from([True, {}, [[]], [1], {"": 1}, "\0", "vm"]))
    if isinstance(record[name], str) and name in ("runtime_reason", "table", "timestamp"):
        return  # a text as another one
    with pytest.raises(ValueError, match=rf"CycleProgress\.{name}|isoformat"):
        from_json(CycleProgress, json.dumps([record]))


@given(CYCLES, st.data())
def test_a_record_has_its_fields_and_no_others(cycle: CycleProgress, data: st.DataObject) -> None:
    (record,) = json.loads(to_json([cycle]))
    del record[data.draw(st.sampled_from(sorted(record)))]
    for changed in (record, {**json.loads(to_json([cycle]))[0], "more": 1}, None, 1, [], "{}"):
        with pytest.raises(ValueError, match="CycleProgress"):
            from_json(CycleProgress, json.dumps([changed]))


@pytest.mark.parametrize("text", ["", "1", "null", "{}", "[", "[" * 100_000, "[1e", "\0"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of the standard library, in words of its own
        from_json(CycleProgress, text)
