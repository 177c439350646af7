"""Records of runs: whole, readable, and refused when they are not."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.machine import commit, machine, versions
from benchmarks.harness.outcome import Benchmark, Figure, Outcome, Table
from benchmarks.harness.records import (
    Record,
    RecordError,
    plain,
    read,
    read_all,
    repeats,
    store,
    write,
    written,
)

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
    outcome = Outcome(figures, [table.drawn("bars", "way", "ms")], measured=np.arange(2))
    stored = store(ENTRY, tmp_path, outcome, **RUN)
    found = written(tmp_path, True, "one")
    assert found is not None
    assert found.figures == [figures[0], replace(figures[1], spread=None)]
    assert found.tables[0].rows == [["ours", 1.5], ["theirs", None]]
    assert (found.when, found.measured, found.title) == (stored.when, [0, 1], "A title")


def test_a_record_says_where_it_was_measured() -> None:
    found = record()
    assert found.versions == versions()
    assert "pyspark" in found.versions
    assert found.machine["cores"] >= 1
    assert set(machine()) == {"cores", "memory_gb", "machine", "cpu", "python", "java"}


def test_a_figure_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'a / b' is inf"):
        store(ENTRY, tmp_path, Outcome([Figure("a / b", math.inf)]), **RUN)


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
    assert read(file) == [record(when=read(file)[0].when)]
    assert [path.name for path in file.parent.iterdir()] == ["one.json"]


@pytest.mark.parametrize("text", ["", "{", '{"name": "one"}', "3", "[3]"])
def test_a_file_that_is_no_record_is_refused_and_written_again(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results" / "quick" / "one.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(RecordError, match=r"one\.json holds no record .* run the benchmark again"):
        read(file)
    assert written(tmp_path, True, "one") is None


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    write(file, {**plain(record()), "schema": 1})
    with pytest.raises(RecordError, match=r"schema.*remove it, and run the benchmark again"):
        read(file)


def test_a_baseline_is_a_record_a_list_or_a_folder(tmp_path: Path) -> None:
    one, other = record(), record(name="other")
    write(tmp_path / "results" / "one.json", one)
    write(tmp_path / "results" / "other.json", other)
    write(tmp_path / "list.json", [one, other])
    (tmp_path / "results" / "empty").mkdir()
    assert read(tmp_path / "results" / "one.json") == [one]
    assert read(tmp_path / "list.json") == [one, other]
    assert read(tmp_path / "results") == [one, other]
    with pytest.raises(RecordError, match="has no records"):
        read(tmp_path / "results" / "empty")
    with pytest.raises(RecordError, match="there is no"):
        read(tmp_path / "nowhere.json")


def test_records_come_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    for name in ("b", "c", "a", "unlisted"):
        write(tmp_path / "results" / "full" / f"{name}.json", record(name=name))
    found = read_all(tmp_path, False, ["c", "missing", "a", "b"])
    assert [one.name for one in found] == ["c", "a", "b", "unlisted"]


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
