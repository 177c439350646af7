"""What a test or a module must leave as it found it: the next ones depend on it.

The environment, the working folder; of the session of this process its settings, that it is the
active one, and its database. Streams are stopped after each test, and the temporary views dropped
that in-memory sinks make; pytest itself restores the filters of warnings.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bsjoin.spark.session import settings_of

# pytest says there where it is; Spark's launcher what the session needs; supervisor.py its mark.
_OTHERS = ("PYTEST_", "PYSPARK_", "SPARK_", "BSJOIN_TEST_RUN_")


def stop_streams(session: SparkSession) -> None:
    """Stop the streams that run, and drop the temporary views."""
    for query in session.streams.active:
        query.stop()
    # `session.catalog.listTables()` needs generated code, which some modules do without.
    views = session._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    for number in range(views.size()):
        session.catalog.dropTempView(views.apply(number).table())


def _settings_of(session: SparkSession) -> dict[str, str]:
    """The settings, but for those that say that the jar is attached, which stays."""
    attached = ("spark.bsjoin.jvm.", "spark.sql.catalog.bsjoin")
    found = settings_of(session)
    return {name: value for name, value in found.items() if not name.startswith(attached)}


@dataclass(frozen=True)
class State:
    """What was there at one moment.

    Args:
        session: the session of this process; None before it has one.
    """

    session: SparkSession | None
    environment: dict[str, str]
    folder: Path
    settings: dict[str, str]
    digest: int

    @classmethod
    def of(cls, session: SparkSession | None, before: State | None = None) -> State:
        """The state of now; one before saves to read all settings if they are the same."""
        digest = 0 if session is None else _digest(session)
        settings: dict[str, str] = {}
        if before is not None and before.digest == digest:
            settings = before.settings
        elif session is not None:
            settings = _settings_of(session)
        return cls(session, dict(os.environ), Path.cwd(), settings, digest)

    def differences(self, later: State) -> list[str]:
        """What is not as it was."""
        found = _changes("the environment variable", self.environment, later.environment, _OTHERS)
        if later.folder != self.folder:
            found.append(f"the working folder {later.folder}")
        if self.session is not None:
            found += _changes("the setting", self.settings, later.settings)
            found += _of_session(self.session)
        return found

    def restore(self) -> None:
        """Make it as it was, for the tests to come."""
        os.chdir(self.folder)
        for name in os.environ.keys() - self.environment.keys():
            if not name.startswith(_OTHERS):
                del os.environ[name]
        os.environ.update((k, v) for k, v in self.environment.items() if not k.startswith(_OTHERS))
        if (session := self.session) is not None:
            now = _settings_of(session)
            for name in now.keys() - self.settings.keys():
                session.conf.unset(name)
            for name, value in self.settings.items():
                if now.get(name) != value:
                    session.conf.set(name, value)
            _session_class(session).setActiveSession(session._jsparkSession)
            session.catalog.setCurrentDatabase("default")


def _changes(
    kind: str, before: dict[str, str], after: dict[str, str], others: tuple[str, ...] = ()
) -> list[str]:
    names = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
    return [
        f"{kind} {name}, which was {before.get(name)!r} and is {after.get(name)!r}"
        for name in names
        if not name.startswith(others)
    ]


def _of_session(session: SparkSession) -> list[str]:
    active = _session_class(session).getActiveSession()
    found = []
    if not active.isDefined() or not active.get().equals(session._jsparkSession):
        found.append("another active session, or none")
    if session._jsparkSession.catalog().currentDatabase() != "default":
        found.append("another database")
    return found


def _digest(session: SparkSession) -> int:
    """Of all settings: one call of the JVM instead of one for each."""
    return int(session._jsparkSession.conf().getAll().hashCode())


def _session_class(session: SparkSession) -> Any:
    return session._jvm.org.apache.spark.sql.classic.SparkSession
