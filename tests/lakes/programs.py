"""Programs of pages as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sessions

ROOT = Path(__file__).resolve().parent.parent.parent
_LIMIT_S = 240.0  # of each wait, on a busy machine


def environment() -> dict[str, str]:
    """That of a process with a session of its own."""
    left = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    return {name: value for name, value in os.environ.items() if name not in left}


@contextmanager
def program(code: str, settings: dict[str, str], folder: Path) -> Iterator[Any]:
    """Run a program; gives a function that waits until something has a value while it runs."""
    (folder / "app.py").write_text(code, "utf-8")
    quickly = {"spark.driver.extraJavaOptions": sessions.JVM, "spark.driver.memory": "1g"}
    common = {**sessions.SETTINGS, **quickly, "spark.master": "local[2]"}
    given = {**sessions.on_this_machine(common, "driver"), **settings}
    lines = "".join(f"{name} {value}\n" for name, value in given.items())
    (folder / "spark-defaults.conf").write_text(lines, "utf-8")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "app.py"],
            env=environment() | {"SPARK_CONF_DIR": str(folder)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def wait(found: Any, wanted: object) -> None:
        until = time.monotonic() + _LIMIT_S
        while (last := found()) != wanted:
            if process.poll() is not None or time.monotonic() > until:
                text = (folder / "log").read_text("utf-8", "replace")[-6_000:]
                raise AssertionError(f"{last} is not {wanted}; the program: {text}")
            time.sleep(0.2)

    try:
        yield wait
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
