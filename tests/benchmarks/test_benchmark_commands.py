"""The command line of the benchmarks, with benchmarks that take no time; and the catalogue."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cache_samples import until

from benchmarks.__main__ import CATALOGUE as EVERY
from benchmarks.harness.commands import _COMMANDS, UsageError, main, present, selected
from benchmarks.harness.machine import commit, machine
from benchmarks.harness.outcome import Benchmark
from benchmarks.jobs.jobs import PLANS
from tests.supervisor import is_alive

# Imported before any test: Polars sets a variable of the environment, which no test may leave.
IMPORTED = {one.name: importlib.import_module(one.run.split(":")[0]) for one in EVERY}
ROOT = Path(__file__).resolve().parents[2]

QUIET = """
from benchmarks.harness.outcome import Context, Figure, Outcome, Table

def run(context):
    context.say(f"size {context.quick}, seed {context.seed}")
    figures = [
        Figure("ours / theirs", 1.5, 1.0, spread=(1.4, 1.6)),
        Figure("theirs / ours", 3.0, 2.0, at_most=True),
        Figure("as one likes", 7.0),
    ]
    table = Table("Ways", ("way", "ms"), (("ours", 1.5), ("theirs", None)))
    tables = [table.drawn("bar", "way", "ms")]
    return Outcome(figures, tables, {3: context.seed})
"""
BROKEN = """
def run(context):
    raise AssertionError("the joins answer differently")
"""
KILLED = """
import os, signal

def run(context):
    os.kill(os.getpid(), signal.SIGKILL)
"""
SLOW = """
import pathlib, subprocess, time

def run(context):
    child = subprocess.Popen(["sleep", "60"])
    try:
        (context.data / "child").write_text(str(child.pid))
        time.sleep(60)
    except BaseException as error:  # as py4j does with whatever ends a call into the JVM
        raise RuntimeError("the JVM is gone") from error
    finally:
        (context.data / "tidy").touch()
"""
MODULES = {"quiet": QUIET, "broken": BROKEN, "killed": KILLED, "slow": SLOW}


def entry(name: str, group: Any = "engine", bounds: Any = "always") -> Benchmark:
    run = f"faked_{name.split('-')[0]}:run"
    return Benchmark(name, group, f"The title of {name}", run, 2, "What is compared.", bounds)


CATALOGUE = (
    entry("quiet-first"),
    entry("broken"),
    entry("killed"),
    entry("quiet-last", "paper"),
)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in MODULES.items():
        (tmp_path / f"faked_{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    # The state of the code is of no interest here, and asking for Java takes a while.
    monkeypatch.setattr("benchmarks.harness.processes.commit", lambda: "a commit")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    machine.cache_clear()
    yield tmp_path / "out"
    machine.cache_clear()


@pytest.fixture
def carry_out(out: Path) -> Callable[..., int]:
    return lambda *words: main(CATALOGUE, [*words, "--out", str(out)])


def record(out: Path, name: str, size: str = "quick") -> dict[str, Any]:
    return json.loads((out / "results" / size / f"{name}.json").read_text())


def test_every_entry_names_a_function_and_all_quick_ones_take_twenty_minutes() -> None:
    for one in EVERY:
        assert len(one.about) > 80
        words, (module, function) = one.name.replace("-", "_"), one.run.split(":")
        run = getattr(IMPORTED[one.name], function)
        assert run.__annotations__ == {"context": "Context", "return": "Outcome"}
        if module == "benchmarks.jobs.comparison":
            assert one.name in PLANS
        else:
            assert words in one.run or words.endswith(function)
    names = [one.name for one in EVERY]
    assert len({*names, *(one.group for one in EVERY)}) == len(names) + 3
    assert sum(one.quick_s for one in EVERY) < 21 * 60


def test_every_command_has_help_and_words_name_benchmarks_groups_and_globs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in _COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main((), [command, "--help"])
        assert f"benchmarks {command}" in capsys.readouterr().out
    assert [one.name for one in selected(CATALOGUE, ["quiet-*"])] == ["quiet-first", "quiet-last"]
    both = [one.name for one in selected(CATALOGUE, ["paper", "broken"])]
    assert both == ["broken", "quiet-last"]
    with pytest.raises(UsageError, match="names no benchmark and no group"):
        selected(CATALOGUE, ["quiet-lst"])


@pytest.mark.long
def test_one_that_crashes_loses_only_itself(
    out: Path, carry_out: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert carry_out("all") == 1
    printed = capfd.readouterr().out
    first = record(out, "quiet-first")
    assert first["error"] is None
    assert first["figures"][0]["spread"] == [1.4, 1.6]
    assert first["pictures"] == ["quiet-first.svg"]
    assert first["measured"] == {"3": first["seed"]}
    assert first["commit"] == "a commit"
    assert "the joins answer differently" in record(out, "broken")["error"]
    assert "SIGKILL" in record(out, "killed")["error"]
    assert record(out, "killed")["figures"] == []
    assert record(out, "quiet-last")["error"] is None
    assert "[4/4] quiet-last" in printed
    assert "size True, seed" in printed
    assert "quiet-first: theirs / ours is 3.00, bound ≤ 2" in printed
    assert "FAILED, 2 in all" in printed

    # It goes on where it stopped: what has a record without an error is not run again.
    assert carry_out("all") == 1
    printed = capfd.readouterr().out
    assert "quiet-first: has a record" in printed
    assert printed.count("size True") == 0
    assert "[2/4] broken: The title of broken" in printed

    assert carry_out("list") == 0
    printed = capfd.readouterr().out
    assert "3 figures, 1 MISSED" in printed
    assert "FAILED: AssertionError" in printed
    assert "4 benchmarks; quick about 8.0 s in all" in printed


@pytest.mark.long
def test_figures_of_deleted_benchmarks_stay_out_and_each_run_names_its_own_commit(
    out: Path, carry_out: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = iter(("first", "second"))
    monkeypatch.setattr("benchmarks.harness.processes.commit", lambda: next(commits))
    assert carry_out("run", "quiet-*", "--full") == 0
    names = [one.name for one in present(CATALOGUE, out)]
    assert {name: record(out, name, "full")["commit"] for name in names} == {
        "quiet-first": "first",
        "quiet-last": "second",
    }
    assert [one.name for one in present(CATALOGUE[:1], out)] == ["quiet-first"]


@pytest.mark.long
def test_a_process_without_a_record_has_not_that_of_an_earlier_run(
    out: Path, carry_out: Callable[..., int]
) -> None:
    assert carry_out("run", "quiet-last") == 0
    file = out / "results" / "quick" / "quiet-last.json"
    file.write_text(json.dumps(record(out, "quiet-last") | {"when": "2020-01-01T00:00:00+00:00"}))
    (out.parent / "faked_quiet.py").write_text("import os\n\ndef run(_):\n    os._exit(0)\n")
    assert carry_out("run", "quiet-last", "--again") == 1
    assert "status 0 and wrote no record" in record(out, "quiet-last")["error"]


@pytest.mark.long
def test_an_error_in_drawing_does_not_lose_a_run(out: Path, carry_out: Callable[..., int]) -> None:
    (out / "results" / "quick" / "quiet-last.svg").mkdir(parents=True)
    assert carry_out("run", "quiet-last") == 0
    found = record(out, "quiet-last")
    assert (found["error"], found["pictures"], len(found["figures"])) == (None, [], 3)
    assert carry_out("run", "quiet-last", "--strict") == 1, "a figure is missed"


def test_the_state_of_the_code_tells_of_new_files_and_not_of_pages(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        name = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(("git", "-C", str(tmp_path), *name, *words), check=True)

    assert commit(tmp_path) is None
    for folder in ("bsjoin", "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    clean = commit(tmp_path)
    (tmp_path / "docs" / "a").write_text("2")
    (tmp_path / "docs" / "b").touch()
    assert commit(tmp_path) == clean
    (tmp_path / "bsjoin" / "b").touch()
    assert commit(tmp_path) == f"{clean}+"
    (tmp_path / "bsjoin" / "b").unlink()
    (tmp_path / "bsjoin" / "a").write_text("2")
    assert commit(tmp_path) == f"{clean}+"


@pytest.mark.long
def test_promises_about_full_sizes_are_no_bounds_of_quick_ones(out: Path) -> None:
    for size, bounds in (("quick", [None] * 3), ("full", [1.0, 2.0, None])):
        words = ["all", f"--{size}", "--out", str(out)]
        assert main([entry("quiet", bounds="full")], words) == 0
        assert [one["bound"] for one in record(out, "quiet", size)["figures"]] == bounds


def begun(out: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A run of two benchmarks, in the second one, and a process that this has started."""
    program = (
        # A job in the background of a shell has inherited that Ctrl-C is ignored.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import sys; from benchmarks.harness.commands import main; "
        "from benchmarks.harness.outcome import Benchmark as B; "
        "sys.exit(main([B('quiet', 'engine', '', 'faked_quiet:run', 1, ''), "
        f"B('slow', 'engine', '', 'faked_slow:run', 1, '')], ['all', '--out', {str(out)!r}]))"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    child = out / "data" / "child"
    number = until(lambda: child.exists() and child.read_text(), "the second one", 120)
    return process, int(number)


@pytest.mark.long
def test_an_interrupted_run_ends_what_it_started_and_goes_on_later(
    out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    process, number = begun(out)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert (out / "data" / "tidy").exists(), "it was ended as by an exception"
    assert not any(one.pid == number and is_alive(one) for one in psutil.process_iter())
    assert "same command resumes" in capfd.readouterr().err
    assert record(out, "quiet")["error"] is None
    assert not (out / "results" / "quick" / "slow.json").exists()
