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

from benchmarks.harness.machine import commit
from benchmarks.harness.outcome import Benchmark, Figure, Outcome, Table
from benchmarks.harness.records import (
    Record,
    RecordError,
    plain,
    read,
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
