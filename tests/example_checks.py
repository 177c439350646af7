"""The programs of ``examples/``, small, one after the other: see :mod:`checks_apart`."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

from checks_apart import TESTS, Check, run

EXAMPLES = TESTS.parent / "examples"
ARGUMENTS = {
    "addresses": ["--requests", "20000"],
    "database": ["--limit", "20000"],
    "flights": ["--limit", "30000"],
    "placement": ["--orders", "30000"],
    "prices": ["--sales", "20000"],
    "real_time": ["--seconds", "4"],
    "roads": ["--reports", "40000"],
    "skew": ["--clicks", "120000"],
}


def check_of(name: str) -> Check:
    """Whether a program ends, and finds that its results are right."""

    def check(_: object, folder: Path) -> None:
        sys.argv = [str(EXAMPLES / f"{name}.py"), "--out", str(folder / "out"), *ARGUMENTS[name]]
        status: object = 0
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                runpy.run_path(sys.argv[0], run_name="__main__")
            except SystemExit as ended:
                status = ended.code
        assert not status, f"{status}: {printed.getvalue()}"
        assert "WRONG" not in printed.getvalue(), printed.getvalue()

    return check


CHECKS = {name: check_of(name) for name in ARGUMENTS}

if __name__ == "__main__":
    sys.path.insert(0, str(EXAMPLES))
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1"  # starts sooner
    run(CHECKS, SimpleNamespace(stop=lambda: None, streams=SimpleNamespace(active=())))
