"""A standalone Spark cluster on this machine: workers on addresses, and of sizes, of their own.

Started with ``spark-class`` from the installed pyspark. The driver runs in a process of its own
(``live_scenarios.py``), since a process has one Spark context.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pyspark
from sessions import JVM

_HOME = Path(pyspark.__file__).parent
_PATIENCE_S = 120.0


class Standalone:
    """A master, and one worker for each number of cores, on 127.0.0.2 and following.

    Args:
        folder: for logs and work directories.
        cores: of each worker.
        resources: by worker, the name of a resource that it alone has; "" for none.
    """

    def __init__(self, folder: Path, cores: Sequence[int], resources: Sequence[str] = ()) -> None:
        self._folder, self._running = folder, []  # type: ignore[var-annotated]
        port, web = _free_port(), _free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._state = f"http://127.0.0.1:{web}/json/"
        at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
        self._start("org.apache.spark.deploy.master.Master", "127.0.0.1", at, {})
        self._wait(lambda state: True, "the master did not start")
        for i, count in enumerate(cores):
            self.add_worker(i, count, resources[i] if resources else "")
        self._wait(lambda state: _alive(state) == len(cores), "not all workers came")

    def add_worker(self, i: int, cores: int, resource: str = "") -> None:
        """Start the worker on 127.0.0.(i + 2)."""
        host = f"127.0.0.{i + 2}"
        options = ["--host", host, "--cores", str(cores), "--memory", "2g", "--webui-port", "0"]
        more = {}
        if resource:
            names = self._folder / f"{resource}.json"
            names.write_text(
                json.dumps({"name": resource, "addresses": [str(k) for k in range(9)]})
            )
            script = self._folder / f"{resource}.sh"
            script.write_text(f"#!/bin/sh\ncat {names}\n")
            script.chmod(0o755)
            prefix = f"-Dspark.worker.resource.{resource}"
            more = {
                "SPARK_WORKER_OPTS": f"{prefix}.amount=9 {prefix}.discoveryScript={script}",
            }
        work = ["--work-dir", str(self._folder / f"worker-{i}"), self.url]
        self._start("org.apache.spark.deploy.worker.Worker", host, [*options, *work], more)

    def stop(self) -> None:
        """End all of it, the executors with their workers."""
        for process in reversed(self._running):
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        for process in self._running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _start(self, name: str, host: str, options: Sequence[str], more: dict[str, str]) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM,
            **more,
        }
        log = self._folder / f"{name.rpartition('.')[2]}-{host}.log"
        with log.open("wb") as out:
            self._running.append(
                subprocess.Popen(
                    [str(_HOME / "bin" / "spark-class"), name, *options],
                    env=environment,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _wait(self, ready, why: str) -> None:  # type: ignore[no-untyped-def]
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(self._state, timeout=5) as answer:
                    if ready(json.load(answer)):
                        return
            except (OSError, ValueError):  # it is not up yet
                pass
            time.sleep(0.2)
        self.stop()
        raise TimeoutError(f"{why}; see the logs in {self._folder}")


def _alive(state: dict) -> int:  # type: ignore[type-arg]
    return sum(worker["state"] == "ALIVE" for worker in state["workers"])


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
