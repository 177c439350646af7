"""``python -m bsjoin`` with tables, readers and terminals that are not as one wishes."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from stored_tables import store

from bsjoin._version import NEEDED
from bsjoin.commands import doctor, main
from bsjoin.storage import KeyColumn, StorageLocation, builds, versions

COMMANDS = ("versions", "stats", "verify", "sample", "vacuum")
NOT_UTF_8 = pa.array([b"ok", b"\xff", b"a\xc3"], pa.binary()).view(pa.string())
NESTED = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), NOT_UTF_8)
HOSTILE = pa.table(
    {
        "name": NOT_UTF_8,
        "names": NESTED,
        "pair": pa.StructArray.from_arrays([NOT_UTF_8, pa.array([1, 2, 3])], ["a", "b"]),
        "x": [math.nan, math.inf, -math.inf],
        "told": ["\x1b[2J\x1b]0;owned\x07", "a\nb\tc", "☃ \u202e"],
        "raw": [b"\xff", b"", None],
        "far": pa.array([0, 4_000_000, None], pa.int32()).cast(pa.date32()),
        "times": pa.array([[1 << 58], [0], []], pa.list_(pa.timestamp("us", "UTC"))),
        "\x1b[2J": [1, 2, 3],
    }
)


def stored(folder: Path, rows: pa.Table) -> Path:
    location = StorageLocation.of(folder / "table")
    versions.publish(location, store(location, range(len(rows)), rows))
    return folder / "table"


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "bsjoin", *map(str, words)]
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, **options)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_values_that_json_and_terminals_do_not_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, HOSTILE)
    assert main(["sample", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert [row["name"] for row in found] == ["ok", "\ufffd", "a\ufffd"]
    assert [row["names"] for row in found] == [["ok"], ["\ufffd"], ["a\ufffd"]]
    assert [row["pair"]["a"] for row in found] == ["ok", "\ufffd", "a\ufffd"]
    assert [row["x"] for row in found] == ["NaN", "Infinity", "-Infinity"]
    assert [row["told"] for row in found] == HOSTILE["told"].to_pylist()
    assert [row["raw"] for row in found] == ["ff", "", None]
    assert [row["far"] for row in found] == ["1970-01-01", "12921-08-18", None]
    assert [row["times"] for row in found][1:] == [["1970-01-01 00:00:00+00:00"], []]
    assert found[0]["times"][0].startswith("11103-")
    assert main(["sample", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") == 4, "a row is a line"
    assert all(one.isprintable() for one in text.splitlines())
    assert r"\x1b[2J" in text
    for words in (["stats", str(path)], ["sample", str(path), "--columns", "\x1b[2J,\x07"]):
        main(words)
        told = "".join(capsys.readouterr())
        assert r"\x1b[2J" in told
        assert all(one.isprintable() for one in told.splitlines()), words
    assert main(["sample", str(path), "--columns", "x, name", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)[0]) == ["x", "name"]


def test_names_that_a_terminal_does_not_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = StorageLocation.of(tmp_path / "table")
    draft = store(location, [1, 2, 3], HOSTILE)
    versions.publish(location, replace(draft, keys=(KeyColumn("\x1b[2J", "long"),)))
    assert main(["stats", str(location)]) == 0
    text = capsys.readouterr().out
    assert r"\x1b[2J long" in text
    assert all(one.isprintable() for one in text.splitlines())


def test_a_reader_that_has_seen_enough_and_a_terminal_without_letters(tmp_path: Path) -> None:
    many = pa.table({"name": [f"a name {i} ☃" for i in range(20_000)]})
    path = stored(tmp_path, many)
    for more in ("", "--json"):
        words = f"{sys.executable} -m bsjoin sample {path} --rows 20000 {more}"
        shell = ["bash", "-c", f"set -o pipefail; {words} | head -n 1"]
        done = subprocess.run(shell, capture_output=True, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stderr) == (0, b""), more
        assert done.stdout
    done = run("sample", path, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2603" in done.stdout
    done = run("sample", path, "--json", env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    assert json.loads(done.stdout)[0]["name"] == "a name 0 ☃"


def test_what_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "building" / "data" / "0123").mkdir(parents=True)
    (tmp_path / "odd" / "versions" / "00000001.json").mkdir(parents=True)
    (tmp_path / "empty" / "versions").mkdir(parents=True)
    (tmp_path / "empty" / "versions" / "00000001.json").write_bytes(b"")
    (tmp_path / "deep" / "versions").mkdir(parents=True)
    (tmp_path / "deep" / "versions" / "00000001.json").write_bytes(b"[" * 100_000)
    names = ["file", "building", "odd", "empty", "deep", "nothing", "file/below"]
    for command in COMMANDS:
        for name in names:
            assert main([command, str(tmp_path / name), "--json"]) == 1, (command, name)
            told = capsys.readouterr().out
            json.loads(told)
            assert str(tmp_path / name) in told, (command, name, told)
        for place, says in (
            ("", "give a folder or a URL"),
            ("\0", "must not contain the character NUL"),
            ("http://", "is a URL without a folder"),
            ("s3:///", "is a URL without a folder"),
            ("://table", "is a URL without a scheme"),
            ("memory://table", "give a local folder, or a URL that all of them reach"),
            ("github://table", "See the settings and credentials"),
            (f"ftp://127.0.0.1:{closed_port()}/table", "Look after the device or service"),
        ):
            assert main([command, place]) == 1, (command, place)
            told = capsys.readouterr().err
            assert (says in told, told.count("\n")) == (True, 1), (command, place, told)
            assert "\0" in place or repr(place) in told, (command, place, told)


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_first_build_that_has_not_ended_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = StorageLocation.of(tmp_path / "table")
    with builds.begun(location):
        for command in COMMANDS:
            assert main([command, str(location)]) == 1
            assert "A build of one has begun there: wait for its end" in capsys.readouterr().err
        # Of a version that is there, it is no matter.
        versions.publish(location, store(location, [1, 2, 3], HOSTILE))
        for command in COMMANDS:
            assert main([command, str(location)]) == 0, capsys.readouterr()


def test_a_version_that_cannot_be_read_is_a_fault_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, HOSTILE)
    location = StorageLocation.of(path)
    for _ in range(2):
        versions.publish(location, store(location, [1, 2, 3], HOSTILE))
    (path / "versions" / "00000001.json").write_bytes(b"{")
    (path / "versions" / "00000002.json").unlink()
    (path / "versions" / "00000002.json").mkdir()
    capsys.readouterr()
    assert main(["verify", str(path), "--json"]) == 1
    first, second, third = json.loads(capsys.readouterr().out)
    assert (first["version"], first["sound"]) == (1, False)
    assert "remove the table's folder and build it again" in first["fault"]
    assert (second["version"], "must be a folder" in second["fault"]) == (2, True)
    assert third == {"version": 3, "sound": True, "fault": None}


@pytest.mark.usefixtures("without_code")
def test_a_failure_of_spark_is_a_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "source", tmp_path / "table"
    source.mkdir()
    pq.write_table(pa.table({"k": [1]}), source / "a.parquet")
    (source / "b.parquet").write_bytes(
        (source / "a.parquet").read_bytes()[:-20] + b"x" * 16 + b"PAR1"
    )
    for command in (["build", str(source), str(target)], ["estimate", str(source)]):
        assert main([*command, "--on", "k", "--option", "mergeSchema=false"]) == 1
        told = capsys.readouterr().err
        assert told.startswith("python -m bsjoin: "), told
        assert told.count("\n") <= 3, told
    assert main(["build", str(source / "a.parquet"), str(target), "--on", "nothing"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_what_a_session_needs_is_looked_at_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def java(text: str) -> None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{text}' >&2\nexit 1\n")
        program.chmod(0o755)

    def fault(*words: str) -> str:
        assert main(["doctor", "--json", *words]) == 1
        found = [one for one in json.loads(capsys.readouterr().out) if one["state"] == "fault"]
        assert len(found) == 1, found
        return f"{found[0]['what']}: {found[0]['found']}"

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "bin/java is no program: install Java 17 or 21" in fault()
    java('openjdk version "1.8.0_1"')
    assert fault().startswith(f'Java: {tmp_path}/bin/java is version "1", and too old')
    java('openjdk version "11.0.2" 2019-01-15')
    assert 'is version "11", and too old' in fault()
    java("no such thing")
    assert "-version says 'no such thing'" in fault()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fault().startswith("Java: java is not on the PATH")
    told = fault("--conf", f"spark.remote=sc://127.0.0.1:{closed_port()}/;token=s3cr3t")
    assert told.startswith("Connect: nobody answers at 127.0.0.1:"), told
    assert "s3cr3t" not in told
    for url in ("sc://host:port", "sc:///"):
        monkeypatch.setenv("SPARK_REMOTE", url)
        assert "spark.remote is no URL" in fault(), url


def without(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command where a package is not installed."""
    hidden = (
        "import runpy; from importlib.machinery import PathFinder as P; find = P.find_spec; "
        f"P.find_spec = lambda n, *m: None if n.startswith('{package}') else find(n, *m); "
        "runpy.run_module('bsjoin', run_name='__main__')"
    )
    command = [sys.executable, "-c", hidden, *words]
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True)


def test_without_spark_a_build_says_what_to_install(tmp_path: Path) -> None:
    for command in (["build", "a", str(tmp_path / "t")], ["estimate", "a"]):
        done = without("pyspark", *command, "--on", "k")
        assert done.returncode == 1
        assert "pip install 'bsjoin[spark]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "package",
    [
        one if one == "numpy" else pytest.param(one, marks=pytest.mark.long)
        for one in doctor._PACKAGES
    ],
)
def test_doctor_says_which_package_is_missing(package: str, tmp_path: Path) -> None:
    """Though the other commands cannot be imported without most of them."""
    done = without(package, "doctor", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert [one["what"] for one in found if one["state"] == "fault"] == [package]
    extra = "'bsjoin[spark]'" if package in ("pandas", "pyspark") else "bsjoin"
    assert f"not installed: pip install {extra}" in [one["found"] for one in found]
    assert found[-1]["found"] == f"not started without {package}"
    done = without(package, "stats", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    told = "doctor says what to install" if package in NEEDED else "holds no table"
    assert told in done.stderr


def test_doctor_says_that_no_folder_takes_temporary_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/proc/nowhere"])
    assert main(["doctor", "--no-session", "--json"]) == 1
    last = json.loads(capsys.readouterr().out)[-1]
    assert (last["state"], last["what"]) == ("fault", "TMPDIR")
    assert last["found"].endswith("set it to a folder to write to")


def test_ctrl_c_ends_a_command_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(location: StorageLocation) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(versions, "check_there", interrupted)
    assert main(["versions", "table"]) == 130
    assert capsys.readouterr() == ("", "")
