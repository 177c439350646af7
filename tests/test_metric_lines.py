"""Lines of metrics: all that their records hold comes back, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_tables import numbered, put

from bsjoin import CycleProgress
from bsjoin.metrics.join_metrics import JoinMetrics, OperatorMetrics
from bsjoin.metrics.lines import VERSION, read, to_line
from bsjoin.metrics.refreshes import published, source_of
from bsjoin.storage import SourceVersion, StorageLocation

JAVA = Path(__file__).parents[1] / "bsjoin/runtimes/jvm/java/bsjoin/jvm"

_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(allow_nan=False),
    str: st.text(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    NoneType: st.none(),
    bool: st.booleans(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as the records of ``progress`` have them."""
    inner = typing.get_args(kind)
    if kind in _LEAVES:
        return _LEAVES[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{name: values(hint) for name, hint in hints.items()})
    if typing.get_origin(kind) is list:
        return st.lists(values(inner[0]), max_size=3)
    if typing.get_origin(kind) is tuple:
        if inner[-1] is Ellipsis:
            return st.lists(values(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, inner))
    if typing.get_origin(kind) is Literal:
        return st.sampled_from(inner)
    return st.one_of(*map(values, inner))


CYCLES = values(CycleProgress)


@given(CYCLES, values(OperatorMetrics))
def test_what_is_written_comes_back(cycle: CycleProgress, operator: OperatorMetrics) -> None:
    cycles, operators = [cycle, cycle], [operator, operator]
    assert read(CycleProgress, f"{to_line(cycles)}\n{to_line([])}") == [cycles, []]
    assert read(OperatorMetrics, to_line(operators)) == [operators]


def is_refused(record: object) -> bool:
    """Whether a line of this record is left out, and the one beside it is not."""
    line = json.dumps({"v": VERSION, "records": [record]})
    return read(CycleProgress, f"{line}\n{to_line([])}") == [[]]


@given(CYCLES, st.data())
def test_a_record_has_its_fields_of_their_types_and_no_others(
    cycle: CycleProgress, data: st.DataObject
) -> None:
    (whole,) = json.loads(to_line([cycle]))["records"]
    needed = ["hits", "join", "mode", "on", "partition", "rows_in", "runtime_reason", "timestamp"]
    left_out = data.draw(st.sampled_from(needed))
    less = {name: value for name, value in whole.items() if name != left_out}
    for changed in (less, {**whole, "more": 1}, None, 1, [], "{}"):
        assert is_refused(changed)
    name = data.draw(st.sampled_from(sorted(whole)))
    other = data.draw(st.sampled_from([True, [[]], [1], {"": 1}, "\0", "vm"]))
    may_be = isinstance(other, str) and name in ("runtime_reason", "table", "timestamp")
    assert is_refused({**whole, name: other}) != may_be


@pytest.mark.parametrize(
    "line",
    [
        "1",
        "null",
        "{}",
        "[",
        "[" * 100_000,
        "[1e",
        "\0",
        '{"v":2,"records":[]}',
        '{"v":1,"records":{}}',
        pytest.param(
            '{"v":1,"records":[{"cache":[{"load_ms":[1' + 400 * "0" + "]}]}]}", id="no float"
        ),
    ],
)
def test_another_text_is_left_out(line: str, caplog: pytest.LogCaptureFixture) -> None:
    counted = to_line([JoinMetrics(rows_in=2)])
    assert read(JoinMetrics, f"{counted}\n{line}\n\n") == [[JoinMetrics(rows_in=2)]]
    assert len(caplog.records) == 1
    assert read(JoinMetrics, None) == []


def test_java_writes_the_same_version_and_names() -> None:
    files = ("spark/BatchFigures.java", "lookup/Figures.java")
    code = "".join((JAVA / file).read_text("utf-8") for file in files)
    assert f"int VERSION = {VERSION};" in code
    names = set(re.findall(r'[.](?:put|set|putArray)\("(\w+)"', code))
    fields = {*OperatorMetrics.__dataclass_fields__, *JoinMetrics.__dataclass_fields__}
    assert names == fields - {"lookup_ns", "cache"}


def test_a_manifest_tells_the_source_of_a_version_that_is_not_noted_yet(tmp_path: Path) -> None:
    location, told = StorageLocation.of(tmp_path), [SourceVersion("a table", n) for n in "12"]
    for number, source in enumerate(told, 1):
        put(location, dataclasses.replace(numbered(location), source=source), number, number)
    published(location.url, 1, told[0], is_first=True)
    assert [source_of(location.url, number) for number in (1, 2, 3, None)] == [*told, None, None]
    assert source_of(f"{location.url}/elsewhere", 2) is None
