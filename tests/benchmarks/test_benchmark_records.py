"""Records of runs: whole, readable, and refused when they are not."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.machine import commit, machine, versions
from benchmarks.harness.outcome import Benchmark, Figure, Outcome
from benchmarks.harness.records import (
    SCHEMA,
    RecordError,
    build,
    figures_of,
    plain,
    read,
    read_all,
    read_any,
    repeats,
    write,
)

ENTRY = Benchmark("one", "engine", "A title", "somewhere", 1, "What is compared.")


def record(**changes: Any) -> dict[str, Any]:
    outcome = Outcome([Figure("a / b", 2.0, 1.0, spread=(1.5, 2.5))])
    found = build(
        ENTRY, quick=True, seed=1, out=Path("out"), code="c", seconds=1.0, outcome=outcome
    )
    return {**found, **changes}


def test_figures_come_back_as_they_were() -> None:
    assert figures_of(record()) == [Figure("a / b", 2.0, 1.0, spread=(1.5, 2.5))]


def test_a_record_says_where_it_was_measured() -> None:
    found = record()
    assert found["versions"] == versions()
    assert "pyspark" in found["versions"]
    assert found["machine"]["cores"] >= 1
    assert set(machine()) == {"cores", "memory_gb", "machine", "cpu", "python", "java"}


def test_a_figure_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="'a / b' is inf"):
        build(
            ENTRY,
            quick=True,
            seed=1,
            out=Path("out"),
            code=None,
            seconds=1.0,
            outcome=Outcome([Figure("a / b", math.inf)]),
        )


def test_numbers_of_numpy_become_plain_ones() -> None:
    found = plain({1.04: np.float64(2.5), ("a", 1): np.arange(2), "x": (math.nan, Path("p"))})
    assert found == {"1.04": 2.5, "('a', 1)": [0, 1], "x": [None, "p"]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.floats(), inner),
        max_leaves=20,
    )
)
def test_whatever_was_measured_can_be_written(value: Any) -> None:
    json.dumps(plain(value), allow_nan=False)


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "results" / "one.json"
    write(file, record())
    with pytest.raises(ValueError, match="JSON compliant"):
        write(file, {"name": math.nan})
    assert read(file) == record(when=read(file)["when"])
    assert [path.name for path in file.parent.iterdir()] == ["one.json"]


def test_a_record_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "one.json", record(schema=SCHEMA + 1))
    with pytest.raises(RecordError, match="use a newer bsjoin, or run the benchmark again"):
        read(tmp_path / "one.json")


@pytest.mark.parametrize("text", ["", "{", '{"name": "one"}', "3", "[3]"])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(RecordError, match=r"one\.json"):
        read_any(tmp_path / "one.json")


def test_a_baseline_is_a_record_a_list_or_a_folder(tmp_path: Path) -> None:
    one, other = record(), record(name="other")
    write(tmp_path / "results" / "one.json", one)
    write(tmp_path / "results" / "other.json", other)
    write(tmp_path / "list.json", [one, other])
    (tmp_path / "results" / "empty").mkdir()
    assert read_any(tmp_path / "results" / "one.json") == [one]
    assert read_any(tmp_path / "list.json") == [one, other]
    assert read_any(tmp_path / "results") == [one, other]
    with pytest.raises(RecordError, match="has no records"):
        read_any(tmp_path / "results" / "empty")
    with pytest.raises(RecordError, match="there is no"):
        read_any(tmp_path / "nowhere.json")


def test_records_come_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    for name in ("b", "c", "a", "unlisted"):
        write(tmp_path / "results" / "full" / f"{name}.json", record(name=name))
    found = read_all(tmp_path, False, ["c", "missing", "a", "b"])
    assert [one["name"] for one in found] == ["c", "a", "b", "unlisted"]


@pytest.mark.parametrize(
    "change",
    [
        {"quick": False},
        {"seed": 2},
        {"commit": None},
        {"commit": "c+12345678"},
        {"versions": {}},
        {"error": "it failed"},
    ],
)
def test_a_run_repeats_a_record_when_nothing_differs(change: dict[str, Any]) -> None:
    assert repeats(record(), True, 1, "c")
    assert not repeats(record(**change), True, 1, "c")
    assert not repeats(None, True, 1, "c")


def test_the_state_of_the_code_has_its_changes_in_it(tmp_path: Path) -> None:
    assert commit(tmp_path) is None, "there is no git"

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "bsjoin").mkdir()
    code, other = tmp_path / "bsjoin" / "a.py", tmp_path / "README.md"
    code.write_text("1\n")
    other.write_text("1\n")
    git("add", "-A")
    git("commit", "-m", "first", "--no-verify")
    clean = commit(tmp_path)
    assert clean is not None
    assert len(clean) == 40
    other.write_text("2\n")
    assert commit(tmp_path) == clean, "the README is no code"
    states = [clean]
    for change in (
        lambda: code.write_text("2\n"),
        lambda: (tmp_path / "bsjoin" / "b.py").write_text("1\n"),
        lambda: (tmp_path / "bsjoin" / "b.py").write_text("2\n"),
    ):
        change()
        states.append(str(commit(tmp_path)))
    assert len(set(states)) == 4
    assert all(state.startswith(clean) for state in states)
