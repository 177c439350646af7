"""One Spark session per test process, no stream left running, and no test left out in CI."""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import hypothesis
import pytest
import sessions
from cache_runs import planes
from cache_samples import Model
from hypothesis import Phase
from left_behind import State, stop_streams
from pyspark.sql import DataFrame, SparkSession
from shuffled import TESTS, TOGETHER, at_its_turn, shuffle
from spark_samples import Feed, table_of

import bsjoin.table
from bsjoin import BatchTable
from bsjoin.following import looks
from bsjoin.runtimes.jvm.attach import attached
from bsjoin.spark import settled
from bsjoin.storage import StorageLocation, versions
from tests import supervisor

pytest_plugins = ["servers"]

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# Every run draws fresh cases, and a case that fails is shrunk; `make fuzz` repeats such runs. In CI
# all runs draw the same ones, in the same order: there a failure is one of the change.
hypothesis.settings.register_profile(
    "ci",
    derandomize=False,
    database=None,
    deadline=None,
    max_examples=40,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
hypothesis.settings.register_profile(
    "unshrunk", hypothesis.settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate]
)
hypothesis.settings.load_profile("ci")
# What tests write need not outlive the machine, and beside other writes a flush takes long.
os.fsync = lambda _: None
# Beside other tests a version may be written too late, and then its number is left out.
versions._ACTIVATION = replace(versions._ACTIVATION, host_us=None)
_SHRINKING_S = 600  # Hypothesis itself gives up after 300
_SEED_OF_CI = "20261128"

# These wait for processes of their own, or are the longest, and so begin first; the short ones,
# without Spark, come last: both processes of a run end together.
_FIRST = (
    "sources",
    "test_scheduling_live",
    "test_scaling_live",
    "test_jvm_cluster",
    "test_connect",
    "test_incremental_workers",
    "test_workers_python",
    "test_kafka",
    "test_interrupts",
    "test_packages",
)


_running: list[State] = []  # of the session of this process, as it began


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = sessions.session("local[2]")
    assert attached(session) is None
    _running.append(State.of(session))
    yield session
    _running.clear()
    session.stop()


@pytest.fixture(autouse=True)
def _leaves_what_it_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that changes what the next ones find fails; they find it as it was.

    The session is looked at behind tests that ask for it, and behind every module.
    """
    session = _running[0].session if _running and "spark" in request.fixturenames else None
    before = State.of(session, *_running)
    yield
    if session is not None:
        stop_streams(session)
    _compare(before)


@pytest.fixture(scope="module", autouse=True)
def _module_leaves_what_it_found() -> Iterator[None]:
    """The same for the fixtures of a module."""
    before = State.of(_running[0].session if _running else None, *_running)
    yield
    if before.session is None and _running:  # the session is of this module's time
        before = replace(_running[0], folder=before.folder, environment=before.environment)
    _compare(before)


def _compare(before: State) -> None:
    if before.session is not None and not _running:
        return  # it has been stopped: the run ends
    left = before.differences(State.of(before.session, before))
    if left:
        before.restore()
        pytest.fail(f"This is left behind: {'; '.join(left)}", pytrace=False)


@pytest.fixture(scope="module", params=["jvm", "python"])
def runtime(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """What runs the joins of a module's tests: each runs with both.

    Where a module is marked ``in_turns("runtime")`` each runs with one, and without code that
    Spark generates: its subject is the driver's, in which they do not differ; where they do,
    oracles hold both.
    """
    settings = {"spark.bsjoin.runtime": request.param}
    subject_is_the_driver = request.node.get_closest_marker("in_turns") is not None
    code = "python" if subject_is_the_driver else request.param
    with sessions.configured(spark, settings | sessions.CODE[code]):
        yield request.param


@pytest.fixture(scope="module")
def in_jvm(spark: SparkSession) -> Iterator[None]:
    """A module whose joins run in the JVM, or are refused."""
    with sessions.configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        yield


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """A module whose joins run in Python: nothing waits for code that Spark generates."""
    with sessions.configured(spark, sessions.CODE["python"]):
        yield


@pytest.fixture(scope="module")
def in_python(spark: SparkSession, interpreted: None) -> Iterator[None]:
    """The same, whose joins with stored tables run there, too."""
    with sessions.configured(spark, {"spark.bsjoin.runtime": "python"}):
        yield


@pytest.fixture
def without_code(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """The same for the tests of a module that do not run with each ``runtime``."""
    in_turns = request.node.get_closest_marker("in_turns")
    has_code = "runtime" in request.fixturenames and (in_turns is None or bool(in_turns.kwargs))
    with sessions.configured(spark, {} if has_code else sessions.CODE["python"]):
        yield


@pytest.fixture
def location(tmp_path: Path) -> StorageLocation:
    return StorageLocation.of(tmp_path / "table")


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> BatchTable:
    return BatchTable.build(table_of(spark, 1), on="k", path=tmp_path / "table")


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Key 1 once, key 2 twice, key 3 once."""
    return Model(tmp_path / "model", planes([1, 2, 2, 3]))


@pytest.fixture
def soon_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions are active as soon as they are there, not after 0.1 s, or behind URLs 2 s.

    Whoever publishes one is told a time of a moment ago, and so has as long to write it as ever.
    """
    activation = replace(versions._ACTIVATION, remote_us=versions._ACTIVATION.local_us)
    monkeypatch.setattr(versions, "_ACTIVATION", activation)
    ago_us = activation.local_us - 5_000
    clock, *others = versions.publish.__defaults__ or ()
    monkeypatch.setattr(versions.publish, "__defaults__", (lambda: clock() - ago_us, *others))
    waits = SimpleNamespace(sleep=lambda s: time.sleep(max(0.0, s - ago_us / 1e6)))
    monkeypatch.setattr(versions, "time", waits)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at sources do not wait: neither after a whole read, nor for files to be quiet."""
    monkeypatch.setattr(looks, "_PAUSES_OF_WHOLE_READS", 0.0)
    monkeypatch.setattr(settled, "_QUIET_S", 0.0)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary tables and copies lie."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def people(spark: SparkSession) -> DataFrame:
    """Keys 0 to 9, one row each."""
    return spark.range(10).selectExpr("id AS k", "concat('name ', id) AS name")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The locations of the tables that are built, a refresh included."""
    seen: list[str] = []
    build = bsjoin.build.storing.build

    def counted(df: DataFrame, begun: Any, *rest: object) -> object:
        seen.append(str(begun.location))
        return build(df, begun, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(bsjoin.build.storing, "build", counted)
    return seen


@pytest.fixture
def slow_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds take two hours, and their rows are as old."""
    published = bsjoin.build.storing._published
    monkeypatch.setattr(
        bsjoin.build.storing,
        "_published",
        lambda *given: published(*given[:-1], given[-1] - 7_200_000_000),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the property tests; the processes of a run share that of the first."""
    given = getattr(config, "workerinput", {}).get("seed", config.option.hypothesis_seed)
    config.option.hypothesis_seed = given or (
        _SEED_OF_CI if os.environ.get("CI") else str(random.SystemRandom().randrange(1 << 32))
    )
    # The workers import the checkout's packages, installed or not.
    paths = [str(TESTS.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    supervisor.start()


def pytest_unconfigure() -> None:
    """The run has come to its end; what is left of it ends with it."""
    supervisor.leave_in_order()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the seed over to a process of the run."""
    node.workerinput["seed"] = node.config.option.hypothesis_seed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file, or a folder whose files stay together, to one process of the run."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = Path(super()._split_scope(nodeid))
            return str(file.parent if file.parent.name in TOGETHER else file)

    return Scheduling(config, log)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Tell the seed, and what is not here."""
    told = [_seed(config)]
    if not os.environ.get("BSJOIN_LAKES"):
        told.append("left out: tests/lakes, with Spark's jars of Delta and Iceberg: `make lakes`")
    return told


def _seed(config: pytest.Config) -> str:
    return f"cases and order of the files: --hypothesis-seed={config.option.hypothesis_seed}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tell it again behind failures: the header is far above, and missing in quiet runs."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(_seed(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the property tests, and shuffle the files; those that take long begin first."""
    items[:] = filter(at_its_turn, items)
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.property)
            item.add_marker(pytest.mark.timeout(_SHRINKING_S))

    long = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}

    def place(item: pytest.Item) -> int:
        folder = item.path.parent.name
        name = folder if folder in TOGETHER else item.path.stem
        return _FIRST.index(name) if name in _FIRST else len(_FIRST) + (item.path not in long)

    shuffle(items, config.option.hypothesis_seed)
    items.sort(key=place)


def pytest_collection_finish() -> None:
    """What is here stays to the end of the run: from now on collections of garbage leave it out."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that cannot run fails in CI: what it needs has to be there."""
    report = yield
    return _failed_if_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file."""
    report = yield
    return _failed_if_skipped(report)


def _failed_if_skipped(report: Report) -> Report:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason}. In CI (the environment says so) no test may be skipped."
    return report
