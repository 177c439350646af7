"""``python -m bsjoin``: what is printed, in both forms, and the exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from stored_tables import store
from test_secrets_of_stores import QUERY, nowhere

from bsjoin import BatchTable
from bsjoin._clock import now_us
from bsjoin._version import __version__
from bsjoin.commands import doctor, main
from bsjoin.errors import WorkerEnvironmentError
from bsjoin.storage import Manifest, StorageLocation, builds, versions

pytestmark = pytest.mark.usefixtures("without_code")

ROWS = pa.table({"name": ["a", "b", None, "d", "e"], "x": [1, 2, 3, 4, 5]})


def publish(location: StorageLocation) -> None:
    """Two versions; the second has two segments."""
    versions.publish(location, store(location, [1, 2, 3], ROWS.slice(0, 3)))
    versions.publish(location, store(location, [1, 2, 3, 4, 5], ROWS, cuts=[2]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of two versions."""
    publish(StorageLocation.of(tmp_path / "table"))
    return tmp_path / "table"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command: its status, and what it prints, read as JSON if asked for."""

    def run(*words: object) -> tuple[int, Any]:
        status = main([str(word) for word in words])
        printed = capsys.readouterr()
        text = printed.out or printed.err
        return status, json.loads(text) if "--json" in words else text

    return run


def test_versions(run: Any, path: Path) -> None:
    status, text = run("versions", path)
    assert status == 0
    assert re.fullmatch(r"version +created.*\n +1 .* 3 .*\n +2 .* 5 .*\n", text)
    _, data = run("versions", path, "--json")
    assert [(one["version"], one["rows"]) for one in data] == [(1, 3), (2, 5)]


def test_stats_of_the_newest_and_of_an_older_version(run: Any, path: Path) -> None:
    assert re.search(r"^rows +5$", run("stats", path)[1], re.MULTILINE)
    _, data = run("stats", path, "--version", 1, "--json")
    assert (data["rows"], data["columns"], data["segments"]) == (3, ["name", "x"], 1)


def test_rows_are_spread_over_segments(run: Any, path: Path) -> None:
    _, data = run("sample", path, "--rows", 3, "--json")
    assert data == [{"name": "a", "x": 1}, {"name": None, "x": 3}, {"name": "e", "x": 5}]
    _, data = run("sample", path, "--columns", "x", "--rows", 100, "--json")
    assert [one["x"] for one in data] == [1, 2, 3, 4, 5]
    assert run("sample", path, "--version", 1)[1] == "name  x\na     1\nb     2\nnull  3\n"


def test_a_damaged_version_is_named_and_the_others_are_still_checked(run: Any, path: Path) -> None:
    assert run("verify", path)[0] == 0
    newest = versions.latest(StorageLocation.of(path))
    file = path / newest.files[-1][0]
    file.write_bytes(file.read_bytes()[:-8] + b"damaged!")
    status, data = run("verify", path, "--json")
    assert status == 1
    assert [one["sound"] for one in data] == [True, False]
    assert file.name in data[1]["fault"]


def test_a_version_that_goes_while_it_is_verified_is_no_fault(
    run: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, load = StorageLocation.of(path), versions.load

    def loaded(location: StorageLocation, number: int) -> Manifest:
        found = load(location, number)
        builds.vacuum(location, 1, now_us())
        return found

    monkeypatch.setattr(versions, "load", loaded)
    assert BatchTable.open(path).verify() is None
    publish(location)
    assert run("verify", path, "--json")[1] == [{"version": 4, "sound": True, "fault": None}]


def test_vacuum(run: Any, path: Path) -> None:
    assert run("vacuum", path)[1] == "removed: none; left: 1, 2\n"
    assert run("vacuum", path, "--older-than", "0 s")[1] == "removed: 1; left: 2\n"
    for _ in range(3):
        publish(StorageLocation.of(path))
    keeps = "vacuum", path, "--older-than", "0 s", "--keep", 3
    assert run(*keeps, "--json") == (0, {"removed": [2, 3, 4, 5], "left": [6, 7, 8]})
    assert run(*keeps) == (0, "removed: none; left: 6, 7, 8\n")


def test_errors(run: Any, path: Path) -> None:
    for words, said in (
        (["stats", "{}/none"], "holds no table of bsjoin"),
        (["vacuum", "{}/none"], "holds no table of bsjoin"),
        (["stats", "{}", "--version", "7"], "version 7"),
        (["sample", "{}", "--columns", "x,nome"], "no column 'nome'; it has name, x"),
        (["sample", "{}", "--rows", "0"], "--rows=0"),
        (["vacuum", "{}", "--keep", "0"], "--keep=0"),
        (["vacuum", "{}", "--older-than", "-1 day"], "--older-than='-1 day' is below zero"),
        (["vacuum", "{}", "--older-than", "a month"], "--older-than='a month' is not a duration"),
        (["build", "x", "{}", "--on", "k", "--conf", "a"], "--conf 'a' is not NAME=VALUE"),
        (["estimate", "x", "--on", "k", "--option", "=a"], "--option '=a' is not NAME=VALUE"),
        (
            ["build", "x", "{}", "--on", "k", "--option", "x://me:o'brien@host/db"],
            '--option "x://me:***@host/db" is not NAME=VALUE',
        ),
    ):
        filled = [word.replace("{}", str(path)) for word in words]
        status, text = run(*filled)
        assert (status, said in text) == (1, True), words
    status, data = run(*filled, "--json")
    assert (status, said in data["message"]) == (1, True)


@pytest.mark.usefixtures("soon_active")
@pytest.mark.long
def test_a_table_behind_a_url_whose_secret_is_never_shown(
    run: Any, tmp_path: Path, temporary: Path
) -> None:
    """``local://`` is remote for bsjoin, as an object store is, and other processes see it, too."""
    folder = tmp_path / f"table{QUERY}"
    url = f"local://{folder}"
    publish(StorageLocation.of(url))
    for words in (
        ["versions"], ["stats"], ["stats", "--version", 1], ["sample", "--rows", 3], ["verify"],
        ["vacuum"],
    ):  # fmt: skip
        for form in ([], ["--json"]):
            told = run(words[0], url, *words[1:], *form)
            nowhere(told)
            assert told == run(words[0], folder, *words[1:], *form)
            assert told[0] == 0
    command = [sys.executable, "-m", "bsjoin", "sample", url, "--columns", "x", "--json"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert [one["x"] for one in json.loads(done.stdout)] == [1, 2, 3, 4, 5]
    nowhere(done.stdout, done.stderr)
    assert run("vacuum", url, "--older-than", "0 s") == (0, "removed: 1; left: 2\n")

    file = folder / versions.latest(StorageLocation.of(url)).files[-1][0]
    file.write_bytes(file.read_bytes()[:-8] + b"damaged!")
    named = "?version=7&sas=***"
    for words, said in (
        (["verify", url], "is damaged"),
        (["sample", url, "--version", 1], "version 1"),
        (["sample", url, "--columns", "nome"], named),
        *(([name, f"local://{tmp_path}/none{QUERY}"], named) for name in ("stats", "vacuum")),
        (["stats", f"memory://bucket{QUERY}"], "process"),
        (["stats", f"nosuchscheme://bucket{QUERY}"], named),
        (["stats", "s3://me:s3cr3t@bucket/table"], "must not carry credentials"),
    ):
        for form in ([], ["--json"]):
            status, told = run(*words, *form)
            nowhere(told)
            assert (status, said in str(told)) == (1, True), told


def test_words_that_are_not_understood_show_no_secret(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["stats", "a", f"s3://b{QUERY}"],
        [f"s3://me:s3cr3t@b{QUERY}"],
        ["build", "a", "b", "--on", "k", "--cnf", "spark.hadoop.fs.s3a.secret.key=s3cr3t/x=y"],
        ["stats", "a", "--conf=spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net=s3cr3t"],
    ):
        with pytest.raises(SystemExit) as ended:
            run(*words)
        assert ended.value.code == 2
        told = capsys.readouterr().err
        nowhere(told)
        assert "***" in told


def test_tables_are_read_without_spark(path: Path) -> None:
    code = (
        "import atexit, os, runpy, sys; "
        "atexit.register(lambda: 'pyspark' in sys.modules and os._exit(10)); "
        "runpy.run_module('bsjoin', run_name='__main__')"
    )
    words = [sys.executable, "-c", code, "stats", str(path), "--json"]
    found = subprocess.run(words, capture_output=True, check=True).stdout
    assert json.loads(found)["rows"] == 5


def test_build_and_estimate(run: Any, spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "source.parquet", tmp_path / "built"
    (tmp_path / "source.csv").write_text("k,at\n1,5\n1,3\n2,4\n1,2\n")
    options = ("--format", "csv", "--option", "header=true", "--option", "inferSchema=true")
    latest = ("--on", "k", "--latest-by", "at", "--keep", 2)
    status, data = run("build", tmp_path / "source.csv", target, *options, *latest, "--json")
    assert status == 0
    assert (data["rows"], data["version"]) == (3, 1)
    sampled = run("sample", target, "--json")[1]
    assert sorted((row["k"], row["at"]) for row in sampled) == [(1, 3), (1, 5), (2, 4)]
    pq.write_table(pa.table({"k": [1, 1, 2], "at": [5, 3, 4]}), source)
    status, data = run("estimate", source, "--on", "k", "--as-of", "at", "--json")
    assert status == 0
    assert (data["rows"], data["sampled"]) == (3, 3)
    assert data["bytes"] > 0
    nulls = run("build", source, tmp_path / "nulls", "--on", "k,at", "--nulls-equal", "at")
    assert nulls[0] == 0
    assert "k long, at long, null-safe" in run("stats", tmp_path / "nulls")[1]
    url = f"local://{tmp_path}/remote{QUERY}"
    status, text = run("build", source, url, "--on", "k")
    nowhere(text)
    assert (status, "sas=***: 3 rows" in text) == (0, True)
    for nothing in (tmp_path / "nothing", url):
        status, text = run("build", nothing, target, "--on", "k")
        nowhere(text)
        assert (status, "Spark cannot read" in text) == (1, True)


def test_a_build_says_whether_something_has_changed(
    run: Any, spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "source.parquet", tmp_path / "built"

    def build(*more: object) -> tuple[int, bool, int]:
        status, data = run("build", source, target, "--on", "k", *more, "--json")
        assert status == 0, data
        return data["version"], data["built"], data["rows"]

    pq.write_table(pa.table({"k": [1, 2, 3]}), source)
    assert build() == (1, True, 3)
    assert build() == (1, False, 3)
    assert build("--fingerprint", "monday") == (1, False, 3)  # the same rows
    pq.write_table(pa.table({"k": [1, 2, 3, 4]}), source)
    assert build("--fingerprint", "monday") == (1, False, 3)  # the user says so
    _, text = run("build", source, target, "--on", "k", "--fingerprint", "monday")
    assert text.startswith(f"nothing has changed: version 1 of {target}: 3 rows, 3 keys, ")
    assert build("--fingerprint", "tuesday") == (2, True, 4)
    assert build("--fingerprint", "tuesday") == (2, False, 4)
    assert build() == (2, False, 4)
    # A table that promises more is another version, though its rows are the same.
    assert build("--unique") == (3, True, 4)
    _, text = run("build", source, tmp_path / "other", "--on", "k")
    assert text.startswith(f"version 1 of {tmp_path / 'other'}: 4 rows, 4 keys, ")


def test_a_key_that_is_there_twice_is_refused_by_unique(
    run: Any, spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "source.parquet", tmp_path / "built"
    pq.write_table(pa.table({"k": [1, 2, 2], "at": [1, 2, 3]}), source)
    words = "build", source, target, "--on", "k", "--unique"
    status, text = run(*words)
    assert (status, text.count("\n"), "k=2" in text) == (1, 1, True), text
    status, data = run(*words, "--json")
    assert (status, data["error"]) == (1, "DuplicateKeyError")
    assert run("stats", target)[0] == 1  # nothing is left of it
    assert run(*words, "--latest-by", "at")[0] == 0


def test_a_table_of_the_catalogue(run: Any, spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(
        f"CREATE TABLE of_the_catalogue USING parquet LOCATION '{tmp_path}/source' "
        "AS SELECT id AS k, concat('v', id) AS v FROM range(3)"
    )
    try:
        for name in ("of_the_catalogue", "spark_catalog.default.of_the_catalogue"):
            table = tmp_path / name
            assert run("build", name, table, "--on", "k", "--format", "table")[0] == 0
            _, data = run("sample", table, "--json")
            assert sorted((row["k"], row["v"]) for row in data) == [(0, "v0"), (1, "v1"), (2, "v2")]
            assert run("estimate", name, "--on", "k", "--format", "table", "--json")[0] == 0
    finally:
        spark.sql("DROP TABLE of_the_catalogue")
    for words in (["build", "of_the_catalogue", tmp_path / "t"], ["estimate", "of_the_catalogue"]):
        status, text = run(*words, "--on", "k", "--format", "table")
        assert (status, text.count("\n")) == (1, 1), text
        assert "cannot read 'of_the_catalogue' (--format=table): [TABLE_OR_VIEW_NOT_FOUND]" in text


def test_what_cannot_be_built_or_estimated_is_a_line(
    run: Any, spark: SparkSession, tmp_path: Path
) -> None:
    """Of each the status, one line on the error stream, and the same as JSON."""
    source, target = tmp_path / "source.parquet", tmp_path / "built"
    pq.write_table(pa.table({"k": [1, 2], "at": [1, 2]}), source)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no table")
    built = [
        (["build", source, ""], "give a folder or a URL"),
        (["build", source, "memory://table"], "is in the memory of one process"),
        (["build", source, "nosuchscheme://table/a"], "has no nosuchscheme://"),
        (["build", source, tmp_path / "file"], "It must be a folder"),
        (["build", source, "/proc/bsjoin/table"], "cannot create the folder"),
        (["build", source, target, "--keep", 0], "keep=0"),
        (["build", source, target, "--within", "at", "none"], "none"),
        (["build", source, target, "--within", "at", "at", "--closed", "all"], "closed='all'"),
        (["build", source, target, "--band", "at", "--closed", "both"], "--closed='both' is of"),
        (["build", source, target, "--latest-by", "none"], "none"),
        (["build", source, target, "--latest-by", ""], "--latest-by='': give names of columns"),
        (["build", source, target, "--nulls-equal", "k,"], "--nulls-equal='k,': give names"),
        (["build", source, target, "--nulls-equal", "at"], "at"),
    ]
    sources = [
        (tmp_path / "missing", "PATH_NOT_FOUND"),
        (tmp_path / "empty", "UNABLE_TO_INFER_SCHEMA"),
        (tmp_path / "file", "Spark cannot read"),
        ("memory://bucket/source", "Spark cannot read 'memory://bucket/source' (--format=parquet)"),
        ("", "Spark cannot read"),
    ]
    for source, said in sources:
        built += [(["build", source, target], said), (["estimate", source], said)]
    for words, said in built:
        status, text = run(*words, "--on", "k")
        assert (status, said in text, text.count("\n")) == (1, True, 1), (words, text)
        assert "Traceback" not in text
        status, data = run(*words, "--on", "k", "--json")
        assert (status, said in data["message"], [*data]) == (1, True, ["error", "message"])
    assert not target.exists()


def test_doctor(run: Any, spark: SparkSession) -> None:
    status, text = run("doctor")
    assert status == 0
    assert re.match(rf"ok +bsjoin +{re.escape(__version__)}, ", text)
    assert "joins with a full cache run in Spark's JVM" in text


def test_doctor_says_what_a_machine_lacks(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def findings() -> dict[str, tuple[str, str]]:
        status, data = run("doctor", "--no-session", "--json")
        assert status == any(one["state"] == "fault" for one in data)
        return {one["what"]: (one["state"], one["found"]) for one in data}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "version", lambda name: "2.1.9")
        found = findings()
    assert found["numpy"] == ("ok", "2.1.9")
    assert found["pyarrow"] == ("fault", "2.1.9, older than 18: pip install bsjoin")
    told = "2.1.9, older than 2.2.2: pip install 'bsjoin[spark]'"
    assert found["pandas"] == ("fault", told)
    temporary = tempfile.gettempdir()
    free = SimpleNamespace(free=1 << 29)
    monkeypatch.setattr("bsjoin.commands.doctor.shutil.disk_usage", lambda path: free)
    found = findings()
    state, said = found["/dev/shm"]
    assert (state, "512.0 MiB free" in said, "--shm-size" in said) == ("note", True, True)
    assert found[temporary] == ("note", "512.0 MiB free, for tables without a path")
    monkeypatch.setattr("bsjoin.commands.doctor.os.access", lambda path, mode: False)
    assert findings()["/dev/shm"][0] == "note"
    assert "cannot be written to: incremental caches are in" in findings()["/dev/shm"][1]
    monkeypatch.setattr(doctor, "Path", lambda name: tmp_path / "none")
    state, said = findings()[str(tmp_path / "none")]
    assert (state, "not there: incremental caches are in" in said) == ("note", True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    others = tmp_path / f"bsjoin-{os.geteuid()}"
    assert findings()[str(tmp_path)][0] == "note"
    others.chmod(0o777)
    state, said = findings()[str(tmp_path)]
    assert (state, "other users can write to it" in said) == ("fault", True)


def test_doctor_says_what_a_session_lacks(
    run: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def findings(*words: str) -> dict[str, tuple[str, str]]:
        status, data = run("doctor", "--json", *words)
        assert status == any(one["state"] == "fault" for one in data)
        return {one["what"]: (one["state"], one["found"]) for one in data}

    def fails(*_: Any) -> None:
        raise WorkerEnvironmentError("the workers lack numpy")

    def breaks(*_: Any) -> None:
        raise RuntimeError("no disk for s3cr3t")

    monkeypatch.setattr("bsjoin.spark.workers.check_workers", fails)
    monkeypatch.setattr("bsjoin.runtimes.jvm.attach.lacks_planner", lambda spark: "no such rule")
    monkeypatch.setattr(doctor, "_SOCKETS", "spark.nothing.of.this.name")
    found = findings()
    assert found["workers"] == ("fault", "the workers lack numpy")
    monkeypatch.setattr("bsjoin.spark.workers.check_workers", breaks)
    told = "fails: no disk for *** (see the settings, and what is printed above)"
    assert findings("--conf", "spark.any.password=s3cr3t")["session"] == ("fault", told)
    spark.conf.unset("spark.any.password")
    monkeypatch.setattr("bsjoin.spark.workers.check_workers", fails)
    assert found["planner"] == ("note", "no such rule")
    assert found["spark.nothing.of.this.name"][0] == "note"
    monkeypatch.setattr("bsjoin.runtimes.jvm.attach.attached", lambda spark: "no jar")
    found = findings()
    told = "joins run in Python workers: no jar. Set spark.jars to bsjoin.jar()"
    assert found["jar"] == ("note", told)
    assert "planner" not in found
    monkeypatch.setattr("bsjoin.spark.session.too_old", lambda version: f"{version} is old")
    found = findings()
    assert found["session"] == ("fault", f"{spark.version} is old")
    assert "jar" not in found


@pytest.mark.long
def test_a_table_for_each_condition(run: Any, spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    pq.write_table(pa.table({"k": [1, 2], "a": [1, 2], "b": [3, 4]}), source)
    for words, said in (
        (["--band", "a"], "Band("),
        (["--within", "a", "b", "--closed", "both"], "Within("),
        (["--overlaps", "a", "b"], "Overlaps("),
    ):
        target = tmp_path / words[0]
        assert run("build", source, target, "--on", "", *words)[0] == 0
        _, data = run("stats", target, "--json")
        assert [one.startswith(said) for one in data["conditions"]] == [True]
        assert data["key_columns"] == []
