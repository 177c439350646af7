"""Run random joins: ``python -m tests.fuzz --minutes 10``, or one of them with ``--seed``."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import sessions
from tests.fuzz.case import Case
from tests.fuzz.draw import SEEDS_A_ROUND, case_of, draw_round
from tests.fuzz.engine import Engine
from tests.fuzz.shrink import as_test, shrunk
from tests.fuzz.spark_join import disagreement

_ROOT = Path(__file__).parent.parent.parent
_LONG_MINUTES = 5
_LONGEST_ROUND_S = 600
"""A round takes some ten seconds; one whose thread in the JVM has failed never ends."""


def main() -> int:
    """Run cases; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long; default 10")
    parser.add_argument("--seed", type=int, help="run this case alone")
    parser.add_argument("--round", type=int, help="the first round; default: a random one")
    parser.add_argument("--processes", type=int, default=1, help="each with rounds of its own")
    arguments = parser.parse_args()
    if arguments.processes > 1 and arguments.seed is None:
        command = [sys.executable, "-m", "tests.fuzz", "--minutes", str(arguments.minutes)]
        running = [subprocess.Popen(command, cwd=_ROOT) for _ in range(arguments.processes)]
        try:
            codes = [process.wait() for process in running]
        finally:
            for process in running:
                process.terminate()
        return int(any(codes))

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(_ROOT)  # what the workers import
    long = arguments.seed is None and arguments.minutes >= _LONG_MINUTES
    spark = sessions.session("local[2]", sessions.LONG if long else sessions.SETTINGS)
    done, failed, begun = 0, 0, time.monotonic()
    number = random.SystemRandom().randrange(1 << 40)
    number = number if arguments.round is None else arguments.round
    with tempfile.TemporaryDirectory(prefix="bsjoin-fuzz-") as folder:
        engine = Engine(spark, Path(folder), applies=True)
        if arguments.seed is not None:
            failed = _run(engine, {arguments.seed: case_of(arguments.seed)})
            print(f"seed {arguments.seed}: {'fails' if failed else 'holds'}")
        while arguments.seed is None and time.monotonic() - begun < 60 * arguments.minutes:
            with _ending(number):
                drawn = draw_round(number)
                failed += _run(engine, drawn)
            done, number = done + len(drawn), number + 1
    if arguments.seed is None:
        spent, end = time.monotonic() - begun, number * SEEDS_A_ROUND
        print(f"{done} cases in {spent:.0f} s; the last seed is below {end}; {failed} failed")
    spark.stop()
    return 1 if failed else 0


@contextmanager
def _ending(number: int) -> Iterator[None]:
    """End this process, and say so, if a round does not end."""

    def give_up() -> None:
        first = number * SEEDS_A_ROUND
        print(f"\nround {number} does not end: its first seed is {first}", flush=True)
        os._exit(2)

    timer = threading.Timer(_LONGEST_ROUND_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run(engine: Engine, cases: dict[int, Case]) -> int:
    """Run the cases of a round, and hold the oracle against Spark; how many failed."""
    found = engine.failures(cases) if cases else {}
    for seed, wrong in found.items():
        print(f"\nseed {seed} fails: {wrong}", flush=True)
    for seed, wrong in list(found.items())[:3]:
        kind = wrong.split(":")[0]

        def fails(case: Case, kind: str = kind) -> bool:
            again = engine.failures({0: case})
            return any(text.split(":")[0] == kind for text in again.values())

        small = shrunk(cases[seed], fails) if fails(cases[seed]) else cases[seed]
        print(as_test(seed, small, "; ".join(engine.failures({0: small}).values()) or wrong))
    for seed, case in cases.items():  # the first one that Spark has a plain join for
        if (told := disagreement(engine.spark, case)) != "":
            if told is not None:
                print(f"\nseed {seed}: the oracle differs from Spark: {told}", flush=True)
                found[seed] = "the oracle"
            break
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
