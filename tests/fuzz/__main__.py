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
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument("--as-is", action="store_true", help="do not make failing cases smaller")
    arguments = parser.parse_args()
    if arguments.processes > 1 and arguments.seed is None:
        return _processes(arguments)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(_ROOT)  # what the workers import
    long = arguments.seed is None and arguments.minutes >= _LONG_MINUTES
    spark = sessions.session("local[2]", sessions.LONG if long else sessions.SETTINGS)
    done, failed, begun = 0, 0, time.monotonic()
    number = random.SystemRandom().randrange(1 << 40)
    number = number if arguments.round is None else arguments.round
    with tempfile.TemporaryDirectory(prefix="bsjoin-fuzz-") as folder:
        engine = Engine(spark, Path(folder), arguments.first)
        if arguments.seed is not None:
            failed = _run(engine, {arguments.seed: case_of(arguments.seed)}, arguments)
            print(f"seed {arguments.seed}: {'fails' if failed else 'holds'}")
        while arguments.seed is None and time.monotonic() - begun < 60 * arguments.minutes:
            with _ending(number):
                drawn = draw_round(number).cases
                failed += _run(engine, drawn, arguments)
            done, number = done + len(drawn), number + 1
            if failed and arguments.first:
                break
    if arguments.seed is None:
        spent, end = time.monotonic() - begun, number * SEEDS_A_ROUND
        print(f"{done} cases in {spent:.0f} s; the last seed is below {end}; {failed} failed")
    spark.stop()
    return 1 if failed else 0


def _processes(arguments: argparse.Namespace) -> int:
    """Several processes, each with rounds of its own; 1 if a case of one of them failed."""
    flags = [f"--{name.replace('_', '-')}" for name in ("first", "as_is") if vars(arguments)[name]]
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", str(arguments.minutes), *flags]
    starts = [[] if arguments.round is None else ["--round", str(arguments.round + 10_000 * i)]
              for i in range(arguments.processes)]  # fmt: skip
    running = [subprocess.Popen([*command, *start], cwd=_ROOT) for start in starts]
    try:
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
    return 1 if any(codes) else 0


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


def _run(engine: Engine, cases: dict[int, Case], arguments: argparse.Namespace) -> int:
    """Run the cases of a round, and hold the oracle against Spark; how many failed."""
    if not cases:
        return 0
    found = engine.failures(cases)
    shown = 1 if arguments.first else 3
    for seed, wrong in list(found.items())[:shown]:
        print(f"\nseed {seed} fails: {wrong}", flush=True)
        if arguments.as_is:
            continue
        kind = wrong.split(":")[0]

        def fails(case: Case, kind: str = kind) -> bool:
            again = engine.failures({0: case})
            return any(text.split(":")[0] == kind for text in again.values())

        small = shrunk(cases[seed], fails) if fails(cases[seed]) else cases[seed]
        print(as_test(seed, small, "; ".join(engine.failures({0: small}).values()) or wrong))
    for seed in list(found)[shown:]:
        print(f"seed {seed} fails: {found[seed].splitlines()[0]}", flush=True)
    sample = next(iter(cases))
    if wrong_oracle := disagreement(engine.spark, cases[sample]):
        print(f"\nseed {sample}: the oracle differs from Spark: {wrong_oracle}", flush=True)
        found[sample] = "the oracle"
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
