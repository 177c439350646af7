"""Many workers of a host share one cache: they ask once, hold it once, and survive each other."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import worker_checks
from cache_runs import planes
from cache_samples import Model, until
from checks_apart import each, environment, passes
from pyspark.sql import SparkSession

import bsjoin
from bsjoin import Incremental

TESTS = Path(__file__).resolve().parent

pytestmark = pytest.mark.slow


@each(worker_checks.CHECKS)
def test_four_workers_share_a_cache(check: str) -> None:
    passes("worker_checks.py", check)


def test_two_workers_query_every_key_once(spark: SparkSession, tmp_path: Path) -> None:
    worker_checks.every_key_is_queried_once(spark, tmp_path, workers=2)


APPLICATION = """
import sys
from pathlib import Path
import bsjoin, bsjoin.planner.incremental_cache
from bsjoin import Incremental
from cache_runs import planes
from cache_samples import Model
from sessions import INTERPRETED, session

def told(token, base, remove=bsjoin.planner.incremental_cache.remove_at_exit):
    print("token", token, flush=True)
    remove(token, base)

bsjoin.planner.incremental_cache.remove_at_exit = told
folder = Path(sys.argv[1])
spark = session("local[2]", INTERPRETED)
stream = spark.range(3).toDF("k")
for place in (folder / "cache", None):
    source = Model(folder / "model", planes([1, 2]))
    cache = Incremental(max_rows=10, folder=place)
    assert bsjoin.join(stream, source, "k", cache=cache).count() == 2
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def application(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """An application with two caches, and their names; it waits for a line before it ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", APPLICATION, str(folder)],
        env=environment(),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    tokens = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("token"):
                tokens.append(line.split()[1])
            if line.startswith("ready"):
                break
        try:
            assert len(tokens) == 2
            yield process, tokens
        finally:
            process.kill()


def there(folder: Path, tokens: list[str]) -> list[Path]:
    """The folders of caches, in a folder that was given and where they are by default."""
    places = (folder / "cache", Path("/dev/shm"), Path("/tmp"))
    names = [f"bsjoin-*/cache-{token}" for token in tokens]
    return [path for place in places for name in names for path in place.glob(name)]


def test_the_caches_of_an_application_go_when_it_ends(tmp_path: Path) -> None:
    with application(tmp_path) as (process, tokens):
        assert len(there(tmp_path, tokens)) == 2
        assert all(path.stat().st_mode & 0o77 == 0 for path in there(tmp_path, tokens))
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
        until(lambda: not there(tmp_path, tokens), "the end of its caches", 20)


def test_the_caches_of_a_killed_application_go_with_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    with application(tmp_path) as (process, tokens):

        def join() -> list[Path]:
            model = Model(tmp_path / "model", planes([1]))  # anew, and so are its caches
            for place in (tmp_path / "cache", None):
                cache = Incremental(max_rows=10, folder=place)
                stream = spark.range(3).toDF("k")
                assert bsjoin.join(stream, model, "k", cache=cache).count() == 1
            return there(tmp_path, tokens)

        assert len(join()) == 2  # not while it lives
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        # Its Java process and its workers end a moment later.
        until(lambda: not join(), "the end of its caches")
