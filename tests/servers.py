"""Database servers of the test run: each in a temporary folder, with a password, on a free port.

A test that kills a server starts it again before it ends: the servers live for the session.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock
from urllib.parse import quote

import pytest

from examples import _kafka
from examples._kafka import free_port
from tests import supervisor

PASSWORD = "s3cret:/@ %41?é"  # it must be encoded in a URL
NAME = "test"


class Server(ABC):
    """A server process that can be stopped, killed and started again on the same port."""

    scheme: str
    user = "tester"
    name = NAME
    crash = signal.SIGKILL
    """Ends it at once, with all that it has started."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"bsjoin-{self.scheme}-", dir="/tmp"))
        supervisor.watch(self.folder)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.account = "nobody" if os.geteuid() == 0 else None
        if self.account:
            shutil.chown(self.folder, self.account)

    @property
    def url(self) -> str:
        """The URL, password included."""
        password = quote(PASSWORD, safe="")
        return f"{self.scheme}://{self.user}:{password}@127.0.0.1:{self.port}/{self.name}"

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """What starts the server in the foreground."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it answers."""

    def run(self, *command: str | Path, text: str | None = None) -> None:
        """Run a command to its end as the server's account."""
        done = subprocess.run(
            [str(part) for part in command],
            input=text,
            capture_output=True,
            text=True,
            user=self.account,
            cwd=self.folder,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}\n{done.stderr}")

    def start(self) -> None:
        """Start it and wait until it answers."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [str(part) for part in self.command()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    user=self.account,
                    cwd=self.folder,
                    start_new_session=True,  # Ctrl-C is not for it
                )
            supervisor.watch(self.folder, self.process.pid, self.crash)
            while time.monotonic() < end and self.process.poll() is None:
                if self.ready():
                    return
                time.sleep(0.05)
            time.sleep(0.2)  # after a kill, its old children may still hold the folder
        raise RuntimeError((self.folder / "log").read_text("utf-8", "replace")[-4000:])

    def signal(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def stop(self) -> None:
        """Let it end in order."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Let it end as by a crash: connections break, nothing is tidied."""
        self.signal(self.crash)

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def move(self) -> None:
        """Start on another port."""
        self.port = free_port()
        self.start()

    def remove(self) -> None:
        with contextlib.suppress(Exception):
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        supervisor.forget(self.folder)


class Database(Server):
    """One that takes statements."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run a statement as the administrator, over the socket."""

    def ready(self) -> bool:
        with contextlib.suppress(Exception):
            self.execute("SELECT 1")
            return True
        return False


class PostgreSQL(Database):
    """PostgreSQL of the package pgserver, or of Debian."""

    scheme = "postgresql"
    crash = signal.SIGQUIT  # a crash, but its children go at once

    def __init__(self, programs: Path) -> None:
        super().__init__()
        self.programs = programs
        try:
            self.run(programs / "initdb", "--version")
        except PermissionError:  # a folder of root's
            shutil.copytree(programs.parent, self.folder / "programs")
            self.programs = self.folder / "programs" / programs.name
        self.run(
            self.programs / "initdb", "-D", "data", "-U", "postgres", "-E", "utf8",
            "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256",
            "--no-sync",
        )  # fmt: skip
        self.start()
        password = PASSWORD.replace("'", "''")
        self.execute(f"CREATE ROLE {self.user} LOGIN SUPERUSER PASSWORD '{password}'")
        self.execute(f"CREATE DATABASE {self.name} OWNER {self.user}")

    def command(self) -> Sequence[str | Path]:
        return (
            self.programs / "postgres", "-D", "data", "-p", str(self.port), "-h", "127.0.0.1",
            "-k", self.folder, "-c", "fsync=off", "-c", "max_connections=50",
            "-c", "shared_buffers=16MB", "-c", "unix_socket_permissions=0777",
            "-c", "wal_level=logical",
        )  # fmt: skip

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", autocommit=True
        ) as connection:
            connection.execute(statement)  # type: ignore[arg-type,call-overload,unused-ignore]

    def stop(self) -> None:
        self.signal(signal.SIGINT)  # does not wait for clients


class MariaDB(Database):
    """MariaDB as Debian packs it, not waiting for the disk."""

    scheme = "mysql"
    quick = ("--innodb-flush-method=nosync", "--debug-no-sync")

    def __init__(self, program: str, installer: str) -> None:
        super().__init__()
        self.program = program
        self.account = None  # it changes to the user it is told
        self.run(
            installer, "--no-defaults", f"--datadir={self.folder / 'data'}",
            "--auth-root-authentication-method=normal", "--skip-test-db", *self.quick,
            *self._user(),
        )  # fmt: skip
        self.start()
        password = PASSWORD.replace("'", "''")
        self.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.execute(f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{password}'")
        self.execute(f"GRANT ALL ON *.* TO '{self.user}'@'%'")

    def _user(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def command(self) -> Sequence[str | Path]:
        return (
            self.program, "--no-defaults", f"--datadir={self.folder / 'data'}",
            f"--port={self.port}", "--bind-address=127.0.0.1",
            f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}",
            "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2",
            "--skip-name-resolve", "--default-time-zone=+03:00", *self.quick, *self._user(),
        )  # fmt: skip

    def execute(self, statement: str) -> None:
        import pymysql

        with (
            contextlib.closing(
                pymysql.connect(
                    unix_socket=str(self.folder / "socket"),
                    user="root",
                    charset="utf8mb4",
                    autocommit=True,
                )
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


class Redis(Server):
    """Redis, not writing to disk."""

    scheme = "redis"
    user = ""
    name = "0"

    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program
        (self.folder / "redis.conf").write_text(
            f'bind 127.0.0.1\nport {self.port}\nsave ""\nappendonly no\nrequirepass "{PASSWORD}"\n',
            "utf-8",
        )
        self.start()

    def command(self) -> Sequence[str | Path]:
        return (self.program, self.folder / "redis.conf")

    def ready(self) -> bool:
        import redis

        with (
            contextlib.suppress(Exception),
            redis.Redis(port=self.port, password=PASSWORD) as client,
        ):
            return bool(client.ping())
        return False


class Kafka(Server):
    """A broker of Apache Kafka that is its own controller; topics begin with their first record."""

    scheme = "kafka"

    def __init__(self, jars: Path) -> None:
        super().__init__()
        self.jars = jars
        self.account = None
        _kafka.prepare(self.folder)
        self.start()

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        (self.folder / "log").unlink(missing_ok=True)  # which says that one before was ready
        super().start()

    def command(self) -> Sequence[str | Path]:
        return _kafka.command(self.folder, self.jars, self.port)

    def ready(self) -> bool:
        return _kafka.is_ready(self.folder / "log")


def postgresql_programs() -> Path | None:
    """Where PostgreSQL's programs are; None if it is not here."""
    spec = importlib.util.find_spec("pgserver")
    for place in (spec.submodule_search_locations if spec else None) or ():
        programs = Path(place) / "pginstall" / "bin"
        if (programs / "postgres").exists():
            return programs
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def _program(*names: str) -> str | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("no PostgreSQL here: pip install pgserver")
    # The driver imports polars, if that is here, which sets a variable of the environment.
    with mock.patch.dict(os.environ), contextlib.suppress(ImportError):
        importlib.import_module("adbc_driver_postgresql.dbapi")
    server = PostgreSQL(programs)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    program = _program("mariadbd", "mysqld")
    installer = _program("mariadb-install-db", "mysql_install_db")
    if program is None or installer is None:
        pytest.skip("no MariaDB here: apt-get install mariadb-server")
    server = MariaDB(program, installer)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    program = _program("redis-server")
    if program is None:
        pytest.skip("no Redis here: apt-get install redis-server")
    server = Redis(program)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    server = Kafka(_fetched(_kafka.broker_jars))
    yield server
    server.remove()


@pytest.fixture(scope="session")
def kafka_connector() -> Path:
    """The folder with the jars that Spark needs for Kafka."""
    return _fetched(_kafka.connector_jars)


def _fetched(jars: Callable[[], Path]) -> Path:
    try:
        return jars()
    except _kafka.MissingError as missing:
        pytest.skip(str(missing))
