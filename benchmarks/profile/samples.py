"""What Python workers do, by py-spy: the shares of its samples, by group of functions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.harness.spark import run_stream

WAIT, WORKER, REST = "waiting for the JVM", "Spark's Python worker", "notes and the rest"

FUNCTIONS = {
    "bsjoin.runtimes.python.worker.open_table:OpenTable.find": "find keys",
    "bsjoin.runtimes.python.worker.open_table:OpenTable.run_lengths": "find keys",
    "bsjoin.cache.cache:HostCache.find": "find keys",
    "bsjoin.runtimes.python.worker.grouping:stored_groups": "find keys",
    "bsjoin.runtimes.python.worker.grouping:cached_groups": "find keys",
    "bsjoin.runtimes.python.worker.range_search:matches": "find keys",
    "bsjoin.runtimes.python.worker.open_table:OpenTable.gather": "gather rows",
    "bsjoin.runtimes.python.worker.row_refs:structs": "gather rows",
    "bsjoin.runtimes.python.worker.row_refs:lists": "gather rows",
    "bsjoin.runtimes.python.worker.chain_rows:Brought.columns": "gather rows",
    "bsjoin.runtimes.python.worker.chain_rows:Brought.column": "gather rows",
    "bsjoin.runtimes.python.worker.source_client:SourceClient.look_up": "query the source",
    "bsjoin.runtimes.python.worker.loading:Loader.load": "keep rows",
    "bsjoin.cache.cache:HostCache.claim": "keep rows",
    "bsjoin.cache.cache:HostCache.put": "keep rows",
    "bsjoin.partitioning.worker:routed": "route rows",
}
"""The groups; other functions of bsjoin are :data:`REST`."""

GROUPS = (*dict.fromkeys(FUNCTIONS.values()), REST, WORKER, WAIT)

_FRAME = re.compile(r"([^\s;]+) \(([^\s;]+?)(?:\.py)?:\d+\)")
_HOW = ("--subprocesses", "--nonblocking", "--idle", "--format=raw", "--rate=500")


def sampled(stream: DataFrame, first: int, batches: int) -> dict[str, float] | str:
    """Run a stream and sample the Python workers during some of its micro-batches.

    Returns:
        The share of each of :data:`GROUPS`; or why py-spy shows nothing.
    """
    program = Path(sysconfig.get_path("scripts"), "py-spy")
    streams = stream.sparkSession.streams
    with ThreadPoolExecutor(1) as pool, tempfile.TemporaryDirectory() as folder:
        file, said = Path(folder, "stacks"), Path(folder, "said")
        running = pool.submit(run_stream, stream, first + batches)
        while not running.done() and not any(
            (last := query.lastProgress) and last.batchId >= first for query in streams.active
        ):
            time.sleep(0.05)
        command = [program, "record", *_HOW, f"--pid={os.getpid()}", f"--output={file}"]
        try:
            with said.open("wb") as output:
                spy = subprocess.Popen(command, stdout=output, stderr=output)
        except OSError as error:
            running.result()
            return f"py-spy did not start: {error}"
        try:
            running.result()
        finally:
            spy.send_signal(signal.SIGINT)
            spy.wait()
        if spy.returncode or not file.exists():
            return f"py-spy may not trace: {said.read_text(errors='replace').strip()[-200:]}"
        return shares(file.read_text().splitlines())


def shares(stacks: Iterable[str]) -> dict[str, float] | str:
    """The share of each group in stacks of py-spy's raw format: frames, outermost first; a count.

    Workers between tasks, and the imports of new ones, do not count.
    """
    counts: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if "invoke_udf" in stack and not ("get_init_message" in stack or "importlib" in stack):
            counts[_group(stack)] += int(count)
    if not counts:
        return "py-spy took no sample inside of a task"
    return {group: counts[group] / counts.total() for group in GROUPS}


def _group(stack: str) -> str:
    """The group of the innermost function that has one."""
    for function, module in reversed(_FRAME.findall(stack)):
        group = FUNCTIONS.get(f"{module.replace('/', '.')}:{function}")
        if group or function.endswith(".load_stream"):
            return group or WAIT
    return REST if "(bsjoin/" in stack else WORKER
