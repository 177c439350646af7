"""The eight tables of TPC-H as Parquet files, and streams of its customers.

TPC-H is the retail benchmark of the Transaction Processing Performance Council: its tables and
their sizes are public, its rows are the same in every run. The BS-Join paper (section 6.1) takes
its tables from there. `tpchgen-cli`, a package with a program of its own, writes them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.kept import kept
from benchmarks.data.zipf import Shifting

_CUSTOMERS = 150_000  # per unit of the scale factor
_EXPONENT = 1.04


def customers(scale: float) -> int:
    """The number of customers at a scale factor."""
    return int(_CUSTOMERS * scale)


def tables(folder: Path, scale: float, *, program: Path | None = None) -> Path:
    """The folder with one Parquet file a table, ``customer.parquet`` and so on; made if need be.

    Args:
        folder: where all scale factors are kept.
        scale: 0.01 or more: below it partsupp has too few suppliers for unique keys.
        program: the generator; None: the one of this Python's environment, or on the path.
    """
    if not scale >= 0.01:
        raise ValueError(f"scale={scale!r}: it must be 0.01 or more")
    near = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = program or shutil.which("tpchgen-cli", path=near)
    if found is None:
        raise SystemExit(
            "TPC-H needs tpchgen-cli, and there is none beside this Python or on the path: "
            'pip install "bsjoin[benchmarks]", or pip install tpchgen-cli'
        )

    def make(place: Path) -> None:
        command = [found, "parquet", "-s", f"{scale:g}", "-o", place]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise SystemExit(
                f"tpchgen-cli ended with {done.returncode}: {said}. It must support "
                "`tpchgen-cli parquet -s SCALE -o FOLDER`: pip install --upgrade tpchgen-cli"
            )

    return kept(folder / f"tpch-{scale:g}", make)


def customer_ids(customers: int, rows: int, cycle: int, seed: int = 0) -> NDArray[np.int64]:
    """The customers of one cycle of a stream, which can be drawn by itself: ids 1 ... customers.

    Rank r has a weight of r^(-1.04), always in the same order of customers.
    """
    return Shifting(customers, _EXPONENT, rows, None, seed).cycle(cycle) + 1
