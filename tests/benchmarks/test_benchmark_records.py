"""Records of runs: whole, readable, refused when they are not; numbers in print, and ratios."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.harness import timing
from benchmarks.harness.outcome import Benchmark, Figure, Outcome, Table
from benchmarks.harness.records import (
    Record,
    RecordError,
    plain,
    read,
    repeats,
    store,
    write,
    written,
)
from benchmarks.harness.text import number
from benchmarks.harness.timing import alternate, ratio

ENTRY = Benchmark("one", "engine", "A title", "somewhere", 1, "What is compared.")
RUN = {"quick": True, "seed": 1, "commit": "c", "seconds": 1.0}


def record(**changes: Any) -> Record:
    figures = [Figure("a / b", 2.0, 1.0, spread=(1.5, 2.5))]
    found = Record("one", "engine", "A title", "What is compared.", **RUN, figures=figures)
    return replace(found, **changes)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    figures = [
        Figure("a / b", 2.0, 1.0, spread=(1.5, 2.5)),
        Figure("b / a", 2.0, spread=(1.5, math.inf)),
    ]
    table = Table("Ways", ("way", "ms"), (("ours", 1.5), ("theirs", math.nan)))
    outcome = Outcome(figures, [table.drawn("bar", "way", "ms")], measured=np.arange(2))
    stored = store(ENTRY, tmp_path, outcome, **RUN)
    found = written(tmp_path, True, "one")
    assert found.figures == [figures[0], replace(figures[1], spread=None)]
    assert found.tables[0].rows == [["ours", 1.5], ["theirs", None]]
    assert (found.when, found.measured, found.title) == (stored.when, [0, 1], "A title")


@settings(max_examples=15)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.floats(), inner),
        max_leaves=20,
    )
)
def test_whatever_was_measured_can_be_written(value: Any) -> None:
    json.dumps(plain(value), allow_nan=False)


def refuse(*arguments: Any) -> None:
    raise OSError("the disk is full")


def test_a_record_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results" / "one.json"
    write(file, record())
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="full"):
            write(file, record(title="Another"))
    assert read(file) == record(when=read(file).when)
    assert [path.name for path in file.parent.iterdir()] == ["one.json"]


def test_figures_are_told_apart_by_their_names(tmp_path: Path) -> None:
    outcome = Outcome([Figure("a / b", 1.0), Figure("b / a", 1.0), Figure("a / b", 2.0)])
    with pytest.raises(ValueError, match=r"by their names: \['a / b'\]"):
        store(ENTRY, tmp_path, outcome, **RUN)


def test_a_run_repeats_a_record_of_its_kind_this_machine_and_known_code_alone() -> None:
    one = record()
    assert repeats(one, True, 1, "c")
    others = [{"machine": one.machine | {"java": "1"}}, {"versions": {}}, {"error": "it failed"}]
    assert not any(repeats(replace(one, **other), True, 1, "c") for other in others)
    for asked in ((False, 1, "c"), (True, 5, "c"), (True, 1, "d")):
        assert not repeats(one, *asked)
    for unknown in (None, "c+"):
        assert not repeats(replace(one, commit=unknown), True, 1, unknown)


def test_a_file_that_is_no_record_is_refused_and_written_again(tmp_path: Path) -> None:
    file = tmp_path / "results" / "quick" / "one.json"
    file.parent.mkdir(parents=True)
    for text in ("", "{", '{"name": "one"}', "3", "[3]"):
        file.write_text(text)
        with pytest.raises(RecordError, match=r"one\.json holds no record .* run the benchmark"):
            read(file)
        assert written(tmp_path, True, "one") is None


def test_ratios_are_of_medians_or_of_rounds() -> None:
    assert ratio("a / b", [2.0, 6.0, 4.0], [1.0, 2.0, 4.0], 1.5, by_round=True) == Figure(
        "a / b", 2.0, 1.5, spread=(1.0, 3.0)
    )
    assert ratio("a / b", [2.0], [1.0]).spread is None
    # A slow alternative runs less often: only the rounds that both have count.
    assert ratio("b / a", [8.0, 9.0], [1.0, 3.0, 2.0], 1.0) == Figure(
        "b / a", 4.25, 1.0, spread=(3.0, 8.0)
    )


def test_alternatives_run_in_each_round_another_first_and_slow_ones_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    clock = [0.0]
    monkeypatch.setattr(timing.time, "monotonic", lambda: clock[0])

    def way(name: str, seconds: float) -> Callable[[], float]:
        def run() -> float:
            calls.append(name)
            clock[0] += seconds
            return seconds

        return run

    ways = {"slow": way("slow", 9.0), "fast": way("fast", 1.0)}
    found = alternate(ways, 4, warm={"slow": 9.0}, slow_s=3.0)
    assert found == {"slow": [9.0, 9.0], "fast": [1.0, 1.0, 1.0, 1.0]}
    assert calls == ["fast", "slow", "fast", "fast", "slow", "fast", "fast"]
    calls.clear()
    found = alternate(
        {name: way(name, at) for at, name in enumerate("abc", 1)}, 6, warm=dict.fromkeys("abc", 1.0)
    )
    assert Counter(calls[::3]) == {"a": 2, "b": 2, "c": 2}
    assert all({*calls[at : at + 3]} == {*"abc"} for at in range(0, 18, 3))
    assert found == {"a": [1] * 6, "b": [2] * 6, "c": [3] * 6}


@pytest.mark.parametrize(("slow_s", "fast_s"), [(9.0, 0.5), (32.0, 4.0)])
def test_what_waited_for_long_runs_once_before_it_is_timed(
    slow_s: float, fast_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, ended = [0.0], [0.0]
    monkeypatch.setattr(timing.time, "monotonic", lambda: clock[0])

    def slow() -> float:
        clock[0] += slow_s
        return slow_s

    def fast() -> float:
        seconds = fast_s if clock[0] - ended[0] < 5.0 else 20 * fast_s  # cold
        clock[0] += seconds
        ended[0] = clock[0]
        return seconds

    warm = {"slow": slow_s, "fast": fast_s}
    found = alternate({"slow": slow, "fast": fast}, 5, warm=warm, slow_s=8.0)
    assert found == {"slow": [slow_s] * 2, "fast": [fast_s] * 5}


any_float = st.floats() | st.sampled_from([1e-9, 9.96, 0.9999, 59.6, 3599.7, 1e15, -0.0])


@given(value=any_float | st.integers(), apart_from=any_float | st.none())
def test_a_number_of_any_size_is_short_right_and_apart(
    value: float, apart_from: float | None
) -> None:
    text = number(value, apart_from)
    if isinstance(value, float) and not math.isfinite(value):
        assert text == {math.inf: "∞", -math.inf: "-∞"}.get(value, "-")
        return
    read = Decimal(text.replace(",", ""))  # rounded up, it may be beyond the floats
    if isinstance(value, int) and abs(value) < 10**15:
        assert read == value
        return
    if value != apart_from and isinstance(value, float):
        assert float(read) != apart_from
    assert abs(read - Decimal(value)) <= Decimal("0.05") * abs(Decimal(value))
    assert len(number(value)) <= 20
