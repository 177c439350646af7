"""A run of its own for ``test_interrupted_runs.py``: it starts what tests start, and waits."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest


def test_wait(request: pytest.FixtureRequest) -> None:
    stubborn = "trap '' TERM; " if os.environ["INTERRUPTED_IS_STUBBORN"] else ""
    started = [subprocess.Popen(["sh", "-c", f"{stubborn}sleep 600 & wait; sleep 600"]).pid]
    folders = []
    for name in os.environ["INTERRUPTED_FIXTURES"].split():
        thing = request.getfixturevalue(name)
        if name == "spark":
            assert thing.range(3).rdd.map(lambda row: row.id).count() == 3
        else:
            started += [p.pid for p in psutil.Process(thing.process.pid).children(recursive=True)]
            started.append(thing.process.pid)
            folders.append(str(thing.folder))
    started += [p.pid for p in psutil.Process().children(recursive=True)]
    from bsjoin.host.folders import temporary_folder

    folders.append(str(temporary_folder("interrupted").path))
    told = {"run": os.getpid(), "started": sorted({*started}), "folders": folders}
    file = Path(os.environ["INTERRUPTED_TELLS"])
    made = Path(tempfile.mkstemp(dir=file.parent)[1])
    made.write_text(json.dumps(told))
    made.rename(file)
    time.sleep(600)
