"""The eight tables of TPC-H as Parquet files.

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

from benchmarks.data.kept import kept


def tables(folder: Path, scale: float) -> Path:
    """The folder with one Parquet file a table, ``customer.parquet`` and so on; made if need be.

    Args:
        folder: where all scale factors are kept.
        scale: 0.01 or more: below it partsupp has too few suppliers for unique keys.
    """
    near = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("tpchgen-cli", path=near)
    if program is None:
        raise SystemExit(
            "TPC-H needs tpchgen-cli, and there is none beside this Python or on the path: "
            'pip install "bsjoin[benchmarks]", or pip install tpchgen-cli'
        )
    command = [program, "parquet", "-s", f"{scale:g}", "-o"]
    return kept(
        folder / f"tpch-{scale:g}", lambda place: subprocess.run([*command, place], check=True)
    )
