"""A run: a cluster, an application on it, a database behind a proxy, and the faults."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from tests.chaos.app import STORED_KEYS
from tests.chaos.proxy import Proxy
from tests.chaos.schedule import Event
from tests.chaos.verify import wrong_files, wrong_rows
from tests.servers import PostgreSQL, postgresql_programs
from tests.spark_samples import write_stream_file

_ROOT = Path(__file__).resolve().parent.parent.parent
_KEYS = 40
_ROWS = 20
_AHEAD = 4
"""How many micro-batches the files are ahead of the slower query."""
_KILLED = {
    "worker process killed": "pyspark.worker",
    "executor killed": "CoarseGrainedExecutorBackend",
}
_PROXIED = {
    "database slow": (0.3, False),
    "database half-open": (0.0, True),
    "network delays": (0.05, False),
    "network loses": (0.0, True),
    "network resets": (0.0, False),
}
"""By how much the proxy delays what passes, and whether it holds all of it back."""
_MOUNTED = ("disk full", "disk read-only", "memory for the cache full")
_SLOWEST_S = 240
_WAITS = 0.8
"""This share of the faults waits until both queries have finished a micro-batch since the last.

A driver may start for as long as the time from one of its deaths to the next: on a slow machine
most faults would meet no query.
"""
_LONGEST_WAIT_S = 120


def impossible_here() -> list[str]:
    """The faults that need the right to mount, if this account has it not."""
    with tempfile.TemporaryDirectory() as folder:
        return [] if _mount(Path(folder), "1m") and _unmount(Path(folder)) else list(_MOUNTED)


def _mount(folder: Path, size: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "bsjoin-chaos", str(folder)]
    return not subprocess.run(command, capture_output=True).returncode


def _unmount(folder: Path) -> bool:
    return not subprocess.run(["umount", "-l", str(folder)], capture_output=True).returncode


def _remount(folder: Path, mode: str) -> None:
    """Change a mount; for a while it is refused where a file is being written."""
    command = ["mount", "-o", f"remount,{mode}", str(folder)]
    for _ in range(50):
        if not subprocess.run(command, capture_output=True).returncode:
            return
        time.sleep(0.2)


class Run:
    """Everything of one run. Where it is ``interrupted``, no more faults come and it is verified.

    Args:
        seconds: how long.
        events: the faults.
        tell: prints a line.
        runtime: what runs the joins, ``"jvm"`` or ``"python"``.
        least: how many micro-batches the run has at least; it goes on without faults until then.
    """

    def __init__(
        self,
        seconds: float,
        events: list[Event],
        tell: Callable[[str], None],
        runtime: str,
        least: int,
    ):
        self.seconds, self.events, self.tell, self.least = seconds, events, tell, least
        self.folder = Path(tempfile.mkdtemp(prefix="bsjoin-chaos-"))
        for name in ("stream", "batches", "orders", "disk", "memory", "cluster"):
            (self.folder / name).mkdir()
        self.mounted = [name for name in ("disk", "memory") if _mount(self.folder / name, "48m")]
        programs = postgresql_programs()
        assert programs is not None, "no PostgreSQL here: pip install pgserver"
        self.server = PostgreSQL(programs)
        self.proxy = Proxy(self.server.port)
        self.names = {k: f"name {k}" for k in range(_KEYS) if k % 4}
        self.server.execute("SELECT 1")
        self._fill()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "PYSPARK_PYTHON": sys.executable,
        }
        self.cluster = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.cluster", str(self.folder / "cluster")],
            env=self.environment, cwd=_ROOT, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        master = next(line for line in self.cluster.stdout if line.startswith("spark://"))
        self.settings = {
            "folder": str(self.folder),
            "master": master.strip(),
            "table": str(self.folder / "disk" / "table"),
            "memory": str(self.folder / "memory"),
            "url": self.server.url.replace(f":{self.server.port}/", f":{self.proxy.port}/"),
            "runtime": runtime,
            "keys": _KEYS,
        }
        (self.folder / "settings.json").write_text(json.dumps(self.settings))
        self.stream: list[tuple[int, int, int]] = []
        self.files = 0
        self.version = 1
        self.app: subprocess.Popen[str] | None = None
        self.others: list[subprocess.Popen[str]] = []
        self.counts: Counter[str] = Counter()
        self.interrupted = False
        self.kept = False
        self._feeding = threading.Event()

    def _fill(self) -> None:
        self._sql("CREATE TABLE items (k BIGINT PRIMARY KEY, name TEXT)")
        for k, name in self.names.items():
            self._sql(f"INSERT INTO items VALUES ({k}, '{name}')")

    def _connect(self) -> Any:
        return psycopg.connect(self.server.url, autocommit=True, connect_timeout=3)

    def _sql(self, statement: str) -> None:
        with self._connect() as connection:
            connection.execute(statement)

    # Processes.

    def _start_app(self) -> None:
        self.app = self._application("app.log")

    def _application(self, log: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.chaos.app", str(self.folder / "settings.json")]
        with (self.folder / log).open("a") as file:
            return subprocess.Popen(
                [*command, *arguments], env=self.environment, cwd=_ROOT, text=True,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip

    def _alive(self) -> None:
        """Start the application again if it has ended, as its supervisor would."""
        code = self.app.poll()
        if code is not None:
            self.counts[f"application started again after it ended with {code}"] += 1
            self.tell(f"the application ended with {code}; it starts again from its checkpoints")
            self._kill_group(self.app)
            self._start_app()

    @staticmethod
    def _kill_group(process: subprocess.Popen[str]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _processes(self, text: str) -> list[int]:
        """The processes of executors whose command has a text."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    here = os.readlink(entry / "cwd").startswith(str(self.folder / "cluster"))
                    if here and text in (entry / "cmdline").read_text():
                        found.append(int(entry.name))
        return sorted(found)

    def _kill_one(self, text: str, draw: float) -> str:
        found = self._processes(text)
        if not found:
            return "none was running"
        chosen = found[int(draw * len(found))]
        with contextlib.suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGKILL)
        return f"process {chosen} of {len(found)}"

    # The stream.

    def committed(self) -> int:
        """How many files both queries have committed.

        A driver that is killed after the source has noted a file, and before the micro-batch is
        planned, reads that file and the next one in one micro-batch: there are fewer of these.
        """
        return min(_read(self.folder / f"checkpoint-{query}") for query in ("files", "batches"))

    def _feed(self) -> None:
        draw = random.Random(1)
        while not self._feeding.is_set():
            if self.files - self.committed() >= _AHEAD:
                time.sleep(0.02)
                continue
            first = len(self.stream)
            keys = [min(int(draw.expovariate(0.1)), _KEYS - 1) for _ in range(_ROWS)]
            rows = [(first + i, k, self.files) for i, k in enumerate(keys)]
            n, k, f = map(pa.array, zip(*rows, strict=True))
            write_stream_file(self.folder / "stream", self.files, n=n, k=k, f=f)
            self.stream += rows
            self.files += 1

    # The faults.

    def _order(self, what: str, **more: object) -> None:
        number = time.monotonic_ns()
        hidden = self.folder / "orders" / f".{number}"
        hidden.write_text(json.dumps({"do": what, **more}))
        os.replace(hidden, self.folder / "orders" / f"{number:024d}.json")

    def _order_refresh(self) -> str:
        self.version += 1
        self._order("refresh", version=self.version)
        return f"to version {self.version}"

    def _fault(self, event: Event) -> str | None:
        """Make a fault; it returns when the fault is over."""
        what, lasts = event.what, event.lasts_s
        if what in _KILLED:
            return self._kill_one(_KILLED[what], event.draw)
        if what == "refresh":
            return self._order_refresh()
        if what == "another application":
            if any(other.poll() is None for other in self.others):
                return "the one before still runs"
            self.others.append(self._application("other.log", "other"))
        elif what == "driver killed":
            self._kill_group(self.app)
        elif what == "vacuum":
            self._order(what)
        elif what == "database out of connections":
            with contextlib.ExitStack() as held:
                for _ in range(60):
                    with contextlib.suppress(psycopg.OperationalError):
                        held.enter_context(self._connect())
                self.proxy.reset()  # so that its clients connect again
                time.sleep(lasts)
        elif what in ("database killed", "database fails over to another port"):
            self.server.kill()
            self.proxy.reset()
            time.sleep(lasts)
            if what == "database killed":
                self.server.start()
            else:
                self.server.move()
                self.proxy.target = self.server.port
        elif what in _MOUNTED:
            self._disk_fault(what, lasts)
        else:
            self.proxy.delay_s, self.proxy.stalled = _PROXIED[what]
            time.sleep(lasts)
            self.proxy.delay_s, self.proxy.stalled = 0, False
            if what in ("network loses", "network resets"):
                self.proxy.reset()
        return None

    def _disk_fault(self, what: str, lasts: float) -> None:
        folder = self.folder / ("memory" if what.startswith("memory") else "disk")
        if what == "disk read-only":
            _remount(folder, "ro")
            self._order_refresh()
            time.sleep(lasts)
            _remount(folder, "rw")
            return
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        if folder.name == "disk":
            self._order_refresh()
        time.sleep(lasts)
        filler.unlink()

    # The whole.

    def run(self) -> list[str]:
        """Run to the end; what is wrong then."""
        try:
            self._start_app()
            self._wait(lambda: self.committed() > 0 or self._feed_first())
            feeder = threading.Thread(target=self._feed, daemon=True)
            feeder.start()
            self._make_faults()
            self._feeding.set()
            feeder.join()
            self._wait(lambda: self.committed() >= self.files)
            for other in self.others:
                code = other.wait(_SLOWEST_S)
                self.counts[f"other application ended with {code}"] += 1
            return self._verify()
        finally:
            self._close()

    def _feed_first(self) -> bool:
        if not self.files:
            write_stream_file(
                self.folder / "stream", 0, n=pa.array([0]), k=pa.array([1]), f=pa.array([0])
            )
            self.stream, self.files = [(0, 1, 0)], 1
        return False

    def _make_faults(self) -> None:
        begun = time.monotonic()
        end, before = begun + self.seconds, 0
        for event in self.events:
            self._until(min(begun + event.at_s, end))
            if event.draw < _WAITS:
                waits = time.monotonic()
                limit = min(waits + _LONGEST_WAIT_S, end)
                self._until(limit, lambda before=before: self.committed() > before)
                begun += time.monotonic() - waits
            if self.interrupted or time.monotonic() >= end:
                break
            before = self.committed()
            self._alive()
            told = self._fault(event)
            self.counts[event.what] += 1
            during = f" for {event.lasts_s} s" if event.lasts_s else ""
            self.tell(
                f"{event.at_s:7.1f} s, after {self.committed()} micro-batches: {event.what}{during}"
                + (f" ({told})" if told else "")
            )
            self._alive()
        self._until(end)
        self._wait(lambda: self.interrupted or self.committed() >= self.least)

    def _until(self, moment: float, done: Callable[[], bool] = lambda: False) -> None:
        while time.monotonic() < moment and not self.interrupted and not done():
            self._alive()
            time.sleep(0.1)

    def _wait(self, done: Callable[[], bool]) -> None:
        before, end = self.committed(), time.monotonic() + _SLOWEST_S
        while not done():
            if self.committed() > before:
                before, end = self.committed(), time.monotonic() + _SLOWEST_S
            if time.monotonic() > end:
                self.kept = True
                raise AssertionError(f"it does not go on, see {self.folder}\n{self._log()}")
            self._alive()
            time.sleep(0.1)

    def _log(self) -> str:
        """The end of the application's output."""
        return (self.folder / "app.log").read_text("utf-8", "replace")[-3000:]

    def _verify(self) -> list[str]:
        looked_up = [
            row
            for path in sorted((self.folder / "batches").glob("*.json"))
            for row in json.loads(path.read_text())
        ]
        wrong = [f"differs in a replay: {p}" for p in (self.folder / "batches").glob("*.differs")]
        wrong += wrong_rows(self.stream, looked_up, self.names)
        rows = [tuple(row.values()) for row in _sink(self.folder / "files")]
        copies = {k: 1 + k % 3 for k in range(STORED_KEYS)}
        wrong += wrong_files(self.stream, rows, copies, set(range(1, self.version + 1)))
        failed = [text for text in self.counts if text.startswith("other application")]
        wrong += [text for text in failed if not text.endswith(" 0")]
        used = len({v for _, _, _, v, _ in rows if v is not None})
        self.counts["versions that the stream used"] = used
        return wrong

    def _close(self) -> None:
        self.proxy.close()
        for process in (self.app, *self.others, self.cluster):
            if process is not None:
                self._kill_group(process)
        for number in self._processes(""):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.server.remove()
        for name in self.mounted:
            _unmount(self.folder / name)
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)


def _read(checkpoint: Path) -> int:
    """How many files the committed micro-batches of a query have read."""
    commits = (path.name for path in (checkpoint / "commits").glob("*"))
    newest = max((int(name) for name in commits if name.isdigit()), default=-1)
    if newest < 0:
        return 0
    offset = (checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1]
    return int(json.loads(offset)["logOffset"]) + 1


def _sink(folder: Path) -> list[dict[str, Any]]:
    """The rows of a file sink: of the files that its log has, which is what makes it exact."""
    names: dict[str, None] = {}
    for path in (folder / "_spark_metadata").iterdir():
        if path.name.split(".")[0].isdigit():
            for line in path.read_text().splitlines()[1:]:
                names[json.loads(line)["path"].removeprefix("file://")] = None
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += (
            pq.read_table(name, partitioning=None).select(["n", "k", "f", "v", "copy"]).to_pylist()
        )
    return rows
