"""One Spark session per test process, no stream left running, and no test left out in CI."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
import sessions
from cache_runs import planes
from cache_samples import Model
from hypothesis import Phase
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, table_of

import bsjoin.table
from bsjoin import BatchTable
from tests import supervisor

pytest_plugins = ["servers"]

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

TESTS = Path(__file__).resolve().parent

# Every run draws fresh cases, and a case that fails is shrunk; `make fuzz` repeats such runs.
hypothesis.settings.register_profile(
    "ci",
    derandomize=False,
    database=None,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
hypothesis.settings.load_profile("ci")
_SHRINKING_S = 600  # Hypothesis itself gives up after 300

# These wait for processes of their own, and so begin first; the short ones, without Spark, come
# last: both processes of a run end together.
_FIRST = (
    "test_scheduling_live",
    "test_jvm_cluster",
    "test_incremental_workers",
    "test_connect",
)
# Files of these folders run in one process, which starts the servers that they share.
_TOGETHER = ("sources",)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The workers import the checkout's packages, installed or not.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(TESTS.parent), os.environ.get("PYTHONPATH")])
    )
    session = sessions.session("local[2]")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _stop_streams(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()


@pytest.fixture(scope="module", autouse=True)
def _settings_stay(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module that changes the session's settings changes what the next ones find."""
    session = SparkSession.getActiveSession()
    before = _settings(session) if session else None
    yield
    if session and session.getActiveSession() is session:
        assert _settings(session) == before


def _settings(session: SparkSession) -> dict[str, str]:
    """But those that say that the jar is attached, which stays."""
    attached = ("spark.bsjoin.jvm.", "spark.sql.catalog.bsjoin")
    settings = session.conf.getAll
    return {name: value for name, value in settings.items() if not name.startswith(attached)}


@pytest.fixture(scope="module", params=["jvm", "python"])
def runtime(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """What runs the joins of a module's tests: each runs with both."""
    settings = {"spark.bsjoin.runtime": request.param}
    with sessions.configured(spark, settings | sessions.CODE[request.param]):
        yield request.param


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """A module whose joins run in Python: nothing waits for code that Spark generates."""
    with sessions.configured(spark, sessions.CODE["python"]):
        yield


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
def people(spark: SparkSession) -> DataFrame:
    """Keys 0 to 9, one row each."""
    return spark.range(10).selectExpr("id AS k", "concat('name ', id) AS name")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The locations of the tables that are built, a refresh included."""
    seen: list[str] = []
    build = bsjoin._spark.storing.build

    def counted(df: DataFrame, location: object, *rest: object) -> object:
        seen.append(str(location))
        return build(df, location, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(bsjoin._spark.storing, "build", counted)
    return seen


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the property tests; the processes of a run share that of the first."""
    given = getattr(config, "workerinput", {}).get("seed", config.option.hypothesis_seed)
    config.option.hypothesis_seed = given or str(random.SystemRandom().randrange(1 << 32))
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
            return str(file.parent if file.parent.name in _TOGETHER else file)

    return Scheduling(config, log)


def pytest_report_header(config: pytest.Config) -> str:
    """Tell the seed."""
    return f"property tests: --hypothesis-seed={config.option.hypothesis_seed} draws these cases"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tell it again behind failures: the header is far above, and missing in quiet runs."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(pytest_report_header(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the property tests, and order the files."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.property)
            item.add_marker(pytest.mark.timeout(_SHRINKING_S))

    long = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    long |= {item.path for item in items if item.path.parent.name in _TOGETHER}

    def place(item: pytest.Item) -> int:
        if item.path.stem in _FIRST:
            return _FIRST.index(item.path.stem)
        return len(_FIRST) + (item.path not in long)

    items.sort(key=place)


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
